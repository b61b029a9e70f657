"""Servers that continue on another instance, as the hub and their users see them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from ...wire import Step, Stop
from ..instances.demand import wake_claims_for
from ..limits.admission import Admission
from ..model.leases.home_change import NO_CHANGE, HomeChange
from ..model.leases.lease import LIVE, Lease, LeaseState, StepEvent
from ..state.continuations import is_continued_by
from ..state.home_records import HomeChanged
from ..state.state import State
from ..store.store import StoreError

STARTING: Final = frozenset({LeaseState.WAITING, LeaseState.STARTING})


class CannotMove(Exception):
    """A server cannot continue elsewhere now; the message is for its user."""


@dataclass(frozen=True, slots=True)
class ServerMoves:
    """Which servers are moving, and how far that is."""

    state: State
    admission: Admission

    def unfinished(self) -> list[Lease]:
        """The leases that continue another one and that nothing has ended."""
        return [lease for lease in self.state.leases.open(*LIVE) if lease.continues]

    def to_resume(self, user: str, server: str, lease_id: str = "") -> Lease | None:
        """The lease under which a server that does not run is to run again.

        By id if the caller knows it, or else by name: a lease keeps the name of a user who is
        renamed.
        """
        leases = self.state.leases
        for lease in (leases.get(lease_id), leases.of_server(user, server)):
            if lease is not None and lease.continues and lease.state in LIVE:
                return lease
        return None

    def is_continued(self, lease: Lease) -> bool:
        """Whether this lease ends and another one continues its server."""
        found = self.state.leases.open_successor(lease.lease_id)
        return lease.state not in LIVE and found is not None and is_continued_by(lease, found)

    def is_announced(self, lease: Lease) -> bool:
        """Whether the end of its spot instance is announced."""
        return self.state.leases.contact(lease.lease_id).interruption_at is not None

    def has_released(self, lease: Lease) -> bool:
        """Whether notebook and home of this lease are closed."""
        return self.state.leases.has_released(lease.lease_id)

    def pending(self, user: str, server: str) -> Lease | None:
        """The lease on which a server is to continue, until it is ready there."""
        for lease in self.unfinished():
            if (lease.user, lease.server) == (user, server) and lease.state is not LeaseState.READY:
                return lease
        return None

    def last(self, user: str, server: str) -> Lease | None:
        """The last lease on which a server was to continue, unless it is ready there."""
        current = self.state.leases.of_server(user, server)
        if current is None:
            return None
        is_moving = bool(current.continues) and current.state in STARTING
        return current if is_moving else self.state.leases.successor(current.lease_id)

    def has_left(self, lease: Lease) -> bool:
        """Whether the server has left the instance from which this lease continues it."""
        previous = self.state.leases.get(lease.continues)
        return previous is None or previous.state is not LeaseState.READY

    async def begin(self, lease: Lease, home: HomeChange = NO_CHANGE) -> None:
        """Put a lease on the waiting list that continues a running server on other hardware.

        Raises `CannotMove`, `LimitReached` and `StoreError`; then nothing is bought.
        """
        state = self.state
        await self.admission.prepare(lease.spec.instance_types)
        previous = state.leases.get(lease.continues)
        if previous is None or previous.state is not LeaseState.READY:
            raise CannotMove("this server does not run, or is being stopped")
        if state.leases.open_successor(lease.continues) is not None:
            raise CannotMove("this server is moving to another machine already")
        begun = StepEvent(Step.REQUEST, state.clock.now(), "Looking for another machine")
        lease = self.admission.admit(replace(lease, events=(begun,)))
        try:
            stored = state.begin_changing_home(home)
        except HomeChanged as error:
            raise CannotMove(str(error)) from error
        stored.append(state.leases.begin_adding(lease))
        try:
            await asyncio.gather(*map(asyncio.shield, stored))
        except StoreError:
            stop = Stop(reason="failed", message="The hub could not write its database")
            await state.end(lease.lease_id, stop)
            raise
        wake_claims_for(state, lease)
        state.wake()

    async def give_up(self, user: str, server: str, stop: Stop) -> None:
        """The server does not continue elsewhere, whether it still runs or has left already."""
        if (lease := self.pending(user, server)) is not None:
            await self.state.end(lease.lease_id, stop)

    async def wait_change(self, timeout: float) -> None:
        """Return when anything of this has changed, at most after `timeout` seconds."""
        await self.state.continuations.wait_change(timeout)
