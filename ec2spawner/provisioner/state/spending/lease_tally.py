"""What the leases in memory have cost by day, summed for each scope that they count in.

A lease is counted when its segments change, and once a day. Between, it grows by its price times
the time since, so that what a thousand servers have spent is a thousand multiplications.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Final

from ....core.ledger.amount import Amount, add_to_day, assumed_by_day
from ....core.ledger.charges import assumed_rate, known_ticks
from ....core.ledger.cost import durations, known_nano_usd
from ....core.ledger.exact import TICKS, microseconds
from ....core.ledger.local_days import day_at
from ....core.ledger.segments import Segment, assumed, paid_until, until
from ...model.leases.costs import scopes_of
from ...model.leases.lease import Lease

FOREVER: Final = 1 << 62
"""In microseconds since 1970."""

UTC_DAY: Final = 86_400_000_000
"""In microseconds."""

NOTHING: Final = Amount()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A lease as it was counted last. Instants and times in microseconds."""

    segments: Sequence[Segment]
    scopes: Sequence[str]
    days: Mapping[date, Amount]
    known_nano_usd: int
    """What it has cost since the tally began, as far as prices are known; negative where the clock
    was set back since."""
    at: int
    until: int
    """When it must be counted again, also if nothing has changed."""
    lasted: int
    """Time of its instances."""
    is_running: bool
    units: int
    """What it adds in each microsecond; `core.ledger.exact` has the unit."""
    known_units: int
    """The same of known prices."""
    usd_per_hour: float | None
    gpus: float
    unknown: int
    """How many of its prices are unknown."""
    uncounted: int
    """How many of them are not assumed, either."""

    def grown_for(self, instant: int) -> int:
        """Microseconds for which it has run since it was counted."""
        return max(instant - self.at, 0) if self.is_running else 0


class LeaseTally:
    """Counts leases, and sums them up. An unknown price is taken to be the list price."""

    def __init__(self, time_zone: tzinfo, begun_at: datetime) -> None:
        self._time_zone = time_zone
        self._begun_at = begun_at
        self._counted: dict[str, _Counted] = {}
        """By lease id."""
        self._sums: dict[str, dict[date, Amount]] = {}
        """By scope and day, of all that are counted."""

    def by_day(self, scope: str, leases: Iterable[Lease], now: datetime) -> dict[date, Amount]:
        """Day -> what the leases have cost, which are all in memory that count in the scope."""
        instant = microseconds(now)
        nano_usd, gpu_microseconds, unknown, uncounted = 0, 0.0, 0, 0
        for lease in leases:
            each = self._fresh(lease, now, instant)
            if lasted := each.grown_for(instant):
                nano_usd += each.units * lasted // TICKS
                gpu_microseconds += each.gpus * lasted
                unknown += each.unknown
                uncounted += each.uncounted
        days = dict(self._sums.get(scope, {}))
        growth = Amount(nano_usd, gpu_microseconds, unknown, uncounted)
        if growth != NOTHING:
            add_to_day(days, day_at(instant, self._time_zone)[0], growth)
        return days

    def count(self, lease: Lease, now: datetime) -> None:
        """Count a lease in memory now, so that a sum need not."""
        self._fresh(lease, now, microseconds(now))

    def known_nano_usd(self, leases: Iterable[Lease], now: datetime) -> int:
        """What leases in memory have cost since the tally began, as far as prices are known, in
        1e-9 USD. An unknown price is not assumed here."""
        instant, total = microseconds(now), 0
        for lease in leases:
            each = self._fresh(lease, now, instant)
            growth = each.known_units * each.grown_for(instant) // TICKS
            total += max(each.known_nano_usd + growth, 0)
        return total

    def usd_per_hour(self, lease: Lease, now: datetime) -> float | None:
        """What the instance of a lease in memory costs now; None if that is unknown."""
        return self._fresh(lease, now, microseconds(now)).usd_per_hour

    def lasted_seconds(self, lease: Lease, now: datetime) -> float:
        """How long instances have served a lease in memory."""
        instant = microseconds(now)
        counted = self._fresh(lease, now, instant)
        return (counted.lasted + counted.grown_for(instant)) / 1e6

    def forget(self, lease: Lease) -> None:
        """The lease leaves memory."""
        counted = self._counted.pop(lease.lease_id, None)
        if counted is not None:
            self._add(counted, -1)

    def _fresh(self, lease: Lease, now: datetime, instant: int) -> _Counted:
        known = self._counted.get(lease.lease_id)
        if (
            known is not None
            # Heartbeats replace the lease, and neither of these.
            and known.segments is lease.segments
            and known.scopes == scopes_of(lease)
            and known.at <= instant < known.until
        ):
            return known
        if known is not None:
            self._add(known, -1)
        counted = self._counted[lease.lease_id] = self._count(lease, now, instant)
        self._add(counted, 1)
        return counted

    def _count(self, lease: Lease, now: datetime, instant: int) -> _Counted:
        segments = lease.segments
        current = segments[-1] if segments and segments[-1].end is None else None
        at, holds_until, units, known_units, unknown, uncounted = 0, FOREVER, 0, 0, 0, 0
        if current is not None:
            at, holds_until = instant, self._holds_until(instant)
            units, uncounted = known_ticks(assumed(current), at, at + 1)
            known_units, unknown = known_ticks(current, at, at + 1)
            if paid_until(segments, now) > now:
                holds_until = at  # within its minimum, time adds nothing to what is paid
        before, _ = known_nano_usd(until(segments, self._begun_at), self._begun_at)
        return _Counted(
            segments=segments,
            scopes=scopes_of(lease),
            days=assumed_by_day(segments, now, self._time_zone),
            known_nano_usd=known_nano_usd(segments, now)[0] - before,
            at=at,
            until=holds_until,
            lasted=sum(lasted for _, lasted in durations(segments, now)),
            is_running=current is not None,
            units=units,
            known_units=known_units,
            usd_per_hour=assumed_rate(current, now) if current else 0.0,
            gpus=current.gpus if current else 0.0,
            unknown=unknown,
            uncounted=uncounted,
        )

    def _holds_until(self, instant: int) -> int:
        """The end of the day here or in UTC: a month of AWS's may begin then, in which an hour of
        a disk has another price."""
        ends = day_at(instant, self._time_zone)[1]
        return min(ends, (instant // UTC_DAY + 1) * UTC_DAY)

    def _add(self, counted: _Counted, sign: int) -> None:
        for scope in counted.scopes:
            sums = self._sums.setdefault(scope, {})
            for day, amount in counted.days.items():
                total = sums.get(day, NOTHING) + (amount if sign > 0 else -amount)
                if total == NOTHING:
                    sums.pop(day, None)
                else:
                    sums[day] = total
            if not sums:
                del self._sums[scope]
