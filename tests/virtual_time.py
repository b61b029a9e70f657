"""An event loop that waits for nothing: where all tasks sleep, its clock leaps to the next alarm.

`asyncio.sleep`, `timeout` and `loop.time` are the loop's own, so the product runs with its real
pauses, and an hour costs what happens in it. One thread does everything: the same program gives
the same run. A loop with a seed draws how long work takes, so that each seed is another order.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import random
import secrets
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import pytest

WORK_SECONDS = 0.02
"""A piece of work for an executor begins so long after it was handed over, or after the one
before it, on a loop without a seed."""

LONGEST_WORK: Final = 0.2
"""The same on a loop with a seed: at most so long."""

DELAYED_SHARE: Final = 0.7
"""Of what a seed may delay; the rest happens at once."""

MAX_TURNS: Final = 100_000
"""Turns of a loop at one instant: so many are an endless loop around `sleep(0)`."""

SEED: Final = int(os.environ.get("EC2SPAWNER_SEED", "0"))
"""Of the tests' loops: chooses the order of what happens at the same time."""


@dataclass(slots=True, eq=False)
class _Check:
    """A task that waits for a condition."""

    condition: Callable[[], object]
    deadline: float
    done: asyncio.Future[bool]


class _Leap(selectors.DefaultSelector):
    """Nothing ever comes from outside: to wait is to let time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0
        self.checks: list[_Check] = []
        self.turns = 0
        self._passed_at = 0
        """The turn after which time passed last."""

    def select(self, timeout: float | None = None) -> list[Any]:
        self.turns += 1
        if timeout is not None and timeout <= 0.0:
            if self.turns - self._passed_at > MAX_TURNS:
                self._passed_at = self.turns
                raise AssertionError("a task yields again and again: no time would ever pass")
            return []
        self._passed_at = self.turns
        # All that is due has happened: now a condition holds, or time has to pass.
        if self._check(is_over=timeout is None):
            return []
        assert timeout is not None, "every task waits for another one: nothing would ever happen"
        self.elapsed += min([timeout, *(check.deadline - self.elapsed for check in self.checks)])
        return []

    def _check(self, *, is_over: bool) -> bool:
        """True when a task continues: its condition holds, or will not come true any more."""
        for check in self.checks:
            try:
                holds = bool(check.condition())
            except Exception as error:
                check.done.set_exception(error)
            else:
                if not holds and not is_over and self.elapsed < check.deadline:
                    continue
                check.done.set_result(holds)
            self.checks.remove(check)
            return True
        return False


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self, seed: int | None = None) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)
        self._drawn = None if seed is None else random.Random(seed)
        self._work: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._is_held = False
        self._is_scheduled = False
        """The next piece of work is."""
        self.refusal: Exception | None = None
        """What becomes of all work for the store's executor while it is set, in place of the work.
        Threads of the loop's own executor only compute."""
        self._begun: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._numbers = itertools.count()
        self.set_task_factory(self._begin)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._leap.elapsed

    @property
    def turns(self) -> int:
        """How many turns the loop has made."""
        return self._leap.turns

    def delay(self, longest: float, share: float = DELAYED_SHARE) -> float:
        """Draw seconds from 0 to `longest`; 0 for all but a share, and on a loop without a seed."""
        if self._drawn is None or self._drawn.random() >= share:
            return 0.0
        return self._drawn.random() * longest

    async def until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Let time pass until the condition holds.

        False where it does not within these seconds, or as soon as nothing is scheduled any more.
        It is looked at whenever all that is due at an instant has happened.
        """
        if condition():
            return True
        check = _Check(condition, self.time() + seconds, self.create_future())
        self._leap.checks.append(check)
        try:
            return await check.done
        finally:
            if check in self._leap.checks:
                self._leap.checks.remove(check)

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
        self._schedule()
        return done

    def _schedule(self) -> None:
        if self._work and not self._is_held and not self._is_scheduled:
            self._is_scheduled = True
            seconds = WORK_SECONDS if self._drawn is None else self.delay(LONGEST_WORK)
            self.call_later(seconds, self._next)

    def hold_work(self) -> None:
        """From now on no work begins, as behind a piece that takes long."""
        self._is_held = True

    def continue_work(self) -> None:
        """End `hold_work`."""
        self._is_held = False
        self._schedule()

    def drop_work(self) -> None:
        """What was handed over and has not begun never happens: the process ends here."""
        for done, _ in self._work:
            done.cancel()

    def in_order(self, tasks: Iterable[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        """Sort tasks as they were begun: a set of them has another order in each run."""
        return sorted(tasks, key=self._begun.__getitem__)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        self._begun[task] = next(self._numbers)
        return task

    def _next(self) -> None:
        self._is_scheduled = False
        if self._is_held:
            return
        done, work = self._work.popleft()
        self._schedule()
        if done.cancelled():
            return
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)


def seeded_loop() -> VirtualTimeLoop:
    """The loop of a test: each begins with the same draws."""
    return VirtualTimeLoop(SEED)


def virtual_loop() -> VirtualTimeLoop:
    """The running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


def draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed ids and pauses of the product: a test run twice is the same in all that follows from
    them."""
    random.seed(SEED)
    monkeypatch.setattr(secrets, "token_bytes", random.Random(SEED).randbytes)


def add_seed(item: pytest.Item, report: pytest.TestReport) -> None:
    """Say in the report of a failed test how to run it again in the same order."""
    if report.failed:
        hashes = os.environ.get("PYTHONHASHSEED", "random, `make` sets it to 0")
        seeds = f"EC2SPAWNER_SEED={SEED} PYTHONHASHSEED={hashes}"
        report.sections.append(("seed", f"Repeat it with {seeds} pytest '{item.nodeid}'"))


def in_virtual_time(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Run an async test on a loop of its own whose waits take no time and end exactly when due."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **fixtures))

    return run
