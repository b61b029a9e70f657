"""Instances of the pool that waited for a day without being taken. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """An instance that belongs to nobody yet."""

    instance_id: str
    profile: str
    """Slug of the profile for whose servers it waits."""
    since: datetime
    """UTC: when it could first be taken."""


@dataclass(frozen=True, slots=True)
class Unused:
    """Instances that wait for one profile, and that no start took for long."""

    profile: str
    instances: tuple[str, ...]
    """Ids, longest wait first."""
    seconds: float
    """The longest wait."""


def unused(waiting: Iterable[Waiting], after: float, now: datetime) -> tuple[Unused, ...]:
    """By profile, what has waited for at least `after` seconds, in the order of profiles' names."""
    found: dict[str, list[Waiting]] = {}
    for each in waiting:
        if (now - each.since).total_seconds() >= after:
            found.setdefault(each.profile, []).append(each)
    return tuple(
        _of_profile(profile, sorted(of_it, key=lambda each: each.since), now)
        for profile, of_it in sorted(found.items())
    )


def _of_profile(profile: str, waiting: list[Waiting], now: datetime) -> Unused:
    longest = (now - waiting[0].since).total_seconds()
    return Unused(profile, tuple(each.instance_id for each in waiting), longest)
