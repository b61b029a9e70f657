"""What sleeps of each server, as pages and starts use it."""

from __future__ import annotations

from dataclasses import dataclass

from .model.sleeping_session import SleepingSession
from .state.state import State


@dataclass(frozen=True, slots=True)
class Sleeping:
    """The hub's records of saved sessions."""

    state: State

    def of(self, user: str, server: str) -> SleepingSession | None:
        """What a start of the server can wake now."""
        return self.state.sleeping.sleeping(user, server, self.state.clock.now())

    def last(self, user: str, server: str) -> SleepingSession | None:
        """What was saved last of the server, also if it was woken since."""
        return self.state.sleeping.last(user, server)
