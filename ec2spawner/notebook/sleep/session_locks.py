"""One session for each path, whether a page creates it or the wake.

Jupyter Server looks for a session of the path before it starts a kernel, and stores the new session
after that: two requests at a time would each have one, with a kernel of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakValueDictionary

from jupyter_server.utils import ensure_async


class SessionLocks:
    """Of the paths that are being used."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, path: str) -> asyncio.Lock:
        """Held while a session of this path is created."""
        lock = self._locks.get(path)
        if lock is None:
            lock = self._locks[path] = asyncio.Lock()
        return lock


def session_locks(manager: Any) -> SessionLocks:
    """Those of this session manager of Jupyter Server, whose `create_session` takes them from now
    on, and returns the session that there is."""
    create_session = manager.create_session
    known = getattr(create_session, "locks", None)
    if isinstance(known, SessionLocks):
        return known
    locks = SessionLocks()

    async def create_one(path: str | None = None, *args: Any, **about: Any) -> Any:
        if path is None:
            return await ensure_async(create_session(path, *args, **about))
        async with locks.of(path):
            if await ensure_async(manager.session_exists(path=path)):
                return await ensure_async(manager.get_session(path=path))
            return await ensure_async(create_session(path, *args, **about))

    create_one.locks = locks  # type: ignore[attr-defined]
    manager.create_session = create_one
    return locks
