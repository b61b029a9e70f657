"""What sleeps of each server, in memory and in the store.

A record is replaced only by that of a later complete sleep, as the files in the home are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from ..model.sleeping_session import SleepingSession
from ..store.store import Store


class SleepingSessions:
    """The last one of each server. Memory changes at once; the store follows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[str, str], SleepingSession] = {}

    def load(self, found: Iterable[SleepingSession]) -> None:
        """Take over what an earlier process has stored."""
        self._found = {(each.user, each.server): each for each in found}

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
        self._found[session.user, session.server] = session
        write = partial(self._store.save_sleeping_session, session)
        await self._store.write_behind.now_or_later(_subject(session.user, session.server), write)

    def wake(self, user: str, server: str, at: datetime) -> None:
        """A server that was to wake it is ready; the next pass stores that."""
        found = self._found.get((user, server))
        if found is None or found.woken_at is not None:
            return
        woken = self._found[user, server] = replace(found, woken_at=at)
        write = partial(self._store.save_sleeping_session, woken)
        self._store.write_behind.later(_subject(user, server), write)

    async def rename(self, user: str, server: str, new: str) -> None:
        """Follow a home to another name of its server. Raises `StoreError`, and then nothing has
        changed."""
        await self._store.write_behind.flush(_subject(user, server))
        await self._store.rename_sleeping_session(user, server, new)
        if found := self._found.pop((user, server), None):
            self._found[user, new] = replace(found, server=new)

    async def forget(self, user: str, server: str) -> None:
        """Its files are gone, or will be. Raises `StoreError`; then each pass retries."""
        if self._found.pop((user, server), None) is not None:
            write = partial(self._store.forget_sleeping_session, user, server)
            await self._store.write_behind.now(_subject(user, server), write)


def _subject(user: str, server: str) -> str:
    return f"session of {user}/{server}"
