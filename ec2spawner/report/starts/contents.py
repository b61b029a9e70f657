"""What a report on starts is about, checked before anything is read. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from ...core.ledger.local_days import midnight
from ...core.starts.phases import Phase
from ...core.starts.summary import GroupOfStarts
from ...provisioner.store.read_only import SlowStart
from ..request import WrongRequest, period_of

DAYS: Final = 7
"""Days that are reported on by default, today included: one week shows each weekday once."""

SLOWEST: Final = 10
"""Single starts that are listed."""

_FOR_COSTS: Final = ("user", "reconcile", "bill", "reservations", "html", "focus")


@dataclass(frozen=True, slots=True)
class StartScope:
    """Which starts a report is about."""

    hub: str
    since: date
    until: date
    """The last day, inclusive; both in the hub's time zone."""
    time_zone: str
    profile: str = ""
    """A slug; empty is every profile."""

    @property
    def begin(self) -> datetime:
        """The first instant, UTC."""
        return midnight(self.since, ZoneInfo(self.time_zone)).astimezone(UTC)

    @property
    def end(self) -> datetime:
        """The first instant after it, UTC."""
        following = self.until + timedelta(days=1)
        return midnight(following, ZoneInfo(self.time_zone)).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class StartReport:
    """How long the starts of a period took."""

    scope: StartScope
    made_at: datetime
    """UTC."""
    groups: Sequence[GroupOfStarts]
    slowest: Sequence[SlowStart]
    profile_names: Mapping[str, str] = field(default_factory=dict)
    """Display name by slug, of the profiles that are configured now."""


def start_scope_of(
    arguments: argparse.Namespace, hub: str, time_zone: str, today: date
) -> StartScope:
    """By default the last `DAYS` days. Raises `WrongRequest`."""
    if given := [name for name in _FOR_COSTS if getattr(arguments, name)]:
        raise WrongRequest(f"--{given[0]} is for costs. Fix: leave it or --starts out")
    if arguments.by != "user":
        raise WrongRequest("--starts always groups by profile and market. Fix: leave --by out")
    since, until = period_of(arguments, today, today - timedelta(days=DAYS - 1))
    return StartScope(hub, since, until, time_zone, arguments.profile)


def parts_of(group: GroupOfStarts) -> Sequence[Phase]:
    """The phases that its starts had, in order."""
    return [phase for phase in Phase if phase in group.phases]
