"""The last hour as averages over steps of five seconds.

An hour of eight GPUs is fourteen thousand figures, which must not occupy the notebook server's
event loop. So figures are tenths of a percent in arrays, their text comes from a table, and a
response is written once per step.
"""

from __future__ import annotations

import json
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterable

from ..wire import GpuHistory, History, Telemetry

STEP_SECONDS = 5.0
STEPS = 720
"""One hour."""

GAP = -1
"""Nothing was measured in this step."""

MAX_GPUS = 64

MAX = 1000
"""A hundred percent, in tenths."""

TEXTS = [f"{tenths / 10:g}" for tenths in range(MAX + 1)] + ["null"]
"""The JSON text of a number of tenths; `GAP` indexes the last one."""

FIGURES: list[float | None] = [tenths / 10 for tenths in range(MAX + 1)] + [None]
"""The same as figures."""

CLOCK_SET_SECONDS = 2.0
"""If the offset between wall clock and step clock changes by more, the wall clock was set."""

BRIDGED = 1.5 * STEP_SECONDS
"""A sample counts for the time since the previous one, up to this long: at one sample every five
seconds, a step sometimes gets none."""

Measured = tuple[float | None, ...]


class _Column:
    """One figure over the last hour; and what was measured of it in the current step."""

    def __init__(self) -> None:
        self.steps = array("h", [GAP]) * STEPS
        self._sum = 0.0
        self._count = 0

    def add(self, percent: float | None) -> None:
        if percent is not None and math.isfinite(percent):
            self._sum += min(max(percent, 0.0), 100.0)
            self._count += 1

    def finish(self, place: int) -> None:
        """Write down the current step, and begin a new one."""
        self.steps[place] = round(10 * self._sum / self._count) if self._count else GAP
        self._sum, self._count = 0.0, 0


class _Gpu:
    def __init__(self, index: int) -> None:
        self.index = index
        self.name = ""
        self.use = _Column()
        self.memory = _Column()


