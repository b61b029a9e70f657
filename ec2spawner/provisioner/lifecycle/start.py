"""The way of a lease from the request to a notebook that listens."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ...core.names import lease_token, sha256_hex
from ...core.starts.phases import Marks
from ...wire import AgentEvent, Market, Step, Stop
from ..instances import claims
from ..instances.claims import (
    Claimant,
    Claims,
    Granted,
    InstanceUnwanted,
    Rebooted,
    SecondKey,
)
from ..instances.demand import has_served, would_serve
from ..instances.overhead import Overhead
from ..model import metrics
from ..model.cloud.instance import Instance
from ..model.leases.agent_protocol import too_old_for, what_it_lacks
from ..model.leases.lease import Lease, LeaseState
from ..offers.prices import PriceCache
from ..retention.restart_failure import unfit
from ..runtime.task_group import TaskGroup
from ..state.instances.interruptions import AWS_REBOOTS
from ..state.instances.pool_holds import Part
from ..state.start_times import Arrival
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)

STORE_PAUSE = 1.0
"""Seconds until a ready lease that could not be stored is tried again: JupyterHub waits for it."""

RESTART_SILENCE = 75.0
"""Seconds: an agent that lives is heard at least every 50 s, and a call takes a moment."""


class StartFailed(Exception):
    """The lease ended before it was ready; `stop` says why, for people."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.message)
        self.stop = stop


