"""Bounds how many messages of one kind are sent: the rest of an hour becomes one. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from .alarm import Alarm, Kind

HOUR: Final = timedelta(hours=1)

NAMED: Final = 20
"""Titles that the message about the rest lists."""

REST: Final = "rest"
"""Begins the subject of the message about the rest of an hour."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alarm that was raised, as it is stored."""

    alarm: Alarm
    grouped: bool = False
    """Not sent by itself, but with the rest of its hour."""


def admitted(before: Iterable[Raised], new: Sequence[Alarm], per_hour: int) -> tuple[Raised, ...]:
    """The new alarms; those beyond `per_hour` of one kind in an hour of UTC are grouped.

    `before` are those that were raised in the same hours.
    """
    sent = Counter((each.alarm.kind, _hour(each.alarm.at)) for each in before if _counts(each))
    found = []
    for alarm in new:
        key = alarm.kind, _hour(alarm.at)
        is_rest = alarm.subject.startswith(f"{REST}/")
        grouped = not is_rest and sent[key] >= per_hour
        sent[key] += not grouped and not is_rest
        found.append(Raised(alarm, grouped))
    return tuple(found)


def rests(raised: Iterable[Raised], now: datetime) -> Iterator[Alarm]:
    """One alarm for each kind and past hour in which some were grouped.

    The same again as long as `raised` has them: each has one identity.
    """
    grouped: defaultdict[tuple[Kind, datetime], list[Alarm]] = defaultdict(list)
    for each in raised:
        if each.grouped:
            grouped[each.alarm.kind, _hour(each.alarm.at)].append(each.alarm)
    for (kind, hour), alarms in grouped.items():
        if now < hour + HOUR:
            continue
        lines = [f"- {alarm.title}" for alarm in alarms[:NAMED]]
        if len(alarms) > NAMED:
            lines.append(f"- and {len(alarms) - NAMED} more")
        yield Alarm(
            kind,
            f"{REST}/{hour:%Y-%m-%dT%H}",
            "",
            f"And {len(alarms)} more alarms of the kind {kind}",
            f"Between {hour:%H:%M} and {hour + HOUR:%H:%M} UTC on {hour:%Y-%m-%d}:\n"
            + "\n".join(lines),
            now,
        )


def _counts(raised: Raised) -> bool:
    return not raised.grouped and not raised.alarm.subject.startswith(f"{REST}/")


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
