"""`c.EC2Spawner.runs`: notebooks and scripts that are executed to completion."""

from __future__ import annotations

from pydantic import Field, field_validator

from ...core.runs.queue import QueueRules
from ..values import Words, wrong

MAX_AT_ONCE = 5000
"""More instances than one hub is measured with."""


class RunsConfig(Words):
    """What all users may have; limits bind runs as they bind servers."""

    at_once: int = Field(
        default=0,
        ge=0,
        le=MAX_AT_ONCE,
        description="How many runs may have an instance at the same time; all others wait in a "
        "queue. 0 allows no runs.",
        examples=[20],
    )
    at_once_per_user: int | None = Field(
        default=None,
        ge=1,
        le=MAX_AT_ONCE,
        description="The same of each user. None is as many as the hub allows.",
        examples=[10],
    )
    priorities: dict[str, int] = Field(
        default={},
        description="Whose runs start first, by payer: those of the highest number. A payer that "
        "is not named has 0. Of equal ones the user with the fewest runs under way comes first.",
        examples=[{"group:research": 10, "group:students": -10}],
    )

    @field_validator("priorities")
    @classmethod
    def _of_payers(cls, value: dict[str, int]) -> dict[str, int]:
        for payer in value:
            kind, _, name = payer.partition(":")
            if kind not in {"user", "group", "project"} or not name:
                wrong(
                    f"{payer!r} is no payer",
                    'name one as "user:ann", "group:research" or "project:nlp"',
                )
        return value

    def rules(self) -> QueueRules:
        """As the queue follows them."""
        return QueueRules(self.at_once, self.at_once_per_user, dict(self.priorities))
