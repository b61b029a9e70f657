"""The values an admin may write, and how a wrong one is spoken of.

A validator that refuses calls `wrong`: what is wrong, and how to mend it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from math import isnan, nan
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MAX_SECONDS = 10 * 365 * 86400.0
"""The longest duration: a longer one is a slip, and much longer ones end beyond the last date."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?[smhd])+\Z")
_DURATION_MEND = (
    'write a number with s, m, h or d, such as "20m" or "1h30m"; a bare number is seconds'
)


def wrong(what: str, mend: str) -> NoReturn:
    """One problem, in two halves: what is wrong, and how to mend it."""
    raise PydanticCustomError("ec2spawner", "{what}", {"what": what, "mend": mend})


def seconds(value: object) -> float:
    """A duration as an admin writes it, in seconds. For use as a pydantic validator."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        wrong(f"{shown(value)} is no duration", _DURATION_MEND)
    text = str(value).replace(" ", "")
    if text.startswith("-"):
        wrong(f"{shown(value)} is negative", _DURATION_MEND)
    if _DURATION.match(text):
        parts = re.findall(r"([\d.]+)([smhd])", text)
        total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        try:
            total = float(text)
        except ValueError:
            total = nan
    if isnan(total):
        wrong(f"{shown(value)} is no duration", _DURATION_MEND)
    if total > MAX_SECONDS:
        wrong(f"{shown(value)} is longer than 10 years", _DURATION_MEND)
    return total


def _above_zero(value: float) -> float:
    if value <= 0:
        wrong("must be longer than 0", _DURATION_MEND)
    return value


def _pattern(pattern: str, kind: str, example: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            wrong(f"{shown(value)} is no {kind}", f'write it like "{example}"')
        return value

    return AfterValidator(check)


def listed(value: object) -> object:
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
Texts = Annotated[tuple[str, ...], BeforeValidator(listed)]

MAX_LISTED = 40
"""More names than this help nobody in an error message."""

MAX_DISK_GIB = 16384
"""EBS's limit for a gp3 volume, as every region has it."""


class Words(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, str_strip_whitespace=True
    )


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
