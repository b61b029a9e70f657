"""How the limits of scopes stand, and when they will be used up at the present rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime

from ...core.ledger.amount import Amount
from ...core.limits.bounds import Bounds, Kind
from ...core.limits.crossing import passed_on
from ...core.limits.forecast import reached_at
from ...core.limits.standing import COUNTED, Days, Standing, standings, standings_at_once
from ..model.leases.costs import scopes_of
from ..offers.market import MarketData
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State
from .rates import Rates, rate_of


@dataclass(frozen=True, slots=True)
class Reach:
    """How a limit stands, and when it will be used up."""

    standing: Standing
    bounds: Bounds
    at: datetime | None
    """When nothing is left at the present rate; None if it renews before."""
    stop_at: datetime | None = None
    """When its servers stop; None while no stop is announced."""
    passed_on: date | None = None
    """Of a window or a credit, the day since which its threshold has been passed."""

    @property
    def concerns_servers(self) -> bool:
        """Whether it has consequences for what runs: time uses it up, or more runs than it allows.
        Of what runs together a full limit only refuses starts."""
        return self.standing.kind in COUNTED or self.standing.is_exceeded


def limited_scopes(state: State) -> Set[str]:
    """All scopes with limits: the configured ones, and users who have spent or run something."""
    limits = state.settings.limits
    known = {*limits.scopes, *state.spending.scopes, *state.leases.scopes}
    return {scope for scope in known if limits.of(scope).limits_starts}


@dataclass(frozen=True, slots=True)
class Running:
    """What the leases of a scope use in an hour, and how many are open."""

    rate: Amount
    servers: int


@dataclass(frozen=True, slots=True)
class Reaches:
    """Judges limits by all that is in memory."""

    state: State
    market: MarketData

    async def of(self, scopes: Set[str], now: datetime) -> Mapping[str, Sequence[Reach]]:
        """By scope, those that concern servers."""
        found = await self.all_of(scopes, await self.running(scopes, now), now)
        return {scope: [x for x in of if x.concerns_servers] for scope, of in found.items()}

    async def all_of(
        self, scopes: Set[str], running: Mapping[str, Running], now: datetime
    ) -> Mapping[str, Sequence[Reach]]:
        """By scope, all limits; `running` is what runs in these scopes at least."""
        days = await self.state.spending.by_scope(scopes, self.state.leases)
        found: dict[str, Sequence[Reach]] = {}
        async for scope in cooperatively(scopes):
            found[scope] = tuple(self._of_scope(scope, running[scope], days[scope], now))
        return found

    async def running(self, scopes: Set[str], now: datetime) -> Mapping[str, Running]:
        """By scope, what its open leases use."""
        rates: dict[str, Amount] = dict.fromkeys(scopes, Amount())
        servers: Counter[str] = Counter()
        leases = list(self.state.leases.open())
        moving = {lease.continues for lease in leases}
        async for lease in cooperatively(leases):
            counted = [scope for scope in scopes_of(lease) if scope in scopes]
            rate = rate_of(lease, now) if counted else Amount()
            for scope in counted:
                rates[scope] += rate
            if lease.lease_id not in moving:  # one server, though both instances cost
                servers.update(counted)
        return {scope: Running(rate, servers[scope]) for scope, rate in rates.items()}

    def _of_scope(self, scope: str, running: Running, days: Days, now: datetime) -> Iterator[Reach]:
        settings, rates = self.state.settings, Rates(self.state, self.market)
        bounds, today = settings.limits.of(scope), self.state.spending.today()
        rate = running.rate + rates.without_lease(scope, now)
        at_once = standings_at_once(scope, bounds, rate.nano_usd, running.servers, rate.uncounted)
        yield from (Reach(each, bounds, None) for each in at_once)
        rate += rates.storage(scope)
        spent = {**days, today: days.get(today, Amount()) + rates.unbooked_storage(scope, now)}
        for each in standings(scope, bounds, days, today):
            is_gpu = each.kind is Kind.GPU_HOURS
            per_hour = round(rate.gpu_microseconds) if is_gpu else rate.nano_usd
            at = reached_at(each.kind, bounds, spent, per_hour, now, settings.time_zone)
            share = each.threshold
            passed = passed_on(each.kind, bounds, days, today, share) if share else None
            yield Reach(each, bounds, at, passed_on=passed)
