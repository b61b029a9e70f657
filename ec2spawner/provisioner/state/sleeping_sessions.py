"""What sleeps of each server, in memory and in the store.

A record is replaced only by that of a later complete sleep, as the files in the home are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from ...core.sleep.session_end import SessionEnd
from ..model import metrics
from ..model.lease_events import SessionEnded, SessionSlept
from ..model.sleeping_session import SleepingSession
from ..store.store import Store
from .lease_events import LeaseEvents


class SleepingSessions:
    """The last one of each server. Memory changes at once; the store follows."""

    def __init__(self, store: Store, events: LeaseEvents) -> None:
        self._store = store
        self._events = events
        self._found: dict[tuple[str, str], SleepingSession] = {}
        self._next_expiry: datetime | None = None
        """No record expires before; None without one."""

    def load(self, found: Iterable[SleepingSession]) -> None:
        """Take over what an earlier process has stored."""
        self._found = {(each.user, each.server): each for each in found}
        self._find_next_expiry()

    # --- reading ---

    def last(self, user: str, server: str) -> SleepingSession | None:
        """What was saved last of a server, whether it was woken since, expired, or sleeps."""
        return self._found.get((user, server))

    def sleeping(self, user: str, server: str, now: datetime) -> SleepingSession | None:
        """What a start of the server can wake."""
        found = self._found.get((user, server))
        if found is None or found.woken_at is not None or found.expires_at <= now:
            return None
        return found

    def all(self) -> tuple[SleepingSession, ...]:
        """The last one of each server."""
        return tuple(self._found.values())

    # --- changing ---

    async def record(self, session: SleepingSession) -> None:
        """Replace what the server had. Where that cannot be stored, each pass retries."""
        before = self._found.get((session.user, session.server))
        if before is not None and before.session.id == session.session.id:
            return  # its agent did not get the answer
        if before is not None:
            self._report_end(before, session.session.slept_at, SessionEnd.REPLACED)
        self._found[session.user, session.server] = session
        self._find_next_expiry()
        metrics.SLEPT.labels(session.session.trigger).inc()
        self._events.add(SessionSlept(session))
        write = partial(self._store.save_sleeping_session, session)
        await self._store.write_behind.now_or_later(_subject(session.user, session.server), write)

    def wake(self, user: str, server: str, at: datetime) -> None:
        """A server that was to wake it is ready; the next pass stores that."""
        found = self._found.get((user, server))
        if found is None or found.woken_at is not None:
            return
        self._report_end(found, at, SessionEnd.WOKEN)
        woken = self._found[user, server] = replace(found, woken_at=at)
        write = partial(self._store.save_sleeping_session, woken)
        self._store.write_behind.later(_subject(user, server), write)

    async def rename(self, user: str, server: str, new: str) -> None:
        """Follow a home to another name of its server. Where that cannot be stored, each pass
        retries."""
        if found := self._found.pop((user, server), None):
            renamed = self._found[user, new] = replace(found, server=new)
            save = partial(self._store.save_sleeping_session, renamed)
            forget = partial(self._store.forget_sleeping_session, user, server)
            await self._store.write_behind.now_or_later(_subject(user, new), save)
            await self._store.write_behind.now_or_later(_subject(user, server), forget)

    async def forget(self, user: str, server: str, at: datetime) -> None:
        """Its files are gone, or will be. Where that cannot be stored, each pass retries."""
        if found := self._found.pop((user, server), None):
            self._report_end(found, at, SessionEnd.DELETED)
            write = partial(self._store.forget_sleeping_session, user, server)
            await self._store.write_behind.now_or_later(_subject(user, server), write)

    def expire(self, now: datetime) -> None:
        """Forget what has expired; the next pass stores that. The owner's next start deletes the
        files, which only it can."""
        if self._next_expiry is None or now < self._next_expiry:
            return
        for found in [each for each in self._found.values() if each.expires_at <= now]:
            del self._found[found.user, found.server]
            self._report_end(found, found.expires_at, SessionEnd.EXPIRED)
            write = partial(self._store.forget_sleeping_session, found.user, found.server)
            self._store.write_behind.later(_subject(found.user, found.server), write)
        self._find_next_expiry()

    def _find_next_expiry(self) -> None:
        expiries = (each.expires_at for each in self._found.values())
        self._next_expiry = min(expiries, default=None)

    def _report_end(self, session: SleepingSession, at: datetime, outcome: SessionEnd) -> None:
        """Once: what was woken has ended."""
        if session.woken_at is None:
            metrics.SESSIONS_ENDED.labels(outcome).inc()
            self._events.add(SessionEnded(session, at, outcome))


def _subject(user: str, server: str) -> str:
    return f"session of {user}/{server}"
