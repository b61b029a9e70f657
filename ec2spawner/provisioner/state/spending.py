"""What users, payers and the hub have spent by day, from memory at any moment.

Leases in memory are summed at each call. Those that have left it, and overhead, are kept as a sum
for each day: the store reads them with everything else when this process begins, and they are added
to as leases are forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from ...core.ledger import exact
from ...core.ledger.amount import Amount, add_to_day, amount_of, amounts_by_day, between
from ...core.ledger.cost import nano_usd
from ...core.ledger.cost_rows import HUB, CostRow, CostSum, Dimension, Filter, user_payer
from ...core.ledger.exact import TICKS, microseconds, price_units
from ...core.ledger.local_days import local_day, split_by_day
from ...core.ledger.segments import Segment, assumed_usd_per_hour, paid_until, until
from ...core.limits.standing import fold_credit
from ..model.lease import Lease
from ..model.lease_costs import costs_of, payer_of
from ..model.settings import Settings
from ..runtime.clock import Clock
from .lease_registry import LeaseRegistry

DAY: Final = timedelta(days=1)

BATCH: Final = 25
"""After so many leases, whatever else waits has its turn."""


@dataclass(frozen=True, slots=True)
class Spent:
    """USD of one user over all servers; None is unknown."""

    today: float | None = None
    """Since midnight, in the hub's time zone."""
    month: float | None = None
    """Since the first of the month."""


@dataclass(slots=True)
class _Running:
    """A lease as it was counted last: until it changes, only its price adds to it."""

    lease: Lease
    counted_at: datetime
    is_young: bool
    """Within the minimum of its instance, in which time adds nothing."""
    days: dict[date, Amount]


