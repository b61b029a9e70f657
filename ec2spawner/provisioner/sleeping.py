"""What sleeps of each server, as pages and starts use it."""

from __future__ import annotations

from dataclasses import dataclass

from ..wire import Stop
from .model.leases.lease import LeaseState
from .model.sleeping_session import SleepingSession
from .state.state import State


class CannotSleep(Exception):
    """The session cannot be saved; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Sleeping:
    """The hub's records of saved sessions."""

    state: State

    async def put_to_sleep(self, lease_id: str, message: str) -> None:
        """Save the session of a running server, then let it end, as its user asks.

        Raises `CannotSleep`.
        """
        self.check(lease_id)
        await self.state.end(lease_id, Stop(reason="user", message=message, sleep="user"))

    async def cut_short(self, user: str, server: str) -> None:
        """Save no session any further where a server is being stopped, as its user asks; no effect
        on any other server."""
        await self.state.cut_sleep_short(user, server)

    def check(self, lease_id: str) -> None:
        """Raises `CannotSleep` for a server whose session cannot be saved now."""
        lease = self.state.leases.get(lease_id)
        if lease is None or lease.state is not LeaseState.READY:
            raise CannotSleep("this server does not run, or is being stopped")
        if not lease.sleep.save_seconds:
            raise CannotSleep("this hub cannot keep the variables of this server: stop it instead")

    def can_sleep(self, lease_id: str) -> bool:
        """Whether `check` raises nothing."""
        try:
            self.check(lease_id)
        except CannotSleep:
            return False
        return True

    def of(self, user: str, server: str) -> SleepingSession | None:
        """What a start of the server can wake now."""
        return self.state.sleeping.sleeping(user, server, self.state.clock.now())

    def last(self, user: str, server: str) -> SleepingSession | None:
        """What was saved last of the server, also if it was woken since or has expired."""
        return self.state.sleeping.last(user, server)
