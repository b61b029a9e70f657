"""An event loop that waits for nothing: where all tasks sleep, its clock leaps to the next alarm.

`asyncio.sleep`, `timeout` and `loop.time` are the loop's own, so the product runs with its real
pauses, and an hour costs what happens in it. One thread does everything: the same program gives
the same run.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from weakref import WeakKeyDictionary

WORK_SECONDS = 0.02
"""A piece of work for an executor begins so long after it was handed over, or after the one
before it."""


class _Leap(selectors.DefaultSelector):
    """Nothing ever comes from outside: to wait is to let time pass."""

    elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "every task waits for another one: nothing would ever happen"
        self.elapsed += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)
        self._work: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self.refusal: Exception | None = None
        """What becomes of all work for the store's executor while it is set, in place of the work.
        Threads of the loop's own executor only compute."""
        self._begun: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._numbers = itertools.count()
        self.set_task_factory(self._begin)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._leap.elapsed

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """In this thread, in order, a moment later: as an executor with one thread does it."""
        done = self.create_future()

        def work() -> Any:
            if executor is not None and self.refusal is not None:
                raise self.refusal
            return func(*args)

        self._work.append((done, work))
        if len(self._work) == 1:
            self.call_later(WORK_SECONDS, self._next)
        return done

    def drop_work(self) -> None:
        """What was handed over and has not begun never happens: the process ends here."""
        for done, _ in self._work:
            done.cancel()

    def in_order(self, tasks: Iterable[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        """As they were begun: a set of tasks has another order in each run."""
        return sorted(tasks, key=self._begun.__getitem__)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        self._begun[task] = next(self._numbers)
        return task

    def _next(self) -> None:
        done, work = self._work.popleft()
        if self._work:
            self.call_later(WORK_SECONDS, self._next)
        if done.cancelled():
            return
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)


def in_virtual_time(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Run an async test on a loop of its own whose waits take no time and end exactly when due."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **fixtures))

    return run
