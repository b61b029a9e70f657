"""`c.EC2Spawner.after_stop`: what becomes of a server's instance when the server has stopped."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from ...core.instances.retention_rules import AfterStop
from ..values import PositiveDuration, Words, as_written, shown, wrong

_FORMS: Final = 'write "terminate", {"linger": "10m"} or {"stop": "7d"}'

LONGEST_LINGER: Final = 3600.0
"""Seconds: a machine that waits costs what one at work does, and a boot takes minutes."""


class AfterStopConfig(Words):
    """At most one of `linger` and `stop`; neither terminates the instance. The texts
    `"terminate"`, `"linger"` and `"stop"` are short for the dict with its usual times."""

    linger: PositiveDuration | None = Field(
        default=None,
        description="After a stop by its user, keep the instance running for this long for a new "
        "start of the same server: a restart takes seconds. It costs as much as before. At most 1 "
        "h.",
        examples=["10m"],
    )
    stop: PositiveDuration | None = Field(
        default=None,
        description="After a stop by its user or for idleness or age, stop an on-demand instance "
        "and keep its disk for this long for the same server's next start. Only the disk costs "
        "money meanwhile. AWS cannot do that with spot instances: they are terminated.",
        examples=["7d"],
    )
    per_user: int = Field(
        default=3,
        ge=1,
        description="For `stop`: how many stopped instances a user may have; further ones are "
        "terminated.",
    )

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if self.linger is not None and self.stop is not None:
            wrong("says both linger and stop", f"keep one: {_FORMS}")
        if self.linger is not None and self.linger > LONGEST_LINGER:
            wrong(
                f"{self.linger:g} s is long for a machine that nobody uses and somebody pays",
                'make "linger" 1h or less, or use {"stop": "7d"}',
            )
        return self

    def rule(self) -> AfterStop:
        """The rule with durations in seconds; terminate if nothing is configured."""
        if self.linger is not None:
            return AfterStop("linger", self.linger)
        if self.stop is not None:
            return AfterStop("stop", self.stop, self.per_user)
        return AfterStop()


def from_text(value: object) -> object:
    """A text is short for a dict. For use as a pydantic validator."""
    if not isinstance(value, str):
        return value
    try:
        return _SHORT[value.strip()]
    except KeyError:
        wrong(f"{shown(value)} is nothing that can be done with an instance", _FORMS)


_SHORT: Final = {"terminate": {}, "linger": {"linger": "10m"}, "stop": {"stop": "7d"}}

AfterStopWords = Annotated[AfterStopConfig, BeforeValidator(from_text)]

TERMINATE: Final = as_written("terminate")
