"""Stops what is prepared beyond the pool's running places, and ends what no place wants stopped."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from ...core.instances.matching import Shape, fits
from ...core.instances.retention_rules import OF_POOL, Kept
from ..instances.demand import RUNNING, shapes_wanted
from ..instances.overhead import Overhead
from ..instances.pool_stops import (
    FAILED_PARTS,
    called_at,
    is_in_reservation,
    undone,
    why_useless,
)
from ..instances.supply import supply_of
from ..instances.taken_ahead import number_ahead
from ..model.cloud.instance import GONE, Instance, InstanceState
from ..offers.offers import Offers
from ..state.instances.pool_holds import Part
from ..state.pool import Group
from ..state.state import State
from .standing import filled_places

log = logging.getLogger(__name__)

NEVER: Final = timedelta(days=3650)
"""A place that is configured for years is kept for years: `pool-unused` raises the alarm."""

LONGEST_READING: Final = 1200.0
"""Seconds for which an agent may read files ahead before its instance is stopped anyway. It limits
itself to less (`agent.read_ahead.limits.MAX_SECONDS`); one that does not would cost compute."""


@dataclass(slots=True)
class StoppedPlaces:
    """Decides only: `Retention` makes the calls, and accounts for what is stopped."""

    state: State
    overhead: Overhead
    offers: Offers
    _at_rest: set[str] = field(default_factory=set)
    """Ids of those that were listed as stopped in the last pass."""

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`."""
        retained, starts = self.state.retained, self.state.pool_starts
        starts.forget_others({kept.instance_id for kept in retained.of_pool()})
        await self._note_undone()
        self._note_stops()
        starts.unwanted = self._no_longer_wanted()
        any_stopped = any(target.stopped.number for target in self.state.pool.targets)
        wanted = shapes_wanted(self.state) if any_stopped else frozenset()
        for group, instances in filled_places(self.state).items():
            target = self.state.pool.target(group)
            if target is not None and target.stopped.number:
                prepared = [each for each in instances if self._is_prepared(each, wanted)]
                # First, so that they wait running: their places are paid.
                prepared.sort(key=lambda each: not is_in_reservation(self.state, each))
                ahead = number_ahead(self.state, group)
                for instance in prepared[max(target.running - ahead, 0) :]:
                    if is_in_reservation(self.state, instance):
                        self._leave(instance)
                    else:
                        await self._stop(group, instance)

    async def _note_undone(self) -> None:
        """One that EC2 stopped again for lack of capacity waits on; what is known of its offer now
        is the same as after a start that EC2 refuses."""
        for kept in self.state.retained.of_pool():
            instance = self.state.instances.listed.get(kept.instance_id)
            if instance is None or (error := undone(kept, instance)) is None:
                continue
            log.warning("Starting %s of the pool was undone: %s", kept.instance_id, error)
            self.offers.learn_of_start(instance, error)
            self.state.pool_starts.failed(kept.instance_id)
            at_rest = replace(kept, asked_at=None, launched_at=instance.launched_at)
            await self.state.retained.save(at_rest)
            self.state.wake()

    def _note_stops(self) -> None:
        """EC2 stops instances of these profiles: each that is stopped now, and was not before."""
        before, self._at_rest = self._at_rest, set()
        for kept in self.state.retained.of_pool():
            instance = self.state.instances.listed.get(kept.instance_id)
            if instance is not None and instance.state is InstanceState.STOPPED:
                self._at_rest.add(kept.instance_id)
                if kept.instance_id not in before:
                    self.state.pool_starts.holds.works(kept.profile, Part.STOP)

    def _no_longer_wanted(self) -> dict[str, str]:
        unwanted: dict[str, str] = {}
        surplus = {each.instance_id for each in self.state.stock.surplus}
        surplus |= self.state.pool.unwanted_stopped
        for kept in self.state.retained.of_pool():
            instance = self.state.instances.listed.get(kept.instance_id)
            if instance is None or instance.state in GONE:
                continue
            why = why_useless(self.state, kept, instance)
            # What a purchase loop has begun to start since places were counted is some start's.
            is_starting = self.state.pool_starts.is_starting(kept.instance_id)
            if not why and kept.instance_id in surplus and not is_starting:
                why = "no place of the pool wants it"
            if why:
                unwanted[kept.instance_id] = why
        for instance_id in unwanted.keys() - self.state.pool_starts.unwanted.keys():
            why, of_it = unwanted[instance_id], self.state.retained.get(instance_id)
            log.info("%s of the warm pool ends: %s", instance_id, why)
            if of_it is not None and (part := FAILED_PARTS.get(why)):
                message = f"{instance_id} ends: {why}; the hub's log may say more"
                self.state.pool_starts.holds.failed(of_it.profile, part, message)
        return unwanted

    def _is_prepared(self, instance: Instance, wanted: Collection[Shape]) -> bool:
        """Whether it has booted, its notebook is imported and its files are read ahead. `wanted` is
        what starts wait for."""
        state, instance_id = self.state, instance.instance_id
        # One that is listed as pending runs where its agent has called.
        if state.leases.of_instance(instance_id) or instance.state not in RUNNING:
            return False
        since = called_at(state, instance_id)
        if since is None or instance_id in state.claims.unwanted:
            return False
        kept = state.retained.get(instance_id)
        if kept is not None and kept.is_ahead:
            return False
        if self._would_serve(instance, wanted):
            state.claims.wake(instance_id)
            return False
        waited = (state.clock.now() - since).total_seconds()
        return not state.claims.reads_ahead(instance_id) or waited > LONGEST_READING

    def _would_serve(self, instance: Instance, wanted: Collection[Shape]) -> bool:
        """Whether a start waits that it serves, also if another one boots for that: the agent may
        be about to get it."""
        usd = self.state.pool.usd_per_hour(instance.instance_id)
        supply = supply_of(instance, usd)
        return any(fits(need, supply) for need in wanted)

    def _leave(self, instance: Instance) -> None:
        """Let it end: stopped, it would leave its place in a reservation unused, and could start
        nowhere else. Another one is prepared in its stead."""
        stock = self.state.stock
        log.info("%s is not stopped: it is in a capacity reservation", instance.instance_id)
        self.state.stock = replace(
            stock,
            surplus=(*stock.surplus, instance),
            in_places=tuple(each for each in stock.in_places if each is not instance),
        )

    async def _stop(self, group: Group, instance: Instance) -> None:
        state, kept = self.state, self.state.retained.get(instance.instance_id)
        if kept is None:
            await self.overhead.of_place(instance, runs_on=False)
            if not self._is_prepared(instance, shapes_wanted(self.state)):
                return  # a start has taken it meanwhile
            kept = self._new(group, instance)
        log.info("%s waits stopped in the pool of %s from now on", kept.instance_id, group.profile)
        # Before it is stopped: no start shall get it meanwhile.
        await state.retained.save(replace(kept, asked_at=None))
        state.pool_starts.stops(kept.instance_id)
        state.wake()

    def _new(self, group: Group, instance: Instance) -> Kept:
        # Not the instant at which the pass began: the time until now is counted as it ran.
        now = self.state.clock.now()
        spec = (self.state.pool.specs or {}).get(group.profile)
        segment = self.overhead.prices.segment(instance, now)
        return Kept(
            instance_id=instance.instance_id,
            user="",
            server="",
            lease_id=OF_POOL,
            profile=group.profile,
            profile_name="",
            then="stop",
            fit_key="",
            kept_at=now,
            until=now + NEVER,
            launched_at=instance.launched_at,
            disk_gib=spec.disk_gib if spec else 0,
            disk_usd_per_month=segment.disk_usd_per_month,
        )
