"""What sleeps of each server, in memory and in the store.

A record is replaced only by that of a later complete sleep, as the files in the home are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from ...core.fair_share import share
from ...core.sleep.bounded_session import bounded
from ...core.sleep.session_end import SessionEnd
from ..model import metrics
from ..model.leases.events import SessionEnded, SessionSlept
from ..model.leases.lease import Lease
from ..model.session_wake import woken_at
from ..model.sleeping_session import SleepingSession
from ..store.store import Store
from .lease_events import LeaseEvents

MAX_BYTES: Final = 32 * 2**20
"""All sleeping sessions that agents have described have so much, as JSON, which takes some times as
much memory. Most have some KB."""

MIN_BYTES: Final = 1024
"""What one session has without details: each server has one at most."""


class SleepingSessions:
    """The last one of each server. Memory changes at once; the store follows."""

    def __init__(self, store: Store, events: LeaseEvents) -> None:
        self._store = store
        self._events = events
        self._found: dict[tuple[str, str], SleepingSession] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        """Bytes of what the agents have said, by server."""
        self._next_due: datetime | None = None
        """No record is due before; None without one."""

    def load(self, found: Iterable[SleepingSession]) -> None:
        """Take over what an earlier process has stored."""
        for each in found:
            self._put(each)
        self._find_next_due()

    # --- reading ---

    def last(self, user: str, server: str) -> SleepingSession | None:
        """What was saved last of a server, whether it was woken since, has expired, or sleeps."""
        return self._found.get((user, server))

    def sleeping(self, user: str, server: str, now: datetime) -> SleepingSession | None:
        """What a start of the server can wake."""
        found = self._found.get((user, server))
        if found is None or found.woken_at is not None or found.expires_at <= now:
            return None
        return found

    # --- changing ---

    async def record(self, session: SleepingSession) -> None:
        """Replace what the server had. Where that cannot be stored, each pass retries.

        A user who has much of this already keeps fewer details: what sleeps is in the home.
        """
        before = self._found.get((session.user, session.server))
        if before is not None and before.session.id == session.session.id:
            return  # its agent did not get the answer
        if before is not None and not before.has_ended:
            self._report_end(before, session.session.slept_at, SessionEnd.REPLACED)
        session = self._within_share(session)
        self._put(session)
        self._find_next_due()
        metrics.SLEPT.labels(session.session.trigger).inc()
        self._events.add(SessionSlept(session))
        write = partial(self._store.save_sleeping_session, session)
        await self._store.write_behind.now_or_later(_subject(session.user, session.server), write)

    async def wake(self, leases: Iterable[Lease]) -> None:
        """Mark what the servers of these leases have brought back.

        Each pass does, for all: a lease may be ready, and the hub killed before that is marked.
        Where the mark cannot be stored, each pass retries.
        """
        for lease in leases:
            found = self._found.get((lease.user, lease.server))
            if found is None or found.has_ended:
                continue
            if (at := woken_at(lease, found)) is not None:
                await self._end(replace(found, woken_at=at), at, SessionEnd.WOKEN)

    async def rename(self, user: str, server: str, new: str) -> None:
        """Follow a home to another name of its server. Where that cannot be stored, each pass
        retries."""
        if found := self._pop(user, server):
            renamed = replace(found, server=new)
            self._put(renamed)
            save = partial(self._store.save_sleeping_session, renamed)
            forget = partial(self._store.forget_sleeping_session, user, server)
            await self._store.write_behind.now_or_later(_subject(user, new), save)
            await self._store.write_behind.now_or_later(_subject(user, server), forget)

    async def forget(self, user: str, server: str, at: datetime) -> None:
        """Its files are gone, or will be. Where that cannot be stored, each pass retries."""
        if found := self._pop(user, server):
            if not found.has_ended:
                self._report_end(found, at, SessionEnd.DELETED)
            write = partial(self._store.forget_sleeping_session, user, server)
            await self._store.write_behind.now_or_later(_subject(user, server), write)

    async def expire(self, now: datetime) -> None:
        """Report what has expired, and forget it once the spawn page no longer shows that. Where
        that cannot be stored, each pass retries.

        The owner's next start deletes the files, which only it can.
        """
        if self._next_due is None or now < self._next_due:
            return
        for found in [each for each in self._found.values() if each.due_at <= now]:
            if self._found.get((found.user, found.server)) is not found:
                continue  # replaced or forgotten while another one was stored
            if found.has_ended:
                self._pop(found.user, found.server)
                write = partial(self._store.forget_sleeping_session, found.user, found.server)
                self._store.write_behind.later(_subject(found.user, found.server), write)
            else:
                await self._end(found.as_expired(), found.expires_at, SessionEnd.EXPIRED)
        self._find_next_due()

    def _within_share(self, session: SleepingSession) -> SleepingSession:
        """With as many details as its user may have."""
        place = session.user, session.server
        others = {key: size for key, size in self._sizes.items() if key != place}
        own = sum(size for (user, _), size in others.items() if user == session.user)
        left = share(MAX_BYTES, sum(others.values()) - own) - own
        least = bounded(session.session, max(left, MIN_BYTES))
        return replace(session, session=least)

    def _put(self, session: SleepingSession) -> None:
        place = session.user, session.server
        self._found[place] = session
        self._sizes[place] = len(session.session.model_dump_json())

    def _pop(self, user: str, server: str) -> SleepingSession | None:
        self._sizes.pop((user, server), None)
        return self._found.pop((user, server), None)

    def _find_next_due(self) -> None:
        self._next_due = min((each.due_at for each in self._found.values()), default=None)

    async def _end(self, ended: SleepingSession, at: datetime, outcome: SessionEnd) -> None:
        """Stored before it is reported: a hub that is killed in between does not repeat it."""
        self._put(ended)
        write = partial(self._store.save_sleeping_session, ended)
        await self._store.write_behind.now_or_later(_subject(ended.user, ended.server), write)
        self._report_end(ended, at, outcome)

    def _report_end(self, session: SleepingSession, at: datetime, outcome: SessionEnd) -> None:
        metrics.SESSIONS_ENDED.labels(outcome).inc()
        self._events.add(SessionEnded(session, at, outcome))


def _subject(user: str, server: str) -> str:
    return f"session of {user}/{server}"
