"""The cost of a server as its owner sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from ...core.ledger.charges import Rate, rate, usd_per_hour
from ...core.ledger.cost_rows import Resource, user_payer
from ...core.ledger.price_change import HourlyPrice, PriceChange, differs, latest_change, price_of
from ...core.ledger.segments import Segment, paid_until
from ...wire import Cost, Credit, Market
from ...wire import HourlyPrice as PriceSaid
from ...wire import PriceChange as ChangeSaid
from ..model.leases.costs import payer_of
from ..model.leases.lease import Lease
from ..model.leases.workers_cost import workers_cost
from ..offers.prices import PriceCache
from ..state.state import State


@dataclass(frozen=True, slots=True)
class ServerCosts:
    """Answers from memory: every heartbeat asks."""

    state: State
    prices: PriceCache

    def of(self, lease: Lease) -> Cost:
        """What the lease's server has cost, and costs now, with disks and public addresses."""
        now, limits = self.state.clock.now(), self.state.settings.limits
        current = lease.segments[-1] if lease.segments else None
        spent = self.state.spending.of(lease.user, self.state.leases)
        on_demand = self._on_demand(current.instance_type) if current else None
        instead = replace(current, usd_per_hour=on_demand) if current else None
        price = rate(current, now) if current and not current.end else Rate(None)
        earlier = self.state.session_costs.earlier(lease)
        whole = earlier + self.state.session_costs.of_lease(lease, self._on_demand)
        workers = self.state.leases.workers_of(lease.lease_id)
        asked = _asked(lease)
        change = latest_change(lease.segments, left=_left(lease, asked), asked=asked)
        own = current.usd_per_hour if current else None
        all_in = price.usd_per_hour
        return Cost(
            usd=whole.usd,
            usd_per_hour=all_in,
            known_usd=whole.known_usd,
            known_usd_per_hour=price.known_usd_per_hour,
            beside_usd_per_hour=None if own is None or all_in is None else max(all_in - own, 0.0),
            beside_of=_beside_of(current) if current else [],
            unknown_prices_of=[each.value for each in price.unknown_prices_of],
            as_of=paid_until(lease.segments, now),
            since=whole.since or lease.requested_at,
            market=Market(current.market) if current else None,
            on_demand_usd_per_hour=usd_per_hour(instead, now) if instead else None,
            price_source=current.source if current else "",
            price_change=_said(change, asked) if change else None,
            saved_usd=whole.saved_usd,
            today_usd=spent.today,
            month_usd=spent.month,
            known_today_usd=spent.known_today,
            known_month_usd=spent.known_month,
            credits=self._credits(lease, spent.known_today, now),
            budget_usd=limits.of(user_payer(lease.user)).usd_per_month,
            payer=self.state.accounts.scope(payer_of(lease)),
            used_usd=whole.used_usd,
            idle_usd=whole.idle_usd,
            limits=list(self.state.limits_of.get(lease.lease_id, ())),
            workers=workers_cost(workers, now, earlier),
        )

    def _on_demand(self, instance_type: str) -> float | None:
        """USD/hour; an instance type that is not known has no price."""
        price = self.prices.on_demand(instance_type)
        return price.usd_per_hour if price else None

    def _credits(self, lease: Lease, today: float | None, now: datetime) -> list[Credit]:
        spending, leases = self.state.spending, self.state.leases
        theirs = leases.in_scope(user_payer(lease.user))
        found = spending.shown.show(lease.user, today, spending.today(), now, theirs)
        return [Credit(usd=each.usd, why=each.why, at=each.at) for each in found]


def _left(lease: Lease, asked: HourlyPrice | None) -> HourlyPrice | None:
    """The price on the instance that the server has left; None where its user has chosen the next
    one, and has been shown what it costs."""
    is_chosen = lease.taken_over.trigger == "hardware" and asked is not None
    return None if is_chosen else lease.taken_over.price


def _asked(lease: Lease) -> HourlyPrice | None:
    """What was asked for first, as the page showed it before the start; None if that is unknown.

    Disks and address are the same wherever the instance is from.
    """
    first = next(iter(lease.attempts), None)
    known = next((each for each in lease.segments if price_of(each) is not None), None)
    if first is None or first.asked_usd_per_hour is None or known is None:
        return None
    bare = replace(known, usd_per_hour=first.asked_usd_per_hour, market=first.market)
    return price_of(bare)


def _beside_of(current: Segment) -> list[str]:
    """What is paid besides the instance."""
    prices = {
        Resource.DISK: current.disk_usd_per_month,
        Resource.ADDRESS: current.address_usd_per_hour,
    }
    return [each.value for each, price in prices.items() if price]


def _said(change: PriceChange, asked: HourlyPrice | None) -> ChangeSaid:
    """Add `asked` to a move whose user had been shown another price."""
    is_other = asked is not None and differs(asked, change.now)
    has_asked = change.why == "move" and is_other
    return ChangeSaid(
        why=change.why,
        at=change.at,
        before=_price(change.before),
        now=_price(change.now),
        asked=_price(asked) if asked is not None and has_asked else None,
    )


def _price(of: HourlyPrice) -> PriceSaid:
    return PriceSaid(usd_per_hour=of.usd_per_hour, market=of.market)
