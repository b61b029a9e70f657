"""What agents ask of the hub: from a claim to the last heartbeat."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ...core.sleep.decision import by_hub_clock
from ...wire import (
    SHUT_DOWN,
    AgentEvent,
    ExtendResponse,
    Fault,
    Heartbeat,
    HeartbeatResponse,
    IdleResponse,
    Market,
    SavedSession,
    Stop,
)
from ..instances.claims import Claimant, Granted
from ..model.cloud.instance import GONE
from ..model.leases.lease import Lease, LeaseState
from ..model.sleeping_session import SleepingSession
from ..state.start_times import Arrival
from ..state.state import State
from .heartbeat import Heartbeats, Held
from .start import Start
from .unhealthy_instance import UnhealthyInstances

NO_FAULT: Final = Fault()

REASON_TIMEOUT: Final = 15.0
"""Seconds for EC2 to list why it shuts an instance down."""


@dataclass(frozen=True, slots=True)
class AgentCalls:
    """The calls of agents, once the hub has verified who calls."""

    state: State
    starts: Start
    heartbeats: Heartbeats
    unhealthy: UnhealthyInstances

    async def claim(
        self,
        claimant: Claimant,
        key: str,
        wait: float,
        *,
        unfit: str = "",
        fault: Fault = NO_FAULT,
        is_reclaimed: bool = False,
        arrival: Arrival | None = None,
    ) -> Granted | None:
        """A lease for the instance; None when there is nothing for it within `wait` seconds.

        `unfit` says why the hub cannot work with its agent, `fault` is what the agent says of
        its own instance: both end the instance. `is_reclaimed`: EC2 has given it notice. `arrival`
        is how it reached the hub.
        Raises `ClaimRefused`, `InstanceUnwanted`, `StoreError`.
        """
        if unfit:
            stop = Stop(reason="failed", message=unfit)
            await self.starts.turn_away(claimant, key, wait, stop)
            return None
        if fault.reason and not await self.unhealthy.turn_away(claimant, key, wait, fault):
            return None  # no listing shows it yet, or it is being stopped
        if is_reclaimed:
            await self.starts.turn_away_reclaimed(claimant, key, wait)
        return await self.starts.claim(claimant, key, wait, arrival)

    def waits_for_nobody(self, claimant: Claimant) -> bool:
        """Whether its instance fills a place of the warm pool, and no lease has it."""
        state, instance_id = self.state, claimant.instance_id
        is_place = any(each.instance_id == instance_id for each in state.stock.in_places)
        return is_place and state.leases.of_instance(instance_id) is None

    def arrival(self, agent_seconds: float | None, boot_seconds: float | None) -> Arrival:
        """A claim that arrives now; it is not verified yet, and what it says need not be true."""
        return Arrival(self.state.leases.times.now(), agent_seconds, boot_seconds)

    def heard(self, lease_id: str) -> None:
        """The agent of a lease has called."""
        self.heartbeats.heard(lease_id)

    async def event(self, lease: Lease, event: AgentEvent, url: str) -> None:
        """Apply a step of the start; `url` is where `ready` listens. Raises `StoreError`."""
        await self.starts.agent_event(lease, event, url)

    async def stopped(
        self,
        lease: Lease,
        message: str,
        session: SavedSession | None = None,
        interruption_at: datetime | None = None,
        *,
        home_released: bool,
    ) -> None:
        """The agent of a lease reports that it has ended, asked for or not; `session` is what it
        has saved, `interruption_at` when EC2 reclaims its instance, if there is a notice, and
        `home_released` whether it has unmounted the home.

        During a start its instance is shutting down: the lease gets another one, or ends where
        the disk was retained for its user.
        """
        state = self.state
        if interruption_at is not None:  # it may have come while no hub ran
            self.heartbeats.hear_notice(lease.lease_id, interruption_at)
        current = state.leases.get(lease.lease_id) or lease
        if current.state is LeaseState.STARTING and current.instance_id == lease.instance_id:
            state.lose(current, None)
            state.wake()
            return
        if message == SHUT_DOWN and self._may_have_been_reclaimed(current):
            if session is not None:
                await self._record(current, session)
            judged = self._end_once_listed(current, message, home_released=home_released)
            self.starts.tasks.spawn(judged, f"why {lease.lease_id} was shut down")
            return
        await state.end(lease.lease_id, Stop(reason="failed", message=message))
        if session is not None:
            await self._record(current, session)
        state.leases.report_agent_stopped(lease.lease_id, home_released=home_released)

    async def _record(self, lease: Lease, session: SavedSession) -> None:
        """In the place of what slept before: the files in the home were replaced, too."""
        ready_at, keep = lease.ready_at, lease.sleep.keep_seconds
        if ready_at is None or not keep:
            return
        before = self.state.sleeping.last(lease.user, lease.server)
        if before and before.lease_id != lease.lease_id and before.session.slept_at > ready_at:
            return  # of a later lease, whose agent was heard first
        session = by_hub_clock(session, ready_at, self.state.clock.now())
        expires_at = session.slept_at + timedelta(seconds=keep)
        place = lease.user, lease.server, lease.lease_id
        await self.state.sleeping.record(SleepingSession(*place, session, expires_at))

    def _may_have_been_reclaimed(self, lease: Lease) -> bool:
        """Whether only EC2 knows if this ready lease is to continue: a spot instance may be
        reclaimed without a notice that its agent has seen."""
        is_spot = bool(lease.segments) and lease.segments[-1].market is Market.SPOT
        return (
            lease.state is LeaseState.READY
            and is_spot
            and lease.sleep.after_interruption != "stop"
            and self.state.leases.contact(lease.lease_id).interruption_at is None
        )

    async def _end_once_listed(self, lease: Lease, message: str, *, home_released: bool) -> None:
        """End it by the reason that EC2 gives, or without one if it gives none in time."""
        instances, loop = self.state.instances, asyncio.get_running_loop()
        deadline = loop.time() + REASON_TIMEOUT
        while (left := deadline - loop.time()) > 0:
            instance = instances.instance_of(lease)
            if instance is not None and instance.state in GONE:
                break
            await instances.next_listing(left, about=lease.instance_id or "")
        await self.state.end(lease.lease_id, Stop(reason="failed", message=message))
        self.state.leases.report_agent_stopped(lease.lease_id, home_released=home_released)

    def heartbeat(self, lease: Lease, heartbeat: Heartbeat) -> Held:
        """Take the heartbeat in; `news` answers it."""
        return self.heartbeats.take_in(lease, heartbeat)

    async def news(self, held: Held) -> HeartbeatResponse:
        """Answer at once, or when there is news, within the heartbeat's `hold_seconds`."""
        return await self.heartbeats.news(held)

    def hung_up(self, held: Held) -> None:
        """The agent has closed the connection of a heartbeat that was held."""
        self.heartbeats.hung_up(held)

    async def extend(self, lease: Lease, seconds: float) -> ExtendResponse:
        """Push the idle stop away, as far as the lease's policy allows. Raises `StoreError`."""
        return await self.heartbeats.extend(lease, seconds)

    async def choose_idle(self, lease: Lease, seconds: float) -> IdleResponse | None:
        """Another idle limit; None where the policy leaves no choice. Raises `StoreError`."""
        return await self.heartbeats.choose_idle(lease, seconds)
