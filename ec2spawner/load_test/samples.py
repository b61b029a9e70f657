"""How long each step of each user took, or why it failed: a file that the child appends to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

FILE: Final = "samples.jsonl"

BUSY: Final = "driver-busy"
"""File that exists if the child needed more than 90 % of a core: its samples are then too long."""


class Step(StrEnum):
    """What a user does, in this order; the names of locust's statistics."""

    LOGIN = "login"
    SPAWN_PAGE = "spawn page"
    START = "start to ready"
    OPEN = "open lab"
    KERNEL = "kernel start"
    CELL = "cell"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Sample:
    """One step of one user."""

    step: Step
    seconds: float
    error: str = ""
    """Why it failed; empty if it did not."""


def append(folder: str, sample: Sample) -> None:
    """Write one sample; with no folder this does nothing."""
    if folder:
        line = json.dumps([sample.step, round(sample.seconds, 4), sample.error])
        with Path(folder, FILE).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def note_busy(folder: str) -> None:
    """Note that the child is short of CPU time; with no folder this does nothing."""
    if folder:
        Path(folder, BUSY).touch()


def driver_was_busy(folder: Path) -> bool:
    """Whether the child noted so."""
    return (folder / BUSY).exists()


def read(folder: Path) -> list[Sample]:
    """All samples so far."""
    path = folder / FILE
    return parse(path.read_text("utf-8").splitlines()) if path.exists() else []


def parse(lines: Iterable[str]) -> list[Sample]:
    """The samples of these lines; one that was being written when its process ended is ignored."""
    found = []
    for line in lines:
        try:
            step, seconds, error = json.loads(line)
        except ValueError:
            continue
        found.append(Sample(Step(step), seconds, error))
    return found
