"""A pool of threads that does not delay the end of the process.

The interpreter joins the threads of `concurrent.futures` when it ends, so one call that hangs
would keep a stopped hub alive until its read timeout. Only for calls that may be cut off: what a
call does to EC2 is safe without us, for launches are stored before they are made, and everything
else is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Work = tuple["Future[Any]", Callable[[], Any]]


class DaemonThreads(Executor):
    """At most `number` threads, each started when it is first needed."""

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self._name = name
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._closed = False

    def submit(
        self, work: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs
    ) -> Future[T]:
        """Raises `RuntimeError` after `shutdown`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is shut down")
            self._queue.put((future, lambda: work(*arguments, **keywords)))
            if not self._idle.acquire(blocking=False) and self._threads < self._number:
                self._threads += 1
                name = f"{self._name}_{self._threads}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work. Running calls are never awaited, whatever `wait` is."""
        with self._lock:
            self._closed = True
            while cancel_futures and not self._queue.empty():
                if (queued := self._queue.get()) is not None:
                    queued[0].cancel()
            for _ in range(self._threads):
                self._queue.put(None)

    def _run(self) -> None:
        while (queued := self._queue.get()) is not None:
            future, work = queued
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del queued, future, work
            self._idle.release()
