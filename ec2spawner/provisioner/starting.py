"""The way of a lease from the request to a notebook that listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..core.matching import Need, Supply, lease_for
from ..core.money import close
from ..core.names import lease_token, sha256_hex
from ..core.tags import LEASE
from ..wire import AgentEvent, Step, Stop
from .book import LeaseBook
from .claims import Claimant, Claims, Granted, InstanceUnwanted
from .cloud import CloudError, Instance, LaunchSpec
from .homes import Homes
from .keys import base_key_of
from .lease import Lease, LeaseState
from .prices import PriceBook
from .store import Store
from .supply import supply_of

log = logging.getLogger(__name__)

LISTING_PAUSE = 1.0
"""Seconds a claim waits at most for a listing that shows its instance, before it looks again."""


class StartFailed(Exception):
    """The lease ended before it was ready; `stop` says why, for people."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.message)
        self.stop = stop


@dataclass(slots=True)
class Starting:
    """Needs, claims and what follows until the agent says `ready`."""

    book: LeaseBook
    claims: Claims
    homes: Homes
    prices: PriceBook
    store: Store
    now: Callable[[], datetime]
    zones_of: Callable[[LaunchSpec], frozenset[str]]
    supplies: Callable[[], Sequence[Supply]]
    """Everything that can still take a lease."""
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    fail: Callable[[str, Stop], Coroutine[Any, Any, None]]
    wake: Callable[[], None]
    _homes_begun: set[tuple[str, str | None]] = field(default_factory=set)
    """Lease and instance id: this process is bringing that home there, or has brought it."""

    # --- demand ---

    def needs(self) -> list[Need]:
        return [
            Need(
                lease_id=lease.lease_id,
                base_key=base_key_of(lease.spec),
                instance_types=frozenset(lease.spec.instance_types),
                zones=self.zones_of(lease.spec),
                markets=frozenset(lease.spec.markets),
                requested_at=lease.requested_at,
            )
            for lease in self.book.open(LeaseState.WAITING)
        ]

    async def wait_ready(self, lease_id: str, timeout: float) -> Lease:
        """The lease once its notebook listens.

        Raises `StartFailed` when it ended before, `TimeoutError` after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while True:
                lease = self.book.get(lease_id)
                if lease is None or lease.state in {LeaseState.ENDING, LeaseState.ENDED}:
                    raise StartFailed((lease and lease.stop) or Stop(reason="failed"))
                if lease.state is LeaseState.READY:
                    return lease
                await self.book.wait_for_change(lease_id, timeout)

    # --- claims ---

    async def claim(self, claimant: Claimant, key: str, wait: float) -> Granted | None:
        """Answer a verified claim; None when there is nothing within `wait` seconds.

        Raises `ClaimRefused`, `InstanceUnwanted`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            instance = await self.claims.admit(claimant, key, LISTING_PAUSE)
            if instance is not None and (granted := await self._grant(instance, key)):
                return granted
            remaining = deadline - loop.time()
            if remaining <= 0:
                return None
            pause = remaining if instance is not None else min(remaining, LISTING_PAUSE)
            if not await self.claims.wait(claimant.instance_id, pause):
                return None

    async def _grant(self, instance: Instance, key: str) -> Granted | None:
        lease = self.book.of_instance(instance.instance_id) or await self._assign(instance, key)
        if lease is None:
            return None
        if lease.state is LeaseState.ENDING:
            raise InstanceUnwanted("the lease of this instance is ending")
        home = self.homes.for_lease(lease)
        if lease.home_kind == "ebs" and (home is None or home.volume_id is None):
            return None
        return Granted(lease, home, lease_token(key, lease.lease_id))

    async def _assign(self, instance: Instance, key: str) -> Lease | None:
        if LEASE in instance.tags or instance.instance_id in self.book.served():
            raise InstanceUnwanted("this instance has served another lease")
        claimant = supply_of(instance)
        others = [s for s in self.supplies() if s.supply_id != claimant.supply_id]
        need = lease_for(claimant, self.needs(), others)
        if need is None:
            return None
        lease = self.book.get(need.lease_id)
        assert lease is not None
        launched_at, wanted_at = instance.launched_at, _wanted_at(lease)
        if launched_at < wanted_at:  # for somebody else, who no longer wanted it
            unused = self.prices.segment(instance, launched_at, wanted_at)
            self.spawn_task(self.store.save_overhead(unused), f"overhead of {unused.instance_id}")
        segment = self.prices.segment(instance, max(launched_at, wanted_at))
        lease = await self.book.change(
            need.lease_id,
            state=LeaseState.STARTING,
            instance_id=instance.instance_id,
            token_sha256=sha256_hex(lease_token(key, need.lease_id)),
            assigned_at=self.now(),
            segments=(*lease.segments, segment),
        )
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
        self._begin_home(lease, instance)
        self.wake()
        return lease

    def bring_homes(self, instances: Mapping[str, Instance]) -> None:
        """See to every home that is waited for, also where an earlier process had begun to."""
        starting = list(self.book.open(LeaseState.STARTING))
        self._homes_begun &= {(lease.lease_id, lease.instance_id) for lease in starting}
        for lease in starting:
            if instance := instances.get(lease.instance_id or ""):
                self._begin_home(lease, instance)

    def _begin_home(self, lease: Lease, instance: Instance) -> None:
        stay = (lease.lease_id, instance.instance_id)
        if lease.home_kind == "ebs" and stay not in self._homes_begun:
            self._homes_begun.add(stay)
            self.spawn_task(self._bring_home(lease, instance), f"home of {lease.lease_id}")

    async def _bring_home(self, lease: Lease, instance: Instance) -> None:
        def wanted() -> bool:
            now = self.book.get(lease.lease_id)
            return (
                now is not None
                and now.state is LeaseState.STARTING
                and now.instance_id == instance.instance_id
            )

        try:
            await self.book.note(lease.lease_id, Step.HOME, "Opening your home")
            home = await self.homes.ensure_volume(lease, instance.zone)
            self.claims.wake(instance.instance_id)
            await self.homes.attach(home, instance.instance_id, wanted)
        except (CloudError, TimeoutError) as error:
            log.error("Home of %s: %s", lease.lease_id, error)
            reason = error.message if isinstance(error, CloudError) else "EC2 did not answer"
            message = f"Your home could not be attached: {reason}"
            await self.fail(lease.lease_id, Stop(reason="failed", message=message[:500]))

    # --- what the agent reports ---

    async def agent_event(self, lease: Lease, event: AgentEvent, url: str) -> None:
        """Apply `home`, `notebook`, `ready` or `failed`; `url` is where `ready` listens."""
        current = self.book.get(lease.lease_id)
        if current is None or current.state is not LeaseState.STARTING:
            return
        if current.instance_id != lease.instance_id:
            return  # the lease was given another instance while this event was on its way
        if event.step in current.steps:
            return  # each line is a write to the store, and an agent is its user's
        match event.step:
            case "home":
                await self.book.note(lease.lease_id, Step.HOME, "Opening your home")
            case "notebook":
                await self.book.note(lease.lease_id, Step.NOTEBOOK, "Starting JupyterLab")
            case "ready":
                await self.book.note(
                    lease.lease_id,
                    Step.READY,
                    "Your server is ready",
                    state=LeaseState.READY,
                    url=url,
                    ready_at=self.now(),
                )
            case "failed":
                message = event.message or "The notebook server did not start"
                await self.fail(lease.lease_id, Stop(reason="failed", message=message))

    async def replace_instance(self, lease: Lease, limit: int) -> None:
        """The instance died before the notebook listened: back to the waiting list."""
        if self.book.get(lease.lease_id) is not lease:
            return  # it has changed since the pass looked; the next one looks again
        if lease.replaced >= limit:
            message = f"{lease.replaced + 1} instances ended before your server was ready"
            await self.fail(lease.lease_id, Stop(reason="failed", message=message))
            return
        log.warning("An instance of %s ended before it was ready", lease.lease_id)
        await self.book.note(
            lease.lease_id,
            Step.REQUEST,
            "The instance ended while it was starting; getting another one",
            state=LeaseState.WAITING,
            instance_id=None,
            token_sha256="",
            assigned_at=None,
            replaced=lease.replaced + 1,
            segments=close(lease.segments, self.now()),
        )


def _wanted_at(lease: Lease) -> datetime:
    """Since when the lease pays for an instance: it never pays for two at once."""
    ends = [segment.end for segment in lease.segments if segment.end is not None]
    return max([lease.requested_at, *ends])
