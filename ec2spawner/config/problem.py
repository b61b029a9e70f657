"""A problem of one option, in words for an admin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One option that cannot work or has no effect, why, and how to fix it."""

    option: str
    """As the admin wrote it, such as `c.EC2Spawner.subnets`."""
    wrong: str
    fix: str

    def __str__(self) -> str:
        return f"{self.option}: {self.wrong}. Fix: {self.fix}"


class ConfigError(ValueError):
    """The configuration cannot work; the message has a line for each problem."""

    def __init__(
        self,
        problems: Sequence[Problem],
        heading: str = "ec2spawner cannot start with this configuration:",
    ) -> None:
        super().__init__("\n".join([heading, *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)
