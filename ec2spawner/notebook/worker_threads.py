"""AnyIO's worker threads, in which Jupyter Server reads and writes files: they end with the server.

AnyIO stops such a thread when the task that first used it is done. A request that is still pending
when Jupyter Server stops its event loop is never done, so its thread would wait for work
indefinitely, and Python for the thread: it is not a daemon thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from typing import Any

from anyio.to_thread import current_default_thread_limiter

NAME = "AnyIO worker thread"

POLL_SECONDS = 0.02


async def until_unused(seconds: float) -> None:
    """Wait until no file is read or written in this event loop's worker threads, so many seconds
    at most."""
    limiter = current_default_thread_limiter()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while limiter.borrowed_tokens:
                await asyncio.sleep(POLL_SECONDS)


@functools.cache
def stop_with_main_thread() -> None:
    """Have worker threads stop once the main thread has ended, after what each of them does then.

    By then no event loop runs that could stop them. Hooks of `atexit` would be too late: they run
    after Python has waited for all threads.
    """
    threading.Thread(target=_stop_after_main_thread, name="stop AnyIO workers", daemon=True).start()


def _stop_after_main_thread() -> None:
    threading.main_thread().join()
    for each in threading.enumerate():
        if each.name == NAME:
            worker: Any = each
            worker.stop()  # private to AnyIO