@dataclass(slots=True)
class Start:
    """Claims, and what follows until the agent says `ready`."""

    state: State
    claims: Claims
    prices: PriceCache
    overhead: Overhead
    tasks: TaskGroup

    async def wait_ready(self, lease_id: str, timeout: float) -> Lease:
        """The lease once its notebook listens.

        Raises `StartFailed` when it ended before, `TimeoutError` after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while True:
                lease = self.state.leases.get(lease_id)
                if lease is None or lease.state in {LeaseState.ENDING, LeaseState.ENDED}:
                    raise StartFailed((lease and lease.stop) or Stop(reason="failed"))
                if lease.state is not LeaseState.READY:
                    await self.state.leases.wait_for_change(lease_id, timeout)
                elif await self._is_stored(lease_id):
                    return lease
                else:
                    await self.state.leases.wait_for_change(lease_id, STORE_PAUSE)

    async def _is_stored(self, lease_id: str) -> bool:
        """JupyterHub believes in a server that runs: the next process shall know it, too."""
        try:
            await self.state.leases.be_stored(lease_id)
        except StoreError as error:
            log.warning("That %s is ready is not stored yet: %s", lease_id, error)
            return False
        return True

    # --- claims ---

    async def claim(
        self, claimant: Claimant, key: str, wait: float, arrival: Arrival | None = None
    ) -> Granted | None:
        """Answer a verified claim; None when there is nothing within `wait` seconds.

        `arrival` is how it reached the hub, now by default. Raises `ClaimRefused`,
        `InstanceUnwanted`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        times = self.state.leases.times
        arrival = arrival or Arrival(times.now())
        while True:
            considered = times.now()
            try:
                instance = await self.claims.admit(claimant, key, claims.LISTING_PAUSE)
            except SecondKey:
                await self._end_if_restarted(claimant.instance_id)
                raise
            except Rebooted:
                await self._end_rebooted(claimant.instance_id)
                raise
            if instance is not None:
                times.claimed(instance.instance_id, arrival)
                if granted := await self._grant(instance, claimant, key, considered):
                    return granted
            remaining = deadline - loop.time()
            if remaining <= 0:
                return None
            pause = remaining if instance is not None else min(remaining, claims.LISTING_PAUSE)
            if not await self.state.claims.wait(claimant.instance_id, pause):
                return None

    async def turn_away(self, claimant: Claimant, key: str, wait: float, stop: Stop) -> None:
        """A verified agent that this hub cannot work with: its instance ends.

        The start that it would have served fails with `stop`: each other instance of that image
        would be as unfit. An instance that serves a lease already is left alone, and one with a
        kept disk is stopped again, within `wait` seconds. Raises `ClaimRefused`,
        `InstanceUnwanted`.
        """
        instance = await self.claims.admit_in_time(claimant, key, wait)
        if instance is None or self.state.leases.of_instance(instance.instance_id) is not None:
            return
        if not await self._give_up(instance, claimant, stop):
            await self.state.claims.wait(instance.instance_id, wait)

    async def turn_away_reclaimed(self, claimant: Claimant, key: str, wait: float) -> None:
        """End a spot instance for which EC2 has given notice, before it gets a lease.

        Nothing happens where it has one, or where no listing shows it within `wait` seconds: it
        claims again. Raises `ClaimRefused`, and `InstanceUnwanted` once it is turned away.
        """
        instance = await self.claims.admit_in_time(claimant, key, wait)
        if instance is None or instance.market != Market.SPOT:
            return
        if self.state.leases.of_instance(instance.instance_id) is not None:
            return
        log.warning("EC2 is reclaiming %s, which serves no lease", instance.instance_id)
        self.state.interrupted(instance)
        self.state.claims.turn_away([instance.instance_id])
        self.state.wake()
        raise InstanceUnwanted("EC2 is reclaiming this instance")

    async def _give_up(self, instance: Instance, claimant: Claimant, stop: Stop) -> bool:
        """Reject an unfit instance that serves no lease; False if its disk is kept.

        A kept instance may be of an older image than the others, so it fails no start but its own
        user's. The start that waits for one that lingers gets another instance.
        """
        lease = would_serve(self.state, instance, claimant.pending_time)
        kept = self.state.retained.get(instance.instance_id)
        if kept is not None and kept.is_of_pool:
            kept = None  # it has nobody's files
        if kept is not None and kept.then == "stop":
            if lease is not None:
                log.error("%s, which is kept, cannot be used: %s", kept.instance_id, stop.message)
                await self.state.retained.take_start_back(kept.instance_id)
                stop = Stop(reason="failed", message=unfit(stop.message))
                await self.state.end(lease.lease_id, stop)
                self.state.wake()
            # A 410 would make its agent power off, which deletes an unprotected disk.
            return False
        log.error("%s cannot be used: %s", instance.instance_id, stop.message)
        self.state.claims.turn_away([instance.instance_id])
        if lease is not None and kept is None:
            await self.state.end(lease.lease_id, stop)
        self.state.wake()
        return True

    async def _end_if_restarted(self, instance_id: str) -> None:
        """Another agent speaks on an instance whose own is silent: it was restarted.

        Whoever pretends that on their instance ends their own server, and no other.
        """
        lease = self.state.leases.of_instance(instance_id)
        if lease is None or lease.state is not LeaseState.READY:
            return
        heard_at = self.state.leases.contact(lease.lease_id).heard_at
        if heard_at is not None and self.state.clock.uptime() - heard_at > RESTART_SILENCE:
            message = "Its machine was restarted from outside the hub, which ended the notebook"
            await self.state.end(lease.lease_id, Stop(reason="lost", message=message))

    async def _end_rebooted(self, instance_id: str) -> None:
        """Let a server continue elsewhere whose instance AWS has rebooted before a hub moved it.

        The claim is refused and its instance ends, as after any other reboot: a program of its user
        may have claimed. For the same reason the home counts as mounted.
        """
        lease = self.state.leases.of_instance(instance_id)
        if lease is not None and lease.state is LeaseState.READY:
            log.warning("%s: AWS has rebooted %s", lease.lease_id, instance_id)
            await self.state.end(lease.lease_id, AWS_REBOOTS)
            self.state.leases.report_agent_stopped(lease.lease_id, home_released=False)

    async def _grant(
        self, instance: Instance, claimant: Claimant, key: str, considered: float
    ) -> Granted | None:
        lease = self.state.leases.of_instance(instance.instance_id)
        lease = lease or await self._assign(instance, claimant, key, considered)
        if lease is None:
            return None
        self.state.leases.contact(lease.lease_id).protocol = claimant.protocol
        if lease.state is LeaseState.ENDING:
            if lease.stop is None or lease.stop.then == "terminate":
                raise InstanceUnwanted("the lease of this instance is ending")
            # It claims again only after it has unmounted the home, and says it once.
            self.state.leases.report_agent_stopped(lease.lease_id, home_released=True)
            return None
        if self.state.must_wait(lease):
            return None  # only one instance at a time opens a home
        home = self.state.homes.for_lease(lease)
        if lease.home_kind == "ebs" and (home is None or home.volume_id is None):
            return None
        return Granted(lease, home, lease_token(key, lease.lease_id))

    async def _assign(
        self, instance: Instance, claimant: Claimant, key: str, considered: float
    ) -> Lease | None:
        kept = self.state.retained.get(instance.instance_id)
        is_new = kept is None or kept.is_of_pool or kept.is_ahead
        if is_new and has_served(self.state, instance):
            raise InstanceUnwanted("this instance has served another lease")
        lease = would_serve(self.state, instance, claimant.pending_time)
        if lease is None:
            return None
        if lacks := what_it_lacks(lease, claimant.protocol):
            stop = Stop(reason="failed", message=too_old_for(lacks))
            if not await self._give_up(instance, claimant, stop):
                return None
            raise InstanceUnwanted(too_old_for(lacks))
        free_at, wanted_at = instance.launched_at, _wanted_at(lease)
        changes: dict[str, Any] = {}
        if kept is not None:
            free_at = free_at if kept.is_ahead else max(free_at, kept.kept_at)
            if kept.then == "linger":
                words = "Your machine has waited for you"
                changes["events"] = self.state.leases.story(
                    lease.lease_id, Step.BOOT, words, instance.instance_id
                )
        is_of_pool = is_new if kept else self.state.pool.is_of_pool(instance)
        is_hit = is_of_pool and self._has_waited(instance, lease)
        if is_new and self._has_pool(lease):
            was_stopped = "stopped" if kept is not None and kept.then == "stop" else "miss"
            metrics.POOL_STARTS.labels(lease.profile, "hit" if is_hit else was_stopped).inc()
        if is_hit:
            words = "A machine was ready and waiting"
            changes["events"] = self.state.leases.story(
                lease.lease_id, Step.BOOT, words, instance.instance_id
            )
        # What was stored while it waited is replaced.
        may_be_stored = is_of_pool or (kept is not None and kept.then == "linger")
        if free_at < wanted_at or may_be_stored:  # it was nobody's, or of a cancelled start
            unused = self.overhead.before_lease(instance, free_at, wanted_at, kept)
            self.tasks.spawn(unused, f"overhead of {instance.instance_id}")
        segment = self.prices.segment(instance, max(free_at, wanted_at))
        if kept is not None and kept.then == "stop":
            disks = self.overhead.of_disks(kept, instance, segment.start)
            self.tasks.spawn(disks, f"disks of {instance.instance_id}")
        lease = await self.state.leases.change(
            lease.lease_id,
            state=LeaseState.STARTING,
            instance_id=instance.instance_id,
            token_sha256=sha256_hex(lease_token(key, lease.lease_id)),
            assigned_at=self.state.clock.now(),
            segments=(*lease.segments, segment),
            on_retained=kept is not None and kept.then == "stop" and not kept.is_of_pool,
            marks=self.state.leases.times.granted(lease, instance.instance_id, considered),
            **changes,
        )
        if kept is not None:
            if kept.is_of_pool:
                self.state.pool_starts.holds.works(kept.profile, Part.START)
            await self.state.retained.forget(kept)
        log.info(
            "%s of %r/%r gets %s (%s, %s, %s)",
            lease.lease_id,
            lease.user,
            lease.server,
            instance.instance_id,
            instance.instance_type,
            instance.market,
            instance.zone,
        )
        self.state.lease_assigned.set()
        if lease.continues:
            self.state.continuation_wanted.set()
        self.state.wake()
        return lease

    def _has_pool(self, lease: Lease) -> bool:
        return any(
            each.profile == lease.profile and (each.running or each.stopped.number)
            for each in self.state.pool.targets
        )

    def _has_waited(self, instance: Instance, lease: Lease) -> bool:
        """Whether it was up before the server was requested."""
        binding = self.state.claims.binding(instance.instance_id)
        return binding is not None and binding.bound_at <= lease.requested_at

    # --- what the agent reports ---

    async def agent_event(self, lease: Lease, event: AgentEvent, url: str) -> None:
        """Apply `home`, `notebook`, `ready` or `failed`; `url` is where `ready` listens.

        Raises `StoreError`, and then the agent shall say it again: until it is stored.
        """
        current = self.state.leases.get(lease.lease_id)
        if current is not None and current.state is LeaseState.READY:
            await self.state.leases.be_stored(lease.lease_id)
        if current is None or current.state is not LeaseState.STARTING:
            return
        if current.instance_id != lease.instance_id:
            return  # the lease was given another instance while this event was on its way
        if event.step in current.steps:
            return  # each line is a write to the store, and an agent is its user's
        match event.step:
            case "home":
                words = "Opening your home" if current.is_server else "Mounting disks"
                await self.state.leases.note(lease.lease_id, Step.HOME, words)
            case "notebook":
                # With it comes what could not be mounted.
                mounted = self.state.leases.times.seconds(current)
                await self.state.leases.note(
                    lease.lease_id,
                    Step.NOTEBOOK,
                    _starting(current),
                    event.message,
                    marks=replace(current.marks, mounted=mounted),
                )
            case "ready":
                await self.state.leases.note(
                    lease.lease_id,
                    Step.READY,
                    _started(current),
                    event.message,
                    state=LeaseState.READY,
                    url=url,
                    ready_at=self.state.clock.now(),
                    marks=self._listening(current, event),
                )
                if (ready := self.state.leases.get(lease.lease_id)) is not None:
                    await self.state.sleeping.wake([ready])
            case "failed":
                message = event.message or "The notebook server did not start"
                contact = self.state.leases.contact(lease.lease_id)
                contact.home_released = event.home_released
                await self.state.end(lease.lease_id, Stop(reason="failed", message=message))

    def _listening(self, lease: Lease, event: AgentEvent) -> Marks:
        listening = self.state.leases.times.seconds(lease)
        took = event.listen_seconds
        started = None if took is None else listening - took
        return replace(lease.marks, notebook_started=started, listening=listening)

    def route_added(self, lease_id: str) -> None:
        """JupyterHub has added the route of a server: the first time ends its start."""
        lease = self.state.leases.get(lease_id)
        if lease is None or lease.state is not LeaseState.READY:
            return
        if lease.marks.listening is None or lease.marks.routed is not None:
            return
        times = self.state.leases.times
        routed = replace(lease.marks, routed=times.seconds(lease))
        times.forget(lease_id)
        self.state.leases.remember(lease_id, marks=routed)


def _wanted_at(lease: Lease) -> datetime:
    """Since when the lease pays for an instance: it never pays for two at once."""
    ends = [segment.end for segment in lease.segments if segment.end is not None]
    return max([lease.requested_at, *ends])


def _starting(lease: Lease) -> str:
    if lease.run:
        return "Starting the run"
    return "Joining the cluster" if lease.head else "Starting JupyterLab"


def _started(lease: Lease) -> str:
    if lease.run:
        return "It runs"
    return "It has joined the cluster" if lease.head else "Your server is ready"
