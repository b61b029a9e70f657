"""For whom instances of the warm pool are kept before these users start a server. Pure.

A server is expected if it was started around this time of the week in at least two of the last four
weeks, and has not been started around it today.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from ...wire import Market
from .forecast import WEEKS
from .rules import PoolRule, PoolRules
from .schedule import is_in_force

Item = TypeVar("Item")

AHEAD: Final = timedelta(minutes=30)
"""How long before the time of an earlier start its server is expected: some come earlier than last
week, and the calls for all homes are made before the first of them comes."""

LATE: Final = timedelta(minutes=30)
"""How long after that time it still is: some come later than last week."""

MIN_WEEKS: Final = 2
"""In so many of the last weeks: one start on a Tuesday at nine is no habit."""


class Expected(NamedTuple):
    """A server that usually starts around now."""

    user: str
    server: str
    until: datetime
    """UTC: by then it would be later than on any of those days."""


Start = tuple[datetime, str, str]
"""When a server was requested, UTC, its user and its name."""


def expected(starts: Sequence[Start], now: datetime, place: tzinfo) -> Sequence[Expected]:
    """The servers that usually start within the next `AHEAD`, the most regular first.

    `starts` are in ascending order. Weeks and times of day are those of `place`: they stay when the
    clock changes. Of equally regular servers the one that started last comes first.
    """
    here = now.astimezone(place)
    weeks: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], datetime] = {}
    times: dict[tuple[str, str], datetime] = {}
    for week in range(WEEKS, 0, -1):
        # Within one zone, Python subtracts from the time of day.
        at = (here - timedelta(weeks=week)).astimezone(UTC)
        around = {
            (user, name): begun for begun, user, name in _between(starts, at - LATE, at + AHEAD)
        }
        for server, begun in around.items():
            weeks[server] += 1
            latest[server] = begun
            times[server] = max(now + (begun - at), times.get(server, now - LATE))
    today = {(user, name) for _, user, name in _between(starts, now - LATE - AHEAD, now)}
    found = [
        server
        for server, number in weeks.items()
        if number >= MIN_WEEKS and times[server] >= now and server not in today
    ]
    found.sort(key=lambda server: (-weeks[server], -latest[server].timestamp(), server))
    return [Expected(*server, times[server] + LATE) for server in found]


def most_homes(
    rules: PoolRules, now: datetime, leads: Mapping[str, float]
) -> Mapping[tuple[str, Market], PoolRule]:
    """By profile and market, the rule in force that allows the most homes. `leads` are the boot
    times by profile, in seconds. Groups for which none allows any are left out."""
    found: dict[tuple[str, Market], PoolRule] = {}
    for rule in rules.rules:
        if rule.homes_ahead and is_in_force(rule.hours, now, leads.get(rule.profile, 0.0)):
            group = rule.profile, rule.market
            found[group] = max(found.get(group, rule), rule, key=lambda each: each.homes_ahead)
    return found


def in_their_zones(
    homes: Iterable[tuple[str, Item]], waiting: Mapping[str, Collection[str]], most: int
) -> Iterator[tuple[Item, str]]:
    """Up to `most` of the items, each with the id of an instance of its own in its zone.

    `homes` are pairs of zone and item, the first come first. `waiting` has the ids of the instances
    by zone. One without an instance there is left out: a volume is attached in its zone only.
    """
    left = {zone: list(instance_ids) for zone, instance_ids in waiting.items()}
    for zone, item in homes:
        if most <= 0 or not any(left.values()):
            return
        if of_zone := left.get(zone):
            most -= 1
            yield item, of_zone.pop(0)


def _between(starts: Sequence[Start], begin: datetime, end: datetime) -> Sequence[Start]:
    """Both ends included."""
    first = bisect_left(starts, begin, key=itemgetter(0))
    return starts[first : bisect_right(starts, end, key=itemgetter(0))]
