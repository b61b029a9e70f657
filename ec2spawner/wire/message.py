"""The parts of all messages: bounded text, amounts with a unit, the protocol's number."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

PROTOCOL = 2
"""The protocol this code speaks. 2 added certificates to the grant."""

MAX_BODY_BYTES = 64 * 1024
"""A body larger than this is refused unread: an identity document with its signature is ~4 KiB."""


def _printable(text: str) -> str:
    """Lines of plain text: no escape sequence reaches a terminal, no NUL a database."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


ShortText = Annotated[str, Field(max_length=500), AfterValidator(_printable)]
Seconds = Annotated[float, Field(ge=0)]

MAX_MEASURED_SECONDS = 86_400.0
"""A start's parts take minutes; a longer time says nothing about one."""


def _measured(seconds: float | None) -> float | None:
    return None if seconds is None or seconds > MAX_MEASURED_SECONDS else seconds


MeasuredSeconds = Annotated[Seconds | None, AfterValidator(_measured)]
"""A part of a start that the agent has measured. More than a day is read as unknown, not refused:
an instance that waits, or whose server has ended, may claim days after its agent started."""
ProtocolNumber = Annotated[int, Field(ge=0, le=9999)]
Percent = Annotated[float, Field(ge=0, le=100)]


class Message(BaseModel):
    """Base of all messages: frozen; ignores newer fields, and refuses NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Market(StrEnum):
    """How EC2 sells an instance; the values are those of configuration and messages."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"


Then = Literal["terminate", "linger", "stop"]
"""What becomes of an instance when its server has stopped: it ends; it waits for its user's
restart; its disk is kept while it is stopped."""