class HistoryBuffer:
    """Takes samples and answers the last hour. Thread-safe.

    Steps follow a clock that is never set. Reported instants are the wall clock's; when
    that is set, the whole hour moves along, and stays in order.
    """

    def __init__(
        self,
        clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`clock` also counts while the machine sleeps."""
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._step: int | None = None
        """The number of the current step."""
        self._first = 0
        """The number of the first step that was measured."""
        self._offset = wall() - clock()
        self._added_at = clock() - STEPS * STEP_SECONDS
        self._sampled_at: object = None
        self._cpu = _Column()
        self._memory = _Column()
        self._gpus: dict[int, _Gpu] = {}
        self._whole: tuple[range, float, bytes] | None = None
        """(steps, offset, JSON of the whole hour) of the last response."""
        self._hour: tuple[range, float, History] | None = None

    def add(self, telemetry: Telemetry | None) -> None:
        """Add a sample; a sample that was added before is ignored."""
        with self._lock:
            if telemetry is None or telemetry.at == self._sampled_at:
                return
            self._sampled_at = telemetry.at
            now = self._clock()
            self._advance(now)
            missed = self._step_of(now) - 1
            if self._step_of(self._added_at) == missed - 1 and now - self._added_at <= BRIDGED:
                self._take(telemetry)
                self._finish(missed)
            self._take(telemetry)
            self._added_at = now

    def answer(self, since: float | None = None) -> bytes:
        """`History` as JSON: the steps that ended after `since`, or all of them.

        A `since` in the future is from another clock and returns all of them.
        """
        with self._lock:
            over = self._completed()
            steps = self._since(over, since)
            if steps != over:
                return self._write(steps)
            if self._whole is None or self._whole[:2] != (over, self._offset):
                self._whole = over, self._offset, self._write(over)
            return self._whole[2]

    def hour(self) -> History:
        """The whole hour as a message; the same object until a step has passed."""
        with self._lock:
            over = self._completed()
            if self._hour is None or self._hour[:2] != (over, self._offset):
                self._hour = over, self._offset, self._message(over)
            return self._hour[2]

    # --- steps -----------------------------------------------------------------------------------

    def _completed(self) -> range:
        """The steps that are over; not one that the next sample may still belong to."""
        if self._step is None:
            return range(0)
        now = self._clock()
        self._advance(now)
        is_open = now - self._added_at <= BRIDGED
        end = min(self._step, self._step_of(self._added_at) + 1) if is_open else self._step
        return range(max(self._first, self._step - STEPS), end)

    def _advance(self, now: float) -> None:
        """Complete all steps before `now`."""
        if abs(self._wall() - now - self._offset) > CLOCK_SET_SECONDS:
            self._offset = self._wall() - now
        step = self._step_of(now)
        if self._step is None:
            self._step = self._first = step
        if step <= self._step:
            return
        self._finish(self._step)
        for missed in range(max(self._step + 1, step - STEPS), step):
            self._finish(missed)
        self._step = step

    def _finish(self, step: int) -> None:
        for column in self._columns():
            column.finish(step % STEPS)

    @staticmethod
    def _step_of(now: float) -> int:
        return math.floor(now / STEP_SECONDS)

    def _take(self, telemetry: Telemetry) -> None:
        self._cpu.add(telemetry.cpu_percent)
        self._memory.add(_share(telemetry.memory_used_mib, telemetry.memory_total_mib))
        for sample in telemetry.gpus:
            gpu = self._gpus.get(sample.index)
            if gpu is None:
                if len(self._gpus) >= MAX_GPUS:
                    continue
                gpu = self._gpus[sample.index] = _Gpu(sample.index)
            gpu.name = sample.name
            gpu.use.add(sample.use_percent)
            gpu.memory.add(_share(sample.memory_used_mib, sample.memory_total_mib))

    def _columns(self) -> Iterable[_Column]:
        yield self._cpu
        yield self._memory
        for gpu in self._gpus.values():
            yield gpu.use
            yield gpu.memory

    # --- answers ---------------------------------------------------------------------------------

    def _since(self, steps: range, since: float | None) -> range:
        """The steps that ended after `since`."""
        if since is None or not math.isfinite(since) or since > self._wall() + STEP_SECONDS:
            return steps
        # Instants are reported in milliseconds.
        after = math.floor((since - self._offset + 0.001) / STEP_SECONDS)
        return range(min(max(after, steps.start), steps.stop), steps.stop)

    def _at(self, step: int) -> float:
        return (step + 1) * STEP_SECONDS + self._offset

    def _write(self, steps: range) -> bytes:
        parts = [
            f'{{"step_seconds":{STEP_SECONDS:g},"at":[',
            ",".join([f"{self._at(step):.3f}" for step in steps]),
            f'],"cpu_percent":[{_text(self._cpu, steps)}]',
            f',"memory_percent":[{_text(self._memory, steps)}],"gpus":[',
            ",".join(
                f'{{"index":{gpu.index},"name":{_quoted(gpu)},"use_percent":['
                f'{_text(gpu.use, steps)}],"memory_percent":[{_text(gpu.memory, steps)}]}}'
                for _, gpu in sorted(self._gpus.items())
            ),
            "]}",
        ]
        return "".join(parts).encode()

    def _message(self, steps: range) -> History:
        # Validating our own figures would only take time.
        return History.model_construct(
            step_seconds=STEP_SECONDS,
            at=[round(self._at(step), 3) for step in steps],
            cpu_percent=_figures(self._cpu, steps),
            memory_percent=_figures(self._memory, steps),
            gpus=[
                GpuHistory.model_construct(
                    index=gpu.index,
                    name=gpu.name,
                    use_percent=_figures(gpu.use, steps),
                    memory_percent=_figures(gpu.memory, steps),
                )
                for _, gpu in sorted(self._gpus.items())
            ],
        )


def _in_order(column: _Column, steps: range) -> array[int]:
    if not steps:
        return array("h")
    first, last = steps.start % STEPS, steps.stop % STEPS
    if first < last:
        return column.steps[first:last]
    return column.steps[first:] + column.steps[:last]


def _text(column: _Column, steps: range) -> str:
    return ",".join(map(TEXTS.__getitem__, _in_order(column, steps)))


def _figures(column: _Column, steps: range) -> list[float | None]:
    return list(map(FIGURES.__getitem__, _in_order(column, steps)))


def _quoted(gpu: _Gpu) -> str:
    return json.dumps(gpu.name)


def _share(used: float | None, total: float | None) -> float | None:
    return 100.0 * used / total if used is not None and total else None
