"""How long a hub's event loop runs code without looking up, measured from inside the hub.

**What is measured.** An event loop takes turns: it waits for something to happen (`select`),
then runs every callback that is due, then waits again. Whatever arrives meanwhile, a request, a
beat, a timer, stays unanswered until the turn ends; so the length of the longest turn *is* the
hub's worst stall, whether one callback took it all or many took a little each. A turn is timed
from the return of `select` to its next call: the time in which the loop sleeps because there is
nothing to do is not in it.

**What is in it besides our code.** Everything else that runs on the loop, JupyterHub's own
database work and token hashing first of all: that is why a bench watches a baseline's hub too.
And on a machine whose cores are all busy, the time in which the system ran somebody else. So
three more times stand beside the wall time of a turn:

- CPU: what the loop's thread computed. The rest it waited.
- queued: how long the system let the thread wait for a core although it could run, from its
  `schedstat` (0 where the kernel keeps none). That is the machine's doing, not the hub's.
- GC: how long the garbage collector held every thread of the process.

What is left of the wall time, less CPU and less queued, is a wait for a disk, a lock or the
interpreter: SQLite's commits, as a rule.

**What it costs.** Three clocks read per turn, and a thread that looks every 5 ms; where a turn is
longer than 10 ms it notes the loop's stack, so that a stall has a name. Both hubs of a bench
carry the same monitor. It reaches into the loop's selector, which no public call allows: it
belongs into a bench and into nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

WORTH_NOTING = 0.001
"""Seconds: shorter turns are not written down."""

SAMPLE_AFTER = 0.010
"""Seconds of a turn after which its stack is looked at."""

SAMPLE_INTERVAL = 0.005
"""Seconds between two looks."""

OURS = "ec2spawner/"
"""How the files of this project begin in a stack."""

DEEPEST = 60
"""Frames of a stack that are kept, innermost first."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the loop. `at` in seconds since the epoch; all others in milliseconds."""

    at: float
    wall_ms: float
    cpu_ms: float
    queued_ms: float
    gc_ms: float
    stack: tuple[str, ...]
    """Where it was seen most often, innermost first; empty where it was never looked at."""

    @property
    def own_ms(self) -> float:
        """The wall time less what the machine let it wait for a core."""
        return self.wall_ms - self.queued_ms

    @property
    def place(self) -> str:
        """The innermost line of this project, or else of JupyterHub, or else of anything."""
        for owner in (OURS, "jupyterhub/"):
            for line in self.stack:
                if line.startswith(owner):
                    return line
        return self.stack[0] if self.stack else ""

    @property
    def is_ours(self) -> bool:
        """True where code of this project was on the stack, however deep below it the time went."""
        return any(line.startswith(OURS) for line in self.stack)


def read_turns(log: Path) -> list[Turn]:
    """What a monitor wrote."""
    turns = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [Turn(**turn | {"stack": tuple(turn["stack"])}) for turn in turns]


class LoopMonitor:
    """Watches the running loop of this thread and writes its longer turns as JSON lines."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._loop_thread = threading.get_ident()
        self._number = 0
        self._began = 0.0
        self._cpu_began = 0.0
        self._queued = _queue_clock()
        self._queued_began = 0.0
        self._gc_began = 0.0
        self._gc_seconds = 0.0
        self._ended: deque[tuple[int, float, float, float, float, float]] = deque()
        self._stacks: dict[int, Counter[tuple[str, ...]]] = {}

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, for as long as the process lives."""
        selector: Any = loop._selector  # type: ignore[attr-defined]
        wait = selector.select

        def select(timeout: float | None = None) -> Any:
            self._end_turn()
            events = wait(timeout)
            self._begin_turn()
            return events

        selector.select = select
        gc.callbacks.append(self._collecting)
        threading.Thread(target=self._follow, name="loop-monitor", daemon=True).start()

    # --- on the loop ---

    def _begin_turn(self) -> None:
        self._number += 1
        self._gc_seconds = 0.0
        self._cpu_began = time.thread_time()
        self._queued_began = self._queued()
        self._began = time.perf_counter()

    def _end_turn(self) -> None:
        began, self._began = self._began, 0.0
        wall = time.perf_counter() - began
        if began and wall >= WORTH_NOTING:
            cpu = time.thread_time() - self._cpu_began
            queued = self._queued() - self._queued_began
            at = time.time() - wall
            self._ended.append((self._number, at, wall, cpu, queued, self._gc_seconds))

    def _collecting(self, phase: str, _info: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._gc_began = now
        else:
            self._gc_seconds += now - self._gc_began

    # --- in the thread beside it ---

    def _follow(self) -> None:
        with self._log.open("a", encoding="utf-8") as file:
            while True:
                time.sleep(SAMPLE_INTERVAL)
                self._sample()
                while self._ended:
                    file.write(json.dumps(asdict(self._turn(*self._ended.popleft()))) + "\n")
                    file.flush()

    def _sample(self) -> None:
        number, began = self._number, self._began
        if not began or time.perf_counter() - began < SAMPLE_AFTER:
            return
        stack = stack_of(sys._current_frames()[self._loop_thread])
        if self._number == number:
            self._stacks.setdefault(number, Counter())[stack] += 1

    def _turn(
        self, number: int, at: float, wall: float, cpu: float, queued: float, gc_seconds: float
    ) -> Turn:
        seen = self._stacks.pop(number, None)
        stack = seen.most_common(1)[0][0] if seen else ()
        return Turn(at, 1000 * wall, 1000 * cpu, 1000 * queued, 1000 * gc_seconds, stack)


def _queue_clock() -> Callable[[], float]:
    """Seconds for which this thread has waited for a core so far; called on this thread only."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return lambda: 0.0
    return lambda: int(os.pread(file, 64, 0).split()[1]) / 1e9


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """`file:line function`, innermost first, as far as the loop's own code."""
    lines: list[str] = []
    while frame is not None and len(lines) < DEEPEST:
        code = frame.f_code
        if code.co_name == "_run" and code.co_filename.endswith("asyncio/events.py"):
            break
        lines.append(f"{_short(code.co_filename)}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(lines)


@cache
def _short(file: str) -> str:
    """A file's name from its package on."""
    for root in sorted(sys.path, key=len, reverse=True):
        if root and file.startswith(f"{root}/"):
            return file.removeprefix(f"{root}/")
    return file
