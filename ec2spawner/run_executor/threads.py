"""Threads for what would block the event loop. None of them delays the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

from ..daemon_threads import DaemonThreads

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = DaemonThreads(6, "run")
"""Two for reports, of which one may hang, and one for what is encoded; the rest are spare."""


async def in_thread(work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """What `work` returns, or raises."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, partial(work, *arguments, **keywords))
