"""Starts stopped instances of the warm pool for leases, in place of buying on demand.

Only where a purchase of the on-demand market's own capacity comes next: a lease for which spot is
available is never given an instance that costs more because one is prepared, and a place of a
capacity reservation is paid, used or not. What EC2 does not start is bought.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...core.instances.matching import Need, fits
from ...core.instances.retention_rules import Kept
from ...core.offers.launch_errors import SOLD_OUT
from ...wire import Market
from ..instances.demand import EPOCH
from ..instances.pool_stops import may_start_for, stopped_in_pool
from ..instances.supply import supply_of
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import Instance, InstanceState
from ..model.launch_key import base_key_of, unlimited_key_of
from ..offers.offers import Offers, Order
from ..state.instances.launches import Round
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)

ANSWER_TIMEOUT: Final = 20.0
"""Seconds for EC2 to answer, its rate limit included: then a purchase comes sooner."""


@dataclass(slots=True)
class StoppedInstances:
    """Of the warm pool: for which purchase one is started, and what becomes of the call."""

    state: State
    cloud: Cloud
    offers: Offers

    def fitting(self, round_: Round, order: Order) -> Sequence[Instance]:
        """Those that serve the round's leases at an offer of this order, the longest wait first."""
        if order.market is not Market.ON_DEMAND or order.reservation:
            return ()
        offered = {(offer.instance_type, offer.zone) for offer in order.offers}
        need = _need_of(round_)
        profiles = {kept.profile for kept in self.state.retained.of_pool()}
        held = {each for each in profiles if not may_start_for(self.state, each)}
        return [
            instance
            for kept, instance in stopped_in_pool(self.state)
            if kept.profile not in held
            and instance.state is InstanceState.STOPPED
            and (instance.instance_type, instance.zone) in offered
            and self.state.pool_starts.may_start(instance.instance_id)
            and fits(need, supply_of(instance, self.state.pool.usd_per_hour(instance.instance_id)))
        ][: order.count]

    async def start(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """Ask EC2 to start each of them; those that it starts.

        Each by a call of its own: where capacity lacks for one, EC2 starts none of a call.
        """
        for each in instances:  # before anything is awaited: no other round shall take them
            self.state.pool_starts.begin(each.instance_id)
        are_started = await asyncio.gather(*map(self._start, instances))
        self.state.instances.refresh_soon()
        pairs = zip(instances, are_started, strict=True)
        return [instance for instance, is_started in pairs if is_started]

    async def _start(self, instance: Instance) -> bool:
        instance_id, starts = instance.instance_id, self.state.pool_starts
        accepted = False
        try:
            if kept := self.state.retained.get(instance_id):
                accepted = await self._ask(instance, kept)
        finally:
            if accepted:
                starts.accepted(instance_id)
            else:
                starts.failed(instance_id)
        return accepted

    async def _ask(self, instance: Instance, kept: Kept) -> bool:
        instance_id, times = instance.instance_id, self.state.leases.times
        # Before the call: what claims with a new key is then known to be of our start.
        asked = replace(kept, asked_at=self.state.clock.now(), launched_at=instance.launched_at)
        try:
            await self.state.retained.save(asked)
            sent_at = times.now()
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self.cloud.start([instance_id])
        except TimeoutError:
            log.warning("EC2 does not answer whether it starts %s of the pool", instance_id)
        except StoreError as error:
            log.error("%s of the pool is not started: %s", instance_id, error)
        except CloudError as error:
            self._refused(instance, error)
        else:
            times.started_again(instance_id, sent_at)
            return True
        return False

    def _refused(self, instance: Instance, error: CloudError) -> None:
        """It stays stopped. Where EC2 has no capacity, that is known of its offer from now on."""
        log.warning("Starting %s of the pool: %s", instance.instance_id, error)
        if error.code in SOLD_OUT:
            self.offers.learn_of_start(instance, error)


def _need_of(round_: Round) -> Need:
    spec = round_.spec
    return Need(
        lease_id="",
        base_key=base_key_of(spec),
        instance_types=frozenset(spec.instance_types),
        zones=round_.zones,
        markets=frozenset(spec.markets),
        requested_at=EPOCH,
        priced_key=unlimited_key_of(spec),
        usd_per_hour=spec.max_usd_per_hour,
    )