class Spending:
    """What has been spent, in the three scopes of each lease: its user, its payer and the hub."""

    def __init__(self, clock: Clock, settings: Settings) -> None:
        self._clock = clock
        self._time_zone: tzinfo = settings.time_zone
        self._remembered_days = settings.spending_days
        self._limits = settings.limits
        self._begun_at = clock.now()
        self._days: dict[str, dict[date, Amount]] = {}
        """By scope: of the leases that have left memory, and of overhead."""
        self._oldest = self.first_day()
        self._running: dict[str, _Running] = {}
        """By lease id."""
        self._forgotten_usd = 0.0
        """Of the leases that have left memory, since this process began."""
        self._counted = 0.0
        self._overhead_nano_usd = 0
        self.overhead_usd = 0.0
        """Of what belonged to no lease, since this process began, as far as prices are known;
        never less than before."""

    def first_day(self) -> date:
        """The first day that is remembered: of this month, and of the longest period of a limit.

        Of scopes with a credit, earlier days are remembered as what is missing from it.
        """
        today = self.today()
        return min(today.replace(day=1), today - DAY * self._remembered_days)

    def today(self) -> date:
        """The calendar day in the hub's time zone."""
        return local_day(self._clock.now(), self._time_zone)

    def older_costs(self) -> Filter | None:
        """Which costs from before `first_day` still count: those of scopes with a credit.

        None is all of them. Empty is none.
        """
        scopes = self._limits.credit_scopes()
        if scopes is None or HUB in scopes:
            return None
        users = {s.removeprefix("user:") for s in scopes if s.startswith("user:")}
        if users and len(users) < len(scopes):
            return None
        return {Dimension.USER: users} if users else {Dimension.PAYER: scopes}

    def load(self, costs: Iterable[CostSum], registry: LeaseRegistry) -> None:
        """Take over what had ended before, by day, user and payer, and count from now on: what
        exists was paid before, even if it is found only later."""
        self._begun_at = self._clock.now()
        first = self.first_day()
        for each in costs:
            day, user, payer = date.fromisoformat(each.key[0]), *each.key[1:]
            for scope in _scopes(user, payer):
                if day >= self._first_day_of(scope, first):
                    self._add(scope, day, amount_of(each))
        self._forget_before(first, registry)

    # --- what was spent ---

    def by_day(self, scope: str, registry: LeaseRegistry) -> dict[date, Amount]:
        """Day -> what the scope has spent, such as `user:ann`, `group:research` or `hub`."""
        now, first = self._clock.now(), self._first_day_of(scope, self.first_day())
        known = self._days.get(scope, {})
        days = {day: amount for day, amount in known.items() if day >= first}
        for lease in registry.in_memory():
            if scope in scopes_of(lease):
                for day, amount in self._days_of(lease, now).items():
                    if day >= first:
                        add_to_day(days, day, amount)
        return days

    async def by_scope(
        self, scopes: Set[str], registry: LeaseRegistry
    ) -> dict[str, dict[date, Amount]]:
        """The same of many scopes; between leases, whatever else waits has its turn."""
        now, first = self._clock.now(), self.first_day()
        firsts = {scope: self._first_day_of(scope, first) for scope in scopes}
        found = {
            scope: {day: x for day, x in self._days.get(scope, {}).items() if day >= since}
            for scope, since in firsts.items()
        }
        for number, lease in enumerate(registry.in_memory()):
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            mine = [scope for scope in scopes_of(lease) if scope in found]
            current = registry.get(lease.lease_id)  # one that is forgotten meanwhile still counts
            days = self._days_of(current, now) if current else self._count(lease, now).days
            for day, amount in days.items():
                for scope in mine:
                    if day >= firsts[scope]:
                        add_to_day(found[scope], day, amount)
        return found

    def of(self, user: str, registry: LeaseRegistry) -> Spent:
        """What the user has spent."""
        days, today = self.by_day(user_payer(user), registry), self.today()
        month = between(days, today.replace(day=1), today)
        return Spent(today=days.get(today, Amount()).usd, month=month.usd)

    def since_begin(self, registry: LeaseRegistry) -> float:
        """USD of all leases since this process began, as far as prices are known; never less."""
        spent = sum(self._known_usd(each) for each in registry.in_memory())
        self._counted = max(self._counted, spent + self._forgotten_usd)
        return self._counted

    # --- what ends ---

    def forget_old(self, registry: LeaseRegistry) -> None:
        """Forget days that are not remembered any more, once a day."""
        first = self.first_day()
        if first != self._oldest:
            self._oldest = first
            self._forget_before(first, registry)

    def _forget_before(self, first: date, registry: LeaseRegistry) -> None:
        # What a lease in memory has cost is still to be added to its days.
        begun = (lease.segments[0].start for lease in registry.in_memory() if lease.segments)
        folded = min((local_day(each, self._time_zone) for each in begun), default=first)
        until = min(folded, first) - DAY
        kept = {
            scope: fold_credit(self._limits.of(scope), days, until)
            if self._limits.has_credit(scope)
            else {day: amount for day, amount in days.items() if day >= first}
            for scope, days in self._days.items()
        }
        self._days = {scope: days for scope, days in kept.items() if days}

    def _first_day_of(self, scope: str, first: date) -> date:
        return date.min if self._limits.has_credit(scope) else first

    def forgotten(self, lease: Lease) -> None:
        """Count an ended lease that leaves memory."""
        self._forgotten_usd += self._known_usd(lease)
        self._running.pop(lease.lease_id, None)
        for row in costs_of(lease, self._clock.now(), self._time_zone):
            amount = amount_of(row)
            if row.nano_usd is None:
                amount = replace(amount, nano_usd=row.on_demand_nano_usd or 0)
            for scope in scopes_of(lease):
                self._add(scope, row.day, amount)

    def count_overhead(self, costs: Sequence[CostRow], replaced: Iterable[CostSum]) -> None:
        """Time of no lease, as it was stored, and what it replaced in the store."""
        for row in costs:
            self._add(HUB, row.day, amount_of(row))
        added = sum(row.nano_usd or 0 for row in costs)
        for each in replaced:
            before = Amount(-each.nano_usd, -each.gpu_microseconds, -each.unknown)
            self._add(HUB, date.fromisoformat(each.key[0]), before)
            added -= each.nano_usd
        self._overhead_nano_usd += added
        self.overhead_usd = max(self.overhead_usd, exact.usd(self._overhead_nano_usd))

    def refund_overhead(self, refunded: Iterable[CostSum]) -> None:
        """Time of no lease that turned out to be free: what it had cost by day, as it was stored.
        The time itself remains."""
        for each in refunded:
            before = Amount(-each.nano_usd, unknown=-each.unknown)
            self._add(HUB, date.fromisoformat(each.key[0]), before)
            self._overhead_nano_usd -= each.nano_usd

    def _add(self, scope: str, day: date, amount: Amount) -> None:
        add_to_day(self._days.setdefault(scope, {}), day, amount)

    def _known_usd(self, lease: Lease) -> float:
        """What the lease has cost since this process began, of known prices."""
        now = self._clock.now()
        known = [each for each in lease.segments if each.usd_per_hour is not None]
        before = until(known, self._begun_at)
        cost = (nano_usd(known, now) or 0) - (nano_usd(before, self._begun_at) or 0)
        return exact.usd(max(cost, 0))

    def _days_of(self, lease: Lease, now: datetime) -> dict[date, Amount]:
        counted = self._running.get(lease.lease_id)
        if (
            counted is None
            or counted.lease is not lease
            or counted.is_young
            or now < counted.counted_at
        ):
            counted = self._count(lease, now)
            self._running[lease.lease_id] = counted
        current = lease.segments[-1] if lease.segments else None
        if current is None or current.end is not None or now <= counted.counted_at:
            return counted.days
        days = dict(counted.days)
        since, until_now = microseconds(counted.counted_at), microseconds(now)
        for day, start, end in split_by_day(since, until_now, self._time_zone):
            price = assumed_usd_per_hour(current) or 0.0
            cost = price_units(price) * (end - start) // TICKS
            unknown = int(current.usd_per_hour is None)
            add_to_day(days, day, Amount(cost, (end - start) * current.gpus, unknown))
        return days

    def _count(self, lease: Lease, now: datetime) -> _Running:
        # Within its minimum, time adds nothing to what is paid.
        is_young = paid_until(lease.segments, now) > now
        days = _assumed_by_day(lease.segments, now, self._time_zone)
        return _Running(lease, now, is_young, days)


def _assumed_by_day(
    segments: Sequence[Segment], now: datetime, place: tzinfo
) -> dict[date, Amount]:
    """What segments have cost; an unknown price is taken to be the list price, and stays unknown
    for all that does not judge limits."""
    days = amounts_by_day(segments, now, place)
    if all(amount.is_known for amount in days.values()):
        return days
    assumed = [replace(each, usd_per_hour=assumed_usd_per_hour(each)) for each in segments]
    counted = amounts_by_day(assumed, now, place)
    return {day: replace(counted[day], unknown=amount.unknown) for day, amount in days.items()}


def scopes_of(lease: Lease) -> Sequence[str]:
    """Whose spending the lease is: its user's, its payer's, and the hub's."""
    return tuple(_scopes(lease.user, payer_of(lease)))


def _scopes(user: str, payer: str) -> Iterator[str]:
    if user:
        yield user_payer(user)
    if payer not in {HUB, user_payer(user)}:
        yield payer
    yield HUB
