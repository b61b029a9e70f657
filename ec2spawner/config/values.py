"""The values an admin may write, and how a wrong one is spoken of.

A validator that refuses calls `wrong`: what is wrong, and how to fix it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, NoReturn, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ..core.text import durations


def wrong(what: str, fix: str) -> NoReturn:
    """One problem, in two halves: what is wrong, and how to fix it."""
    raise PydanticCustomError("ec2spawner", "{what}", {"what": what, "fix": fix})


def seconds(value: object) -> float:
    """A duration as an admin writes it, in seconds. For use as a pydantic validator."""
    try:
        return durations.seconds(value.replace(" ", "") if isinstance(value, str) else value)
    except durations.NotADuration as error:
        wrong(f"{shown(value)} {error}", durations.FIX)


def _above_zero(value: float) -> float:
    if value <= 0:
        wrong("must be longer than 0", durations.FIX)
    return value


def _pattern(pattern: str, kind: str, example: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            wrong(f"{shown(value)} is no {kind}", f'write it like "{example}"')
        return value

    return AfterValidator(check)


def listed(value: object) -> object:
    """Refuse a text in the place of a list: Python would take its characters as the items."""
    if isinstance(value, str):
        wrong(f"{shown(value)} is one text, not a list", f"put it in a list: [{value!r}]")
    return value


Duration = Annotated[float, BeforeValidator(seconds)]
PositiveDuration = Annotated[float, BeforeValidator(seconds), AfterValidator(_above_zero)]
SubnetId = Annotated[str, _pattern(r"subnet-[0-9a-z]+", "subnet id", "subnet-0a1b2c3d")]
SecurityGroupId = Annotated[str, _pattern(r"sg-[0-9a-z]+", "security group id", "sg-0a1b2c3d")]
ImageId = Annotated[str, _pattern(r"(ami-[0-9a-z]+)?", "image id", "ami-0a1b2c3d")]
HttpUrl = Annotated[
    str, _pattern(r"(https?://[^/\s]+\S*)?", "http address", "http://10.0.0.5:8081")
]
RoleArn = Annotated[
    str,
    _pattern(
        r"(arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+)?",
        "ARN of an IAM role",
        "arn:aws:iam::123456789012:role/ec2spawner-rehearsal",
    ),
]
QueueUrl = Annotated[
    str,
    _pattern(
        r"(https?://[^/\s]+/\d{12}/[A-Za-z0-9_-]{1,80})?",
        "URL of an SQS queue",
        "https://sqs.us-east-1.amazonaws.com/123456789012/ec2spawner-interruptions",
    ),
]
Texts = Annotated[tuple[str, ...], BeforeValidator(listed)]


class OrFunction:
    """Take a function of the spawner as it is; judge anything else as what stands beside it.

    For `Annotated[X | SpawnerFunction, OrFunction()]`, so that an error names X and not a union.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        [beside] = [kind for kind in get_args(source) if get_origin(kind) is not Callable]
        return core_schema.no_info_wrap_validator_function(
            lambda value, judge: value if callable(value) else judge(value),
            handler.generate_schema(beside),
        )


SpawnerFunction = Callable[[Any], Any]
"""What an admin writes instead of a value: called with the spawner, sync or async."""

MAX_LISTED = 40
"""More names than this help nobody in an error message."""

MAX_DISK_GIB = 16384
"""EBS's limit for a gp3 volume, as every region has it."""


class Words(BaseModel):
    """Base of all options: immutable, unknown keys are refused, defaults are validated too."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, str_strip_whitespace=True
    )


class Bounds(Words):
    """Two values within which a user may choose; `min` is not above `max`."""

    UNIT: ClassVar[str] = ""
    min: float
    max: float

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            wrong(
                f"its min, {self.min:g}{self.UNIT}, is above its max, {self.max:g}{self.UNIT}",
                "swap them",
            )
        return self


class Code(str):
    """An example that is no value, but a name of the admin's own."""

    def __repr__(self) -> str:
        return str(self)


def as_written(words: object) -> Any:
    """A default in an admin's words: it is validated like theirs, and documented as written."""
    return words


def suggest(wrote: str, known: Iterable[str], *, all_known: bool = True) -> str:
    """Close matches of what the admin wrote, and a list of all where that is short."""
    by_fold = {name.casefold(): name for name in sorted(known)}
    close = [by_fold[key] for key in get_close_matches(wrote.casefold(), by_fold, n=3)]
    parts = [f"did you mean {' or '.join(close)}?"] if close else []
    if len(by_fold) <= MAX_LISTED and (all_known or not close):
        parts.append(f"known: {', '.join(by_fold.values())}")
    return " ".join(parts) or "check how it is spelled"


def shown(value: object) -> str:
    """What the admin wrote, short enough for a line."""
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
