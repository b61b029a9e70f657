"""What users, payers and the hub have spent by day, from memory at any moment.

Leases in memory are counted as they change. Those that have left it, and overhead, are kept as a
sum for each day: the store reads them with everything else when this process begins, and they are
added to as leases are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, timedelta, tzinfo
from typing import Final

from ....core.ledger import exact
from ....core.ledger.amount import (
    Amount,
    add_to_day,
    assumed_amount_of,
    between,
)
from ....core.ledger.cost_rows import HUB, CostRow, CostSum, Dimension, Filter, user_payer
from ....core.ledger.local_days import local_day
from ....core.limits.standing import fold_credit
from ...model.account_names import AccountNames
from ...model.leases.costs import costs_of, scopes_of, scopes_of_cost
from ...model.leases.lease import Lease
from ...model.settings import Settings
from ...runtime.clock import Clock
from ...runtime.cooperative_iteration import cooperatively
from ..lease_registry import LeaseRegistry
from .lease_tally import LeaseTally
from .pending_overhead import PendingOverhead
from .shown_today import ShownToday

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Spent:
    """USD of one user over all servers; None is unknown."""

    today: float | None = None
    """Since midnight, in the hub's time zone."""
    month: float | None = None
    """Since the first of the month."""
    known_today: float | None = None
    """As far as prices are known."""
    known_month: float | None = None


