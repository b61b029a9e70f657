"""The way of a lease from the request to a notebook that listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ...core.instances.matching import Need, Supply, lease_for
from ...core.names import lease_token, sha256_hex
from ...core.pricing.money import overhead_key
from ...core.tags import LEASE
from ...wire import (
    AgentEvent,
    Market,
    Step,
    Stop,
)
from ..homes.volumes import Homes
from ..instances.claims import (
    Claimant,
    Claims,
    Granted,
    InstanceUnwanted,
    SecondKey,
)
from ..instances.inventory import supply_of
from ..model import metrics
from ..model.agent_protocol import too_old_for, what_it_lacks
from ..model.cloud import Instance, LaunchSpec
from ..model.launch_key import base_key_of
from ..model.lease import Lease, LeaseState
from ..offers.prices import PriceCache
from ..retention.failure_message import unfit
from ..retention.retention import Retention
from ..runtime.uptime_clock import UptimeClock
from ..state.lease_registry import LeaseRegistry
from ..store.store import Store, StoreError
from .home_attachment import HomeAttachment

log = logging.getLogger(__name__)

LISTING_PAUSE = 1.0
"""Seconds a claim waits at most for a listing that shows its instance, before it looks again."""

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
    """Needs, claims and what follows until the agent says `ready`."""

    registry: LeaseRegistry
    claims: Claims
    homes: Homes
    home_attachment: HomeAttachment
    retention: Retention
    prices: PriceCache
    store: Store
    now: Callable[[], datetime]
    zones_of: Callable[[LaunchSpec], frozenset[str]]
    supplies: Callable[[], Sequence[Supply]]
    """Everything that can still take a lease."""
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    fail: Callable[[str, Stop], Coroutine[Any, Any, None]]
    stopped: Callable[[Lease], None]
    """Told when the agent of an ending lease has shown that it is done."""
    wake: Callable[[], None]
    uptime: UptimeClock
    judged: set[str] = field(default_factory=set)
    """Leases whose machine ended or never spoke, while it is found out why (`StartTimeouts`)."""

    # --- demand ---

    def needs(self) -> list[Need]:
        """Of the leases that wait for any instance that fits: not for one that is kept for them."""
        return [
            self.need_of(lease)
            for lease in self.registry.open(LeaseState.WAITING)
            if lease.lease_id not in self.judged
            and not self.retention.serves(lease)
            and not self._waits_for_its_home(lease)
        ]

    def _waits_for_its_home(self, lease: Lease) -> bool:
        """A machine would only cost money while the files are on their way to its zone."""
        return lease.home_kind == "ebs" and self.homes.is_moving(lease.user, lease.server)

    def need_of(self, lease: Lease) -> Need:
        return Need(
            lease_id=lease.lease_id,
            base_key=base_key_of(lease.spec),
            instance_types=frozenset(lease.spec.instance_types),
            zones=self.zones_of(lease.spec),
            markets=frozenset(lease.spec.markets),
            requested_at=lease.requested_at,
        )

    async def wait_ready(self, lease_id: str, timeout: float) -> Lease:
        """The lease once its notebook listens.

        Raises `StartFailed` when it ended before, `TimeoutError` after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while True:
                lease = self.registry.get(lease_id)
                if lease is None or lease.state in {LeaseState.ENDING, LeaseState.ENDED}:
                    raise StartFailed((lease and lease.stop) or Stop(reason="failed"))
                if lease.state is not LeaseState.READY:
                    await self.registry.wait_for_change(lease_id, timeout)
                elif await self._is_stored(lease_id):
                    return lease
                else:
                    await self.registry.wait_for_change(lease_id, STORE_PAUSE)

    async def _is_stored(self, lease_id: str) -> bool:
        """JupyterHub believes in a server that runs: the next process shall know it, too."""
        try:
            await self.registry.be_stored(lease_id)
        except StoreError as error:
            log.warning("That %s is ready is not stored yet: %s", lease_id, error)
            return False
        return True

    # --- claims ---

    async def claim(self, claimant: Claimant, key: str, wait: float) -> Granted | None:
        """Answer a verified claim; None when there is nothing within `wait` seconds.

        Raises `ClaimRefused`, `InstanceUnwanted`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            try:
                instance = await self.claims.admit(claimant, key, LISTING_PAUSE)
            except SecondKey:
                await self._end_if_restarted(claimant.instance_id)
                raise
            if instance is not None and (granted := await self._grant(instance, claimant, key)):
                return granted
            remaining = deadline - loop.time()
            if remaining <= 0:
                return None
            pause = remaining if instance is not None else min(remaining, LISTING_PAUSE)
            if not await self.claims.wait(claimant.instance_id, pause):
                return None

    async def turn_away(self, claimant: Claimant, key: str, wait: float, stop: Stop) -> None:
        """A verified agent that this hub cannot work with: its instance ends.

        The start that it would have served fails with `stop`: each other instance of that image
        would be as unfit. An instance that serves a lease already is left alone, and one with a
        kept disk is stopped again, within `wait` seconds. Raises `ClaimRefused`,
        `InstanceUnwanted`.
        """
        instance = await self.admitted(claimant, key, wait)
        if instance is None or self.registry.of_instance(instance.instance_id) is not None:
            return
        if not await self._give_up(instance, claimant, stop):
            await self.claims.wait(instance.instance_id, wait)

    async def turn_away_reclaimed(self, claimant: Claimant, key: str, wait: float) -> None:
        """End a spot instance for which EC2 has given notice, before it gets a lease.

        Nothing happens where it has one, or where no listing shows it within `wait` seconds: it
        claims again. Raises `ClaimRefused`, and `InstanceUnwanted` once it is turned away.
        """
        instance = await self.admitted(claimant, key, wait)
        if instance is None or instance.market != Market.SPOT:
            return
        if self.registry.of_instance(instance.instance_id) is not None:
            return
        log.warning("EC2 is reclaiming %s, which serves no lease", instance.instance_id)
        self.claims.turn_away([instance.instance_id])
        self.wake()
        raise InstanceUnwanted("EC2 is reclaiming this instance")

    async def admitted(self, claimant: Claimant, key: str, wait: float) -> Instance | None:
        """The instance of a verified claim; None where no listing shows it within `wait` seconds.

        Raises `ClaimRefused`, `InstanceUnwanted`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while (instance := await self.claims.admit(claimant, key, LISTING_PAUSE)) is None:
            if loop.time() > deadline:
                return None
            await self.claims.wait(claimant.instance_id, LISTING_PAUSE)
        return instance

    async def _give_up(self, instance: Instance, claimant: Claimant, stop: Stop) -> bool:
        """Reject an unfit instance that serves no lease; False if its disk is kept.

        A kept instance may be of an older image than the others, so it fails no start but its own
        user's. The start that waits for one that lingers gets another instance.
        """
        lease = self.would_serve(instance, claimant)
        kept = self.retention.get(instance.instance_id)
        if kept is not None and kept.then == "stop":
            if lease is not None:
                log.error("%s, which is kept, cannot be used: %s", kept.instance_id, stop.message)
                await self.retention.take_start_back(kept.instance_id)
                await self.fail(lease.lease_id, Stop(reason="failed", message=unfit(stop.message)))
                self.wake()
            # A 410 would make its agent power off, and EC2 would delete the disk.
            return False
        log.error("%s cannot be used: %s", instance.instance_id, stop.message)
        self.claims.turn_away([instance.instance_id])
        if lease is not None and kept is None:
            await self.fail(lease.lease_id, stop)
        self.wake()
        return True

    def would_serve(self, instance: Instance, claimant: Claimant) -> Lease | None:
        """The waiting lease that would get this instance, which serves none now."""
        if self.retention.get(instance.instance_id) is not None:
            return self.retention.lease_for(instance, claimant.pending_time)
        if self._has_served(instance):
            return None
        free = supply_of(instance)
        others = [s for s in self.supplies() if s.supply_id != free.supply_id]
        need = lease_for(free, self.needs(), others)
        return self.registry.get(need.lease_id) if need is not None else None

    def _has_served(self, instance: Instance) -> bool:
        return LEASE in instance.tags or instance.instance_id in self.registry.served()

    async def _end_if_restarted(self, instance_id: str) -> None:
        """Another agent speaks on an instance whose own is silent: it was restarted.

        Whoever pretends that on their instance ends their own server, and no other.
        """
        lease = self.registry.of_instance(instance_id)
        if lease is None or lease.state is not LeaseState.READY:
            return
        heard_at = self.registry.contact(lease.lease_id).heard_at
        if heard_at is not None and self.uptime() - heard_at > RESTART_SILENCE:
            message = "Its machine was restarted from outside the hub, which ended the notebook"
            await self.fail(lease.lease_id, Stop(reason="lost", message=message))

    async def _grant(self, instance: Instance, claimant: Claimant, key: str) -> Granted | None:
        lease = self.registry.of_instance(instance.instance_id)
        lease = lease or await self._assign(instance, claimant, key)
        if lease is None:
            return None
        self.registry.contact(lease.lease_id).protocol = claimant.protocol
        if lease.state is LeaseState.ENDING:
            if lease.stop is None or lease.stop.then == "terminate":
                raise InstanceUnwanted("the lease of this instance is ending")
            self.stopped(lease)  # it claims again only after that, and says it once
            return None
        home = self.homes.for_lease(lease)
        if lease.home_kind == "ebs" and (home is None or home.volume_id is None):
            return None
        return Granted(lease, home, lease_token(key, lease.lease_id))

    async def _assign(self, instance: Instance, claimant: Claimant, key: str) -> Lease | None:
        kept = self.retention.get(instance.instance_id)
        if kept is None and self._has_served(instance):
            raise InstanceUnwanted("this instance has served another lease")
        lease = self.would_serve(instance, claimant)
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
            free_at = max(free_at, kept.kept_at)
            if kept.then == "linger":
                words = "Your machine has waited for you"
                changes["events"] = self.registry.story(
                    lease.lease_id, Step.BOOT, words, instance.instance_id
                )
        if free_at < wanted_at:  # for somebody else, who no longer wanted it, or for nobody
            unused = self.prices.segment(instance, free_at, wanted_at)
            which = overhead_key(instance.launched_at, kept.lease_id if kept else "")
            overhead = self.store.save_overhead_sooner_or_later(unused, which)
            self.spawn_task(overhead, f"overhead of {unused.instance_id}")
        segment = self.prices.segment(instance, max(free_at, wanted_at))
        lease = await self.registry.change(
            lease.lease_id,
            state=LeaseState.STARTING,
            instance_id=instance.instance_id,
            token_sha256=sha256_hex(lease_token(key, lease.lease_id)),
            assigned_at=self.now(),
            segments=(*lease.segments, segment),
            **changes,
        )
        await self.retention.forget(instance.instance_id)
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
        self.home_attachment.begin(lease, instance)
        self.wake()
        return lease

    # --- what the agent reports ---

    async def agent_event(self, lease: Lease, event: AgentEvent, url: str) -> None:
        """Apply `home`, `notebook`, `ready` or `failed`; `url` is where `ready` listens.

        Raises `StoreError`, and then the agent shall say it again: until it is stored.
        """
        current = self.registry.get(lease.lease_id)
        if current is not None and current.state is LeaseState.READY:
            await self.registry.be_stored(lease.lease_id)
        if current is None or current.state is not LeaseState.STARTING:
            return
        if current.instance_id != lease.instance_id:
            return  # the lease was given another instance while this event was on its way
        if event.step in current.steps:
            return  # each line is a write to the store, and an agent is its user's
        match event.step:
            case "home":
                await self.registry.note(lease.lease_id, Step.HOME, "Opening your home")
            case "notebook":
                # With it comes what could not be mounted.
                await self.registry.note(
                    lease.lease_id, Step.NOTEBOOK, "Starting JupyterLab", event.message
                )
            case "ready":
                await self.registry.note(
                    lease.lease_id,
                    Step.READY,
                    "Your server is ready",
                    state=LeaseState.READY,
                    url=url,
                    ready_at=self.now(),
                )
                took = (self.now() - lease.requested_at).total_seconds()
                for segment in current.segments[-1:]:
                    metrics.START_SECONDS.labels(segment.market.value).observe(took)
            case "failed":
                message = event.message or "The notebook server did not start"
                await self.fail(lease.lease_id, Stop(reason="failed", message=message))

    async def replace_instance(self, lease: Lease, limit: int, boot_log: str = "") -> None:
        """The instance died before the notebook listened: back to the waiting list.

        `boot_log` is its end, for people.
        """
        if self.registry.get(lease.lease_id) is not lease:
            return  # it has changed since the pass looked; the next one looks again
        if lease.replaced >= limit:
            number = lease.replaced + 1
            ended = "1 instance" if number == 1 else f"{number} instances"
            message = f"{ended} ended before your server was ready. {_ENDED_EARLY_FIX} {boot_log}"
            stop = Stop(reason="failed", message=message.strip()[:500])
            await self.fail(lease.lease_id, stop)
            return
        log.warning("An instance of %s ended before it was ready", lease.lease_id)
        message = "The instance ended while it was starting; getting another one"
        await self.registry.send_back(
            lease.lease_id, message, boot_log, replaced=lease.replaced + 1
        )


_ENDED_EARLY_FIX: Final = "Try again; if it ends so again, an admin should look at the image."


def _wanted_at(lease: Lease) -> datetime:
    """Since when the lease pays for an instance: it never pays for two at once."""
    ends = [segment.end for segment in lease.segments if segment.end is not None]
    return max([lease.requested_at, *ends])
