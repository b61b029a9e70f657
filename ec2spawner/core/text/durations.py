"""Durations in configuration and messages: `"20m"`, `"1h30m"`, or a number of seconds. Pure."""

from __future__ import annotations

import re

MAX_SECONDS = 10 * 365 * 86400.0
"""The longest duration: a longer one is a mistake, and much longer ones overflow `datetime`."""

FIX = 'write a number with s, m, h or d, such as "20m" or "1h30m"; a bare number is seconds'

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WITH_UNITS = re.compile(r"([0-9]+(\.[0-9]+)?[smhd])+")
_PART = re.compile(r"([0-9.]+)([smhd])")


class NotADuration(ValueError):
    """The message is "is no duration", "is negative" or "is longer than 10 years"."""


def seconds(value: object) -> float:
    """A duration in seconds, 0 or more. Raises `NotADuration` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NotADuration("is no duration")
    text = str(value) if isinstance(value, str | float) else _digits(value)
    if text.startswith("-"):
        raise NotADuration("is negative")
    total = _total(text)
    if total != total:
        raise NotADuration("is no duration")
    if total > MAX_SECONDS:
        raise NotADuration("is longer than 10 years")
    return total


def in_words(seconds: float) -> str:
    """A duration in its two largest units: "1 hour 30 minutes", "45 seconds"."""
    left = max(round(seconds), 0)
    parts = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


def approximate(seconds: float) -> str:
    """A duration in one unit: "40 seconds", "2 minutes", "1.5 hours", "3 days"."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * length or (seconds >= length and seconds % length == 0):
            return _counted(seconds / length, unit)
    return _counted(seconds, "second")


def _counted(number: float, unit: str) -> str:
    # 90 minutes are "1.5 hours", and 89 seconds are not "1.48 minutes".
    text = f"{round(number * 2) / 2 if unit in ('hour', 'day') else round(number):g}"
    return f"{text} {unit}" if text == "1" else f"{text} {unit}s"


def _digits(value: int) -> str:
    # Python refuses to write out an int of thousands of digits.
    return str(max(-1, min(value, int(MAX_SECONDS) + 1)))


def _total(text: str) -> float:
    """Seconds; NaN for text that is no duration."""
    if _WITH_UNITS.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    try:
        return float(text)
    except ValueError:
        return float("nan")
