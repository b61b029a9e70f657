"""What an admin sees of the hub now: servers, kept instances, sold-out offers, failed starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from ..core.instances.retention_rules import Kept
from ..core.instances.scheduled_events import ScheduledEvent
from ..core.ledger.charges import NO_PRICE, Rate, rate
from ..core.ledger.cost_rows import HUB, Resource
from ..core.ledger.segments import Segment
from ..core.ledger.session_cost import NOTHING, SessionCost
from ..core.ledger.storage.costs import usd_per_month
from ..core.ledger.storage.held import MIB
from ..core.limits.admission import Account
from ..core.limits.bounds import Bounds
from ..core.limits.standing import Standing, standings_at_once
from ..core.offers.sold_out import Mark, Scope
from ..core.starts.outcome import Outcome
from .homes.storage_costs import usd_per_gib_month
from .instances.unleased import foreign, retained_segment, unleased
from .limits.accounts import Accounts
from .limits.rates import HubRate
from .limits.reaches import Reach, Reaches
from .limits.survey import LimitSurveys
from .model.cloud.instance import Instance
from .model.leases.denied_start import DeniedStart
from .model.leases.lease import OPEN, Lease, LeaseState
from .model.leases.start import outcome_of, reason_of
from .offers.discount_coverage import BILLED
from .offers.market import MarketData
from .sleeping import Sleeping
from .state.state import State

FAILURES_SHOWN = timedelta(days=1)
"""Starts that failed longer ago are no news."""

NEARLY_USED = 75
"""Percent of a limit."""


@dataclass(frozen=True, slots=True)
class ServerNow:
    """An open lease, and what its agent has reported last."""

    lease: Lease
    instance: Instance | None
    """As the last listing showed it; None while there is none."""
    idle_since: datetime | None
    busy_because: str
    """What keeps it on, for people; empty while it is idle. Of one that is ending: what that still
    waits for."""
    stop_at: datetime | None
    """When it stops unless something happens; None for never, or if that is unknown."""
    can_sleep: bool
    """A stop can save its variables."""
    interruption_at: datetime | None
    scheduled_event: ScheduledEvent | None
    """The event that AWS has announced for its instance."""
    gpu_percent: float | None
    """Use of its GPUs, 0 to 100 on average; None if none is measured."""
    earlier: SessionCost = NOTHING
    """What its server had cost before it moved to this instance."""


@dataclass(frozen=True, slots=True)
class KeptNow:
    """An instance that waits for its user."""

    kept: Kept
    instance: Instance | None
    rate: Rate
    """With its disks and address; of its disks alone if it is stopped."""


UnassignedStatus = Literal["starting", "pool", "ending", "foreign"]
"""`starting`: a server that waits may get it. `pool`: it boots or waits in the warm pool. `ending`:
the hub terminates it. `foreign`: it is of another store, or its tags are copied: the hub leaves it
alone, and counts no cost of it."""


@dataclass(frozen=True, slots=True)
class UnassignedNow:
    """A running instance that has no server and is kept for none."""

    instance: Instance
    status: UnassignedStatus
    rate: Rate


@dataclass(frozen=True, slots=True)
class StorageNow:
    """What the homes of a user and their snapshots hold, as of the last scan."""

    home_gib: float
    snapshot_gib: float
    """Of each home the largest snapshot: a lower bound."""
    usd_per_month: float | None
    """At list prices; None where one is unknown."""


@dataclass(frozen=True, slots=True)
class LimitNow:
    """One limit of a user, a payer or the hub, and how much of it is used."""

    bounds: Bounds
    standing: Standing
    reached_at: datetime | None = None
    """When nothing is left at the present rate; None if it renews before."""


@dataclass(frozen=True, slots=True)
class HubLimits:
    """How the limits of all scopes stood at one moment: see `LimitSurveys.latest`."""

    at: datetime
    of_hub: tuple[LimitNow, ...]
    nearly_used: tuple[LimitNow, ...]
    """Of all scopes those of which `NEARLY_USED` percent are used, the worst first; after those
    that concern servers, full limits of what runs together, which only refuse starts."""
    rate: HubRate


@dataclass(frozen=True, slots=True)
class Overview:
    """Reads the state; changes nothing. All of it is in memory."""

    state: State
    market: MarketData
    surveys: LimitSurveys

    def servers(self, user: str | None = None) -> tuple[ServerNow, ...]:
        """All open leases in the order of their requests, or those of one user."""
        leases = [each for each in self.state.leases.open() if user in (None, each.user)]
        return tuple(self._server(each) for each in sorted(leases, key=_requested))

    def _server(self, lease: Lease) -> ServerNow:
        contact = self.state.leases.contact(lease.lease_id)
        instance = self.state.instances.listed.get(lease.instance_id or "")
        now, stops = asyncio.get_running_loop().time(), lease.state is LeaseState.ENDING
        return ServerNow(
            lease=self.state.accounts.displayed(lease),
            instance=instance,
            idle_since=contact.idle_since,
            busy_because=contact.flush_progress(now) if stops else contact.busy_because,
            stop_at=contact.reckoned[1] if contact.reckoned else None,
            can_sleep=lease.is_server and Sleeping(self.state).can_sleep(lease.lease_id),
            interruption_at=contact.interruption_at,
            scheduled_event=self.state.scheduled_events.next_of(instance),
            gpu_percent=contact.gpu_percent,
            earlier=self._earlier(lease),
        )

    def _earlier(self, lease: Lease) -> SessionCost:
        """What a server has cost that is in no other row: until the lease that it continues has
        ended, that one has a row of its own."""
        previous = self.state.leases.get(lease.continues)
        has_row = previous is not None and previous.state in OPEN
        return NOTHING if has_row else self.state.session_costs.earlier(lease)

    def kept(self) -> tuple[KeptNow, ...]:
        """Instances that are retained for their users."""
        listed = self.state.instances.listed
        return tuple(self._kept(each, listed.get(each.instance_id)) for each in _all(self.state))

    def unassigned(self) -> tuple[UnassignedNow, ...]:
        """Running instances that no server has, those that boot for one included."""
        stock, retained = self.state.stock, self.state.retained
        useless = {each.instance_id for each in (*stock.surplus, *stock.dead, *stock.unknown)}
        in_places = {each.instance_id for each in stock.in_places}
        stopping = {kept.instance_id for kept in retained.of_pool() if kept.asked_at is None}

        def status(instance_id: str) -> UnassignedStatus:
            if instance_id in useless:
                return "ending"
            is_stopping = instance_id in stopping
            return "pool" if is_stopping or instance_id in in_places else "starting"

        for_users = {kept.instance_id for kept in retained.of_users()}
        own = [each for each in unleased(self.state) if each.instance_id not in for_users]
        return (
            *(self._unassigned(each, status(each.instance_id)) for each in own),
            *(
                self._unassigned(each, "foreign")
                for each in foreign(self.state)
                if each.state in BILLED
            ),
        )

    def _unassigned(self, instance: Instance, status: UnassignedStatus) -> UnassignedNow:
        now = self.state.clock.now()
        return UnassignedNow(instance, status, rate(self.market.prices.segment(instance, now), now))

    def _kept(self, kept: Kept, instance: Instance | None) -> KeptNow:
        segment, now = self.retained_segment(kept), self.state.clock.now()
        kept = self.state.accounts.displayed(kept)
        return KeptNow(kept, instance, rate(segment, now) if segment else NO_PRICE)

    def retained_segment(self, kept: Kept) -> Segment | None:
        """What a retained instance is paid for now; None where nothing is known of it."""
        return retained_segment(kept, self.state, self.market.prices, self.state.clock.now())

    def sold_out(self) -> tuple[tuple[Scope, Mark], ...]:
        """What is not requested now, because EC2 refused it."""
        return self.market.offers.sold_out.all(self.state.clock.now())

    def denied_starts(self) -> tuple[DeniedStart, ...]:
        """The last start of each server that a limit refused within a day, the newest first."""
        accounts = self.state.accounts
        found = self.state.denied_starts.since(self.state.clock.now() - FAILURES_SHOWN)
        return tuple(
            replace(accounts.displayed(each), refusal=accounts.displayed_scope(each.refusal))
            for each in found
        )

    def storage(self, user: str) -> StorageNow | None:
        """What a user's homes hold and cost; None until this process has scanned them."""
        existing = self.state.home_storage
        if not existing.is_known:
            return None
        homes = [each for each in existing.of(user) if each.resource is Resource.HOME]
        largest: dict[str, int] = {}
        for each in existing.of(user):
            if each.resource is Resource.SNAPSHOT:
                largest[each.home_id] = max(each.mib, largest.get(each.home_id, 0))
        snapshot_mib, prices = sum(largest.values()), self.market.prices.resources
        held = [(each.mib, Resource.HOME, each.volume_type) for each in homes]
        held += [(snapshot_mib, Resource.SNAPSHOT, "")] if snapshot_mib else []
        costs = [
            usd_per_month(mib, usd_per_gib_month(prices, resource, volume_type))
            for mib, resource, volume_type in held
        ]
        known = [each for each in costs if each is not None]
        return StorageNow(
            home_gib=sum(each.mib for each in homes) / MIB,
            snapshot_gib=snapshot_mib / MIB,
            usd_per_month=sum(known) if len(known) == len(costs) else None,
        )

    async def limits(self, scopes: Sequence[str]) -> tuple[LimitNow, ...]:
        """How the limits of these scopes stand now, those without limits left out."""
        limits, now = self.state.settings.limits, self.state.clock.now()
        limited = {scope for scope in scopes if limits.of(scope).limits_starts}
        reaches = await Reaches(self.state, self.market).of(limited, now)
        at = {
            (scope, each.standing.kind): each.at
            for scope, of_scope in reaches.items()
            for each in of_scope
        }
        accounts = Accounts(self.state, self.market).of(scopes)
        found = (limit for account in accounts for limit in _limits(account))
        return tuple(
            self._shown(LimitNow(x.bounds, x.standing, at.get((x.standing.scope, x.standing.kind))))
            for x in found
        )

    def _shown(self, limit: LimitNow) -> LimitNow:
        return replace(limit, standing=self.state.accounts.displayed_scope(limit.standing))

    async def hub_limits(self) -> HubLimits:
        """For admins, of all scopes. Of one moment for all who ask within seconds of each other."""
        survey = await self.surveys.latest()
        nearly_used = [
            each
            for of_scope in survey.reaches.values()
            for each in of_scope
            if each.standing.percent >= NEARLY_USED
        ]
        return HubLimits(
            at=survey.at,
            of_hub=tuple(map(_limit_now, survey.reaches.get(HUB, ()))),
            nearly_used=tuple(
                self._shown(_limit_now(each)) for each in sorted(nearly_used, key=_worst_first)
            ),
            rate=survey.hub_rate,
        )

    def failed_starts(self) -> tuple[Lease, ...]:
        """The last start of each server that failed within a day, the newest first; without those
        that `denied_starts` has, and those that somebody has cancelled."""
        since = self.state.clock.now() - FAILURES_SHOWN
        denied = {each.lease_id for each in self.denied_starts()}
        failed = [
            lease
            for lease in self.state.leases.ended_since(since)
            if lease.stop is not None
            and outcome_of(lease) not in {Outcome.READY, Outcome.CANCELLED}
            # A start that was denied on-demand may have failed later, for another reason.
            if reason_of(lease) != "budget" or lease.lease_id not in denied
        ]
        failed = [self.state.accounts.displayed(lease) for lease in failed]
        return tuple(sorted(failed, key=_requested, reverse=True))


def _limits(account: Account) -> Iterator[LimitNow]:
    bounds = account.bounds
    for standing in account.standings:
        yield LimitNow(bounds, standing)
    at_once = standings_at_once(
        account.scope, bounds, account.rate, account.servers, account.unpriced
    )
    yield from (LimitNow(bounds, each) for each in at_once)


def _limit_now(reach: Reach) -> LimitNow:
    return LimitNow(reach.bounds, reach.standing, reach.at)


def _worst_first(reach: Reach) -> tuple[bool, int, str, str]:
    standing = reach.standing
    # With a limit of one server, that of each user who has one is full.
    return (not reach.concerns_servers, -standing.percent, standing.scope, standing.kind)


def _all(state: State) -> Sequence[Kept]:
    return sorted(state.retained.of_users(), key=lambda kept: kept.until)


def _requested(lease: Lease) -> datetime:
    return lease.requested_at
