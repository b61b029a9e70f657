"""Bounds how many messages of one kind, and of one user, are sent: the rest of an hour becomes one.
Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ..text.untrusted import visible
from .alarm import Alarm, Kind

MAX_GROUPED: Final = 500
"""Alarms of one kind in an hour that are grouped. Further ones are not stored, and the message
about the rest says that there were at least so many."""

HOUR: Final = timedelta(hours=1)

NAMED: Final = 20
"""Titles that the message about the rest lists."""

NAMED_PER_USER: Final = 3
"""Titles of one user among them, and users whose number of further alarms it says."""

REST: Final = "rest"
"""Begins the subject of the message about the rest of an hour."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alarm that was raised, as it is stored."""

    alarm: Alarm
    grouped: bool = False
    """Not sent by itself, but with the rest of its hour."""


def admitted(before: Iterable[Raised], new: Sequence[Alarm], per_hour: int) -> tuple[Raised, ...]:
    """The new alarms; those beyond `per_hour` of one kind in an hour of UTC are grouped, and those
    of one user beyond half as many: nobody can use up the messages of all. Beyond another
    `MAX_GROUPED` of a kind they are left out.

    `before` are those that were raised in the same hours.
    """
    before = tuple(before)
    sent = Counter(key for each in before if _counts(each) for key in _keys(each.alarm))
    held = Counter(_of_kind(each.alarm) for each in before if each.grouped)
    per_user, found = max(per_hour // 2, 1), []
    for alarm in new:
        keys, is_rest = _keys(alarm), alarm.subject.startswith(f"{REST}/")
        bounds = (per_hour, per_user)
        is_full = any(sent[key] >= most for key, most in zip(keys, bounds, strict=False))
        grouped = is_full and not is_rest
        if grouped and held[_of_kind(alarm)] >= MAX_GROUPED:
            continue
        held[_of_kind(alarm)] += grouped
        if not grouped and not is_rest:
            sent.update(keys)
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
        lines = [f"- {line}" for line in _lines(alarms)]
        yield Alarm(
            kind,
            f"{REST}/{hour:%Y-%m-%dT%H}",
            "",
            f"And {_at_least(len(alarms))}{len(alarms)} more alarms of the kind {kind}",
            f"Between {hour:%H:%M} and {hour + HOUR:%H:%M} UTC on {hour:%Y-%m-%d}:\n"
            + "\n".join(lines),
            now,
        )


def _at_least(count: int) -> str:
    return "at least " if count >= MAX_GROUPED else ""


def _lines(alarms: Sequence[Alarm]) -> list[str]:
    """Their titles, at most `NAMED_PER_USER` of each user and `NAMED` in all, and how many more
    there are."""
    named: Counter[str] = Counter()
    lines, left = list[str](), Counter[str]()
    for alarm in alarms:
        if len(lines) >= NAMED or (alarm.user and named[alarm.user] >= NAMED_PER_USER):
            left[alarm.user] += 1
            continue
        named[alarm.user] += 1
        lines.append(alarm.title)
    most = left.most_common(NAMED_PER_USER)
    lines += [f"and {number} more of {visible(user)}" for user, number in most if user]
    others = left.total() - sum(number for user, number in most if user)
    return [*lines, f"and {others} more"] if others else lines


def _of_kind(alarm: Alarm) -> tuple[Kind, datetime]:
    return alarm.kind, _hour(alarm.at)


def _keys(alarm: Alarm) -> tuple[tuple[object, ...], ...]:
    """Under which it is counted: with all of its kind, and with those of its user."""
    of_kind = _of_kind(alarm)
    return (of_kind, (*of_kind, alarm.user)) if alarm.user else (of_kind,)


def _counts(raised: Raised) -> bool:
    return not raised.grouped and not raised.alarm.subject.startswith(f"{REST}/")


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