class Spending:
    """What has been spent, in the three scopes of each lease: its user, its payer and the hub."""

    def __init__(self, clock: Clock, settings: Settings, accounts: AccountNames) -> None:
        self._clock = clock
        self._accounts = accounts
        self._time_zone: tzinfo = settings.time_zone
        self._remembered_days = settings.spending_days
        self._limits = settings.limits
        self._days: dict[str, dict[date, Amount]] = {}
        """By scope: of the leases that have left memory, and of overhead."""
        self._oldest = self.first_day()
        self._tally = LeaseTally(settings.time_zone, clock.now())
        """Of the leases in memory."""
        self._forgotten_nano_usd = 0
        """Of the leases that have left memory, since this process began."""
        self._since_begin_nano_usd = 0
        """The most that `since_begin` has answered."""
        self._storage: dict[tuple[str, ...], CostSum] = {}
        """What homes have cost by day, user and payer, at least on the days that may still
        change."""
        self.pending_overhead = PendingOverhead()
        """What was spent for no lease and is not stored yet: it is in no sum by day."""
        self.shown = ShownToday()
        self._overhead_nano_usd = 0
        self.overhead_usd = 0.0
        """Of what belonged to no lease, since this process began, as far as prices are known;
        never less than before."""

    def first_day(self) -> date:
        """The first day that is remembered: of this month, and of the longest period of a limit.

        Of windows also the days that counted on the first of this month: since when a share of one
        has been used is judged for the whole month.

        Of scopes with a credit, earlier days are remembered as what is missing from it.
        """
        today = self.today()
        windows = today.replace(day=1) - DAY * self._limits.window_days
        return min(windows, today - DAY * self._remembered_days)

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
        users |= {each for user in users for each in self._accounts.predecessors(user)}
        if users and not all(scope.startswith("user:") for scope in scopes):
            return None
        return {Dimension.USER: users} if users else {Dimension.PAYER: scopes}

    def load(
        self,
        costs: Iterable[CostSum],
        registry: LeaseRegistry,
        storage: Iterable[CostSum] = (),
    ) -> None:
        """Take over what had ended before, by day, user and payer, and count from now on: what
        exists was paid before, even if it is found only later.

        `storage` is what of it is for homes and their snapshots.
        """
        self._storage = {each.key: each for each in storage}
        for each in self._storage.values():
            self._add_sum(each, Amount(storage_nano_usd=each.nano_usd))
        self._tally = LeaseTally(self._time_zone, self._clock.now())
        first = self.first_day()
        for each in costs:
            day, user, payer = date.fromisoformat(each.key[0]), *each.key[1:]
            for scope in scopes_of_cost(user, payer):
                if day >= self._first_day_of(scope, first):
                    self._add(scope, day, assumed_amount_of(each))
        self._forget_before(first, registry)

    # --- what was spent ---

    @property
    def scopes(self) -> Set[str]:
        """Those that anything but the leases in memory counts in."""
        return self._days.keys()

    def by_day(self, scope: str, registry: LeaseRegistry) -> dict[date, Amount]:
        """Day -> what the scope has spent, such as `user:ann`, `group:research` or `hub`; a user
        with what earlier accounts of the name have, so that nobody gets new money by being created
        again."""
        return self._by_day(scope, registry, self.first_day())

    def _by_day(self, scope: str, registry: LeaseRegistry, remembered: date) -> dict[date, Amount]:
        first, days = self._first_day_of(scope, remembered), dict[date, Amount]()
        for each in (scope, *self._earlier(scope)):
            of_leases = self._tally.by_day(each, registry.in_scope(each), self._clock.now())
            others = self._days.get(each, {}).items()
            for day, amount in (*of_leases.items(), *others, *self.pending_overhead.by_day(each)):
                add_to_day(days, day, amount)
        return {day: amount for day, amount in days.items() if day >= first}

    def _earlier(self, scope: str) -> Iterable[str]:
        kind, _, user = scope.partition(":")
        return map(user_payer, self._accounts.predecessors(user)) if kind == "user" else ()

    async def by_scope(
        self, scopes: Set[str], registry: LeaseRegistry
    ) -> dict[str, dict[date, Amount]]:
        """The same of many scopes; between them, whatever else waits has its turn."""
        await self.count_leases(registry)
        found: dict[str, dict[date, Amount]] = {}
        first = self.first_day()  # goes over all limits: once, not for each scope
        async for scope in cooperatively(scopes):
            found[scope] = self._by_day(scope, registry, first)
        return found

    async def count_leases(self, registry: LeaseRegistry) -> None:
        """Count each lease in memory that has changed, and all of them on a new day, so that
        whatever sums them up next without yielding to the event loop need not."""
        async for lease in cooperatively(registry.in_memory()):
            if registry.get(lease.lease_id) is lease:  # neither changed nor forgotten meanwhile
                self._tally.count(lease, self._clock.now())

    def usd_per_hour(self, lease: Lease) -> float | None:
        """What the instance of a lease costs now, as limits count it; None if that is unknown."""
        return self._tally.usd_per_hour(lease, self._clock.now())

    def lasted_seconds(self, lease: Lease) -> float:
        """How long instances have served a lease in memory."""
        return self._tally.lasted_seconds(lease, self._clock.now())

    def of(self, user: str, registry: LeaseRegistry) -> Spent:
        """What the user has spent."""
        days, today = self.by_day(user_payer(user), registry), self.today()
        month, day = between(days, today.replace(day=1), today), days.get(today, Amount())
        return Spent(day.usd, month.usd, day.known_usd, month.known_usd)

    def since_begin(self, registry: LeaseRegistry) -> float:
        """USD of all leases since this process began, as far as prices are known; never less."""
        spent = self._tally.known_nano_usd(registry.in_memory(), self._clock.now())
        spent += self._forgotten_nano_usd
        self._since_begin_nano_usd = max(self._since_begin_nano_usd, spent)
        return exact.usd(self._since_begin_nano_usd)

    # --- what ends ---

    def forget_old(self, registry: LeaseRegistry) -> None:
        """Forget days that are not remembered any more, once a day."""
        first = self.first_day()
        if first != self._oldest:
            self._oldest = first
            self.shown.forget_before(self.today())
            self._forget_before(first, registry)

    def _forget_before(self, first: date, registry: LeaseRegistry) -> None:
        # What a lease in memory has cost is still to be added to its days.
        begun = (lease.segments[0].start for lease in registry.in_memory() if lease.segments)
        folded = min((local_day(each, self._time_zone) for each in begun), default=first)
        last = min(folded, first) - DAY
        kept = {
            scope: fold_credit(self._limits.of(scope), days, last)
            if self._limits.has_credit(scope)
            else {day: amount for day, amount in days.items() if day >= first}
            for scope, days in self._days.items()
        }
        self._days = {scope: days for scope, days in kept.items() if days}

    def _first_day_of(self, scope: str, first: date) -> date:
        return date.min if self._limits.has_credit(scope) else first

    def forgotten(self, lease: Lease) -> None:
        """Count an ended lease that leaves memory."""
        now = self._clock.now()
        self._forgotten_nano_usd += self._tally.known_nano_usd([lease], now)
        self._tally.forget(lease)
        for row in costs_of(lease, now, self._time_zone):
            for scope in scopes_of(lease):
                self._add(scope, row.day, assumed_amount_of(row))

    def count_overhead(self, costs: Sequence[CostRow], replaced: Iterable[CostSum]) -> None:
        """Time of no lease, as it was stored, and what it replaced in the store."""
        for row in costs:
            for scope in scopes_of_cost(row.user, row.payer):
                self._add(scope, row.day, assumed_amount_of(row))
        added = sum(row.nano_usd or 0 for row in costs)
        for each in replaced:
            self._add_sum(each, -assumed_amount_of(each))
            added -= each.nano_usd
        self._overhead_nano_usd += added
        self.overhead_usd = max(self.overhead_usd, exact.usd(self._overhead_nano_usd))

    async def count_storage(self, costs: Sequence[CostSum]) -> None:
        """What homes and their snapshots have cost by day, user and payer: all of the days that
        have changed, as the store has it now.

        Whatever else waits has its turn while it counts. What was counted is remembered at once,
        so that a count that is cancelled can be repeated.
        """
        changed = [each for each in costs if self._storage.get(each.key) != each]
        async for each in cooperatively(changed):
            added = _storage_of(each)
            if (before := self._storage.get(each.key)) is not None:
                added += -_storage_of(before)
            self._add_sum(each, added)
            self._storage[each.key] = each
        self._storage = {each.key: each for each in costs}

    def refund_overhead(self, refunded: Iterable[CostSum]) -> None:
        """Time of no lease that turned out to be free: what it had cost, as it was stored. The time
        itself remains."""
        for each in refunded:
            self._add_sum(each, -replace(assumed_amount_of(each), gpu_microseconds=0.0))
            self._overhead_nano_usd -= each.nano_usd

    def _add_sum(self, whose: CostSum, amount: Amount) -> None:
        """Add an amount in the scopes of a sum by `WHOSE`."""
        day, user, payer = whose.key
        for scope in scopes_of_cost(user, payer):
            self._add(scope, date.fromisoformat(day), amount)

    def _add(self, scope: str, day: date, amount: Amount) -> None:
        add_to_day(self._days.setdefault(scope, {}), day, amount)


def _storage_of(each: CostSum) -> Amount:
    return replace(assumed_amount_of(each), storage_nano_usd=each.nano_usd)
