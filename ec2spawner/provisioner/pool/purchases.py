"""Buys what places of the pool lack. A failure ends nothing: it is shown, and tried again later.

Leases come first: nothing is bought for the pool while a lease waits for its launch call or for the
answer to it, and a call for the pool takes no part in the back-off of theirs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ...core.names import tag_value
from ...core.offers.launch_errors import ErrorClass, LaunchError
from ...core.offers.purchase import MAX_PURCHASES, OfferKey
from ...core.pool.targets import ReasonCode
from ..launch.fleet_calls import FleetCalls, is_busy_error
from ..launch.fleet_response import Outcome, done_with, is_refused, without_summary
from ..launch.launch_failure import launch_failure
from ..model.cloud.cloud import CloudError
from ..model.cloud.launch import FleetResponse, LaunchSpec
from ..model.leases.lease import IntentState
from ..offers.market import MarketData
from ..offers.offers import Order
from ..runtime.task_group import TaskGroup
from ..state.instances.launches import Round
from ..state.pool import Group
from ..state.state import State
from ..store.store import StoreError
from .budget import Budget
from .own_instances import own_instances
from .targets import beside, is_for

log = logging.getLogger(__name__)

MAX_AT_ONCE: Final = 20
"""Instances that calls in progress may bring: a large pool fills in steps, and leases of other
profiles find room in EC2's rate limits and the account's quotas in between."""

NO_PRICE: Final = "There is a cap, and a price is unknown that counts against it"

MAX_CALLS: Final = 4
"""Launch calls in progress at a time: half of those that the hub sends at once, so that a start
whose call comes later does not wait for slow ones of the pool."""

STORE_FAILED: Final = "The hub's database does not answer, and nothing is bought without it"


@dataclass(slots=True)
class PoolPurchases:
    """One purchase in a pass for each group and spec of which places are missing: what earlier ones
    may still bring is not missing.

    What is to be stopped is bought outside capacity reservations: it would leave its place unused,
    and could start nowhere else.
    """

    state: State
    market: MarketData
    fleet: FleetCalls
    tasks: TaskGroup

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the calls are made in the background."""
        state, pool = self.state, self.state.pool
        in_progress = state.launches.in_progress
        lacking = Counter(
            (place.group, place.spec, place.is_to_stop)
            for place in pool.places
            if place.place_id in state.stock.missing_places
        )
        for group in pool.failures.keys() - {group for group, *_ in lacking}:
            if not self._outstanding(group):
                pool.nothing_missing(group)
        if not lacking or self._leases_come_first():
            return
        room = MAX_AT_ONCE - sum(each.outstanding for each in in_progress)
        for (group, spec, is_to_stop), missing in lacking.items():
            if len(in_progress) >= MAX_CALLS:  # each makes one call at a time
                break
            if self.market.offers.awaits_prices(spec):
                continue
            if is_to_stop and state.pool_starts.holds.failure(group.profile):
                continue
            count = min(missing, room, self._within_cap(group))
            if count <= 0 or pool.seconds_until_retry(group):
                continue
            room -= count
            round_ = self._begin_round(group, spec, count)
            run = self._run(group, round_, is_to_stop=is_to_stop)
            self.tasks.spawn(run, f"{count} instances for the pool")

    def _leases_come_first(self) -> bool:
        """Whether a lease waits for its launch call, or for the answer to it."""
        state = self.state
        if any(not each.is_for_pool for each in state.launches.in_progress):
            return True
        return bool(state.stock.missing - state.judged - state.launches.held_back)

    def _lacks_price(self, group: Group) -> bool:
        """Whether a cap has no price to compare with: the group's, or the cap on all that of any
        group that has instances."""
        unpriced = {
            Group(each.profile, each.market)
            for each in self.state.pool.targets
            if each.reasons[-1].code is ReasonCode.PRICE_UNKNOWN
        }
        if self.state.settings.pool.usd_per_hour is None:
            return group in unpriced
        return any(each == group or self._costing(each) for each in unpriced)

    def _within_cap(self, group: Group) -> int:
        """How many more the group may have: with a cap, what is being terminated still counts, and
        so does what other purchases may bring."""
        target = self.state.pool.target(group)
        if self._lacks_price(group):
            return 0
        if target is None or target.max_usd_per_hour is None:
            return MAX_AT_ONCE
        return target.most_running - self._costing(group)

    def _costing(self, group: Group) -> int:
        running = sum(is_for(each, group) for each in own_instances(self.state))
        return running + self._outstanding(group)

    def _outstanding(self, group: Group) -> int:
        return sum(
            each.outstanding
            for each in self.state.launches.in_progress
            if each.pool == tag_value(group.profile) and group.market in each.markets
        )

    def _begin_round(self, group: Group, spec: LaunchSpec, count: int) -> Round:
        round_ = Round(
            spec=spec,
            zones=self.state.zones.of(spec),
            outstanding=count,
            markets=frozenset(spec.markets),
            pool=tag_value(group.profile),
        )
        self.state.launches.in_progress.append(round_)
        return round_

    async def _run(self, group: Group, round_: Round, *, is_to_stop: bool) -> None:
        try:
            why = await self._buy(group, round_, is_to_stop=is_to_stop)
        except StoreError as error:
            log.error("Nothing is bought for the pool: %s", error)
            why = STORE_FAILED
        finally:
            self.state.launches.in_progress.remove(round_)
        if why:
            self.state.pool.failed(group, why)
        else:
            self.state.pool.bought(group)
        self.state.wake()

    async def _buy(self, group: Group, round_: Round, *, is_to_stop: bool) -> str:
        """Make one call after another until nothing is missing; returns why there is no more, or
        empty. Raises `StoreError`."""
        errors: list[LaunchError] = []
        asked: set[OfferKey] = set()
        ended_by, budget = None, Budget(self.state, self.market)
        for _ in range(MAX_PURCHASES):
            reserved = self._places_of_reservations(round_.spec) if is_to_stop else set()
            order = self._next_order(group, round_, asked | reserved, budget)
            if order is None:
                break
            response, ended_by = await self._call(group, round_, order)
            errors += response.errors
            asked |= done_with(order, response)
            if not round_.outstanding or ended_by is not None:
                break
        target = self.state.pool.target(group)
        if not round_.outstanding or target is None or not target.most_running:
            return ""
        if self._lacks_price(group):
            return NO_PRICE
        if budget.refusal and ended_by is None:
            return budget.refusal
        outcome = Outcome(tuple(errors), round_.outstanding, ended_by)
        offers = self.market.offers.marked(self._limited(group, round_.spec))
        return launch_failure(outcome, offers, home_zone="", now=self.state.clock.now()).message

    def _next_order(
        self, group: Group, round_: Round, asked: Set[OfferKey], budget: Budget
    ) -> Order | None:
        """As much as the caps of the pool and the limits of the hub allow; None for nothing."""
        if round_.outstanding <= 0 or self._lacks_price(group):
            return None
        spec = self._limited(group, round_.spec)
        taken = self.state.launches.discount_places_of_others(round_)
        count = budget.count(round_, spec)
        if not count:
            return None
        order = self.market.offers.next_order(budget.within(spec), asked, count, taken)
        if order is not None:
            round_.markets, round_.discount_places = order.markets, order.discount_places
        return order

    def _places_of_reservations(self, spec: LaunchSpec) -> Set[OfferKey]:
        return {each.key for each in self.market.offers.all_for(spec) if each.reservation}

    def _limited(self, group: Group, spec: LaunchSpec) -> LaunchSpec:
        """The spec with what an instance may cost so that every cap holds; not what is launched:
        that is what a start without a limit would launch."""
        target = self.state.pool.target(group)
        if target is None or target.max_usd_per_hour is None:
            return spec
        most = target.max_usd_per_hour - beside(spec, self.market)
        return replace(spec, max_usd_per_hour=max(most, 0.0))

    async def _call(
        self, group: Group, round_: Round, order: Order
    ) -> tuple[FleetResponse, ErrorClass | None]:
        """One call, which is not repeated: what it may have launched without an answer is
        terminated. With BUSY or REFUSED where that ends the round. Raises `StoreError`."""
        intent = await self.fleet.store_intent(round_.spec, order, pool=group.profile)
        round_.client_token = intent.client_token
        state, ended_by = IntentState.ANSWERED, None
        try:
            response = await self.fleet.create_once(intent.request)
        except CloudError as error:
            state = IntentState.FAILED
            response = FleetResponse((), (LaunchError(error.code, error.message),))
            ended_by = ErrorClass.BUSY if is_busy_error(error) else None
        verdict = without_summary(response)
        if ended_by is None:
            self.market.offers.learn(intent.request, verdict)
            ended_by = ErrorClass.REFUSED if is_refused(verdict, intent.request) else None
        intent = self.fleet.respond(intent, state, response)
        round_.outstanding -= len(response.instances)
        round_.client_token, round_.discount_places = "", {}
        await self.fleet.store_response(intent)
        return verdict, ended_by
