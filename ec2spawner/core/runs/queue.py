"""Which queued runs get an instance now. Pure: plain values in, numbers of runs out."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How many runs have an instance at the same time, and who comes first."""

    at_once: int = 0
    """Of the hub; 0 allows no runs."""
    at_once_per_user: int | None = None
    """Of each user; None is as many as the hub allows."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """By payer, such as `group:research`: the highest comes first; one that is not named has 0."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A run, as far as the queue is concerned."""

    number: int
    user: str
    payer: str
    array: int = 0
    """Number of the first run of its array; 0 for a run of its own."""
    array_at_once: int | None = None
    """So many runs of its array at most have an instance at the same time; None for any."""
    not_before: datetime | None = None
    """When it may start again after an attempt that failed."""


def next_runs(
    queued: Sequence[QueuePlace], started: Sequence[QueuePlace], rules: QueueRules, now: datetime
) -> list[int]:
    """The runs to start now, the first at the front.

    By priority of the payer; of the same priority the user with the fewest runs under way, and of
    the same user the run that was submitted first. So an array of a thousand does not hold up a
    colleague's single run.
    """
    free = rules.at_once - len(started)
    of_user = Counter(each.user for each in started)
    of_array = Counter(each.array for each in started if each.array)
    most = rules.at_once if rules.at_once_per_user is None else rules.at_once_per_user
    chosen: list[int] = []
    for _, users in _by_priority(queued, rules, now):
        order = [(of_user[user], places[0].number, user) for user, places in users.items()]
        heapify(order)
        while order and len(chosen) < free:
            count, _, user = heappop(order)
            place = _next_of(users[user], of_array)
            if place is None or count >= most:
                continue
            chosen.append(place.number)
            of_user[user] += 1
            of_array[place.array] += bool(place.array)
            if users[user]:
                heappush(order, (of_user[user], users[user][0].number, user))
    return chosen


def _by_priority(
    queued: Sequence[QueuePlace], rules: QueueRules, now: datetime
) -> list[tuple[int, dict[str, deque[QueuePlace]]]]:
    """By priority, the highest first: those of each user that may start, by number."""
    found: dict[int, dict[str, deque[QueuePlace]]] = defaultdict(lambda: defaultdict(deque))
    for place in sorted(queued, key=lambda each: each.number):
        if place.not_before is None or place.not_before <= now:
            found[rules.priorities.get(place.payer, 0)][place.user].append(place)
    return sorted(found.items(), key=lambda each: -each[0])


def _next_of(places: deque[QueuePlace], of_array: Mapping[int, int]) -> QueuePlace | None:
    """Takes the first that its array allows; those before it wait for one of their array to end."""
    while places:
        place = places.popleft()
        most = place.array_at_once
        if not place.array or most is None or of_array[place.array] < most:
            return place
    return None
