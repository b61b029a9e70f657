"""The last hour: steps, gaps, clocks that are set, and what an answer costs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from ec2spawner.telemetry import HistoryBuffer
from ec2spawner.telemetry.history import STEP_SECONDS, STEPS
from ec2spawner.wire import GpuSample, History, Telemetry

START = 1_800_000_000.0


class Clocks:
    """A monotonic clock, and a wall clock."""

    def __init__(self) -> None:
        self.steady = 1000.0
        self.ahead = START - 1000.0
        self.history = HistoryBuffer(lambda: self.steady, lambda: self.wall)
        self._samples = 0

    @property
    def wall(self) -> float:
        return self.steady + self.ahead

    def add(self, cpu: float | None, gpus: list[float] | None = None) -> None:
        self._samples += 1
        self.history.add(
            Telemetry(
                at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._samples),
                cpu_percent=cpu,
                memory_used_mib=1024,
                memory_total_mib=4096,
                gpus=[
                    GpuSample(
                        index=index,
                        name=f'H100 "{index}"',
                        use_percent=use,
                        memory_used_mib=use,
                        memory_total_mib=200,
                    )
                    for index, use in enumerate(gpus or [])
                ],
            )
        )

    def run(self, seconds: int, cpu: float | None = 10.0, gpus: list[float] | None = None) -> None:
        for _ in range(seconds):
            self.add(cpu, gpus)
            self.steady += 1.0

    def answer(self, since: float | None = None) -> History:
        found = History.model_validate_json(self.history.answer(since))
        if since is None:
            assert found == self.history.hour()
        for gpu in found.gpus:
            assert len(gpu.use_percent) == len(gpu.memory_percent) == len(found.at)
        assert len(found.cpu_percent) == len(found.memory_percent) == len(found.at)
        assert found.at == sorted(set(found.at))
        return found


def test_means_of_completed_steps_only() -> None:
    clocks = Clocks()
    assert clocks.answer().at == []
    for cpu in (10, 20, 30, 40, 50, 90, 90):
        clocks.run(1, cpu, [cpu])
    found = clocks.answer()
    assert found.step_seconds == STEP_SECONDS
    assert found.at == [START + 5]
    assert (found.cpu_percent, found.memory_percent) == ([30], [25])
    assert found.gpus[0].name == 'H100 "0"'
    assert (found.gpus[0].use_percent, found.gpus[0].memory_percent) == ([30], [15])


def test_unmeasured_samples_are_a_gap() -> None:
    clocks = Clocks()
    clocks.run(10)
    clocks.steady += 20
    clocks.run(10, None, [7])
    found = clocks.answer()
    assert found.cpu_percent == [10, 10] + [None] * 6
    assert found.gpus[0].use_percent == [None] * 6 + [7, 7], "a GPU that came later"
    clocks.steady += 10
    assert clocks.answer().cpu_percent == [10, 10] + [None] * 8, "time passes without samples"


def test_samples_slightly_over_five_seconds_apart_leave_no_gap() -> None:
    clocks = Clocks()
    for _ in range(500):
        clocks.add(33.3)
        clocks.steady += 5.03
        assert set(clocks.answer().cpu_percent) <= {33.3}
    assert clocks.wall - clocks.answer().at[-1] < 2 * STEP_SECONDS


def test_the_same_sample_counts_once() -> None:
    clocks = Clocks()
    for cpu in (0.0, 100.0):
        sample = Telemetry(at=datetime.fromtimestamp(clocks.wall, UTC), cpu_percent=cpu)
        for _ in range(1 if cpu else 9):
            clocks.history.add(sample)
        clocks.steady += 1
    clocks.history.add(None)
    clocks.steady += 5
    assert clocks.answer().cpu_percent == [50]


def test_an_hour_is_kept_and_since_returns_new_samples() -> None:
    clocks = Clocks()
    clocks.run(4000, gpus=[50])
    found = clocks.answer()
    assert len(found.at) == STEPS
    assert found.at[-1] == clocks.wall
    assert clocks.answer(found.at[-4]).at == found.at[-3:]
    assert clocks.answer(found.at[-1]).at == []
    assert clocks.answer(0).at == found.at
    assert clocks.answer(float("nan")).at == found.at
    clocks.run(5)
    assert clocks.answer(found.at[-1]).at == [found.at[-1] + 5]


def test_a_clock_change_moves_the_recorded_hour() -> None:
    clocks = Clocks()
    clocks.run(60)
    seen = clocks.answer().at[-1]
    clocks.ahead -= 3600
    clocks.run(10)
    found = clocks.answer()
    assert len(found.at) == 14
    assert found.at[-1] == clocks.wall
    assert clocks.answer(seen).at == found.at, "asked for by another clock: all of it"
    clocks.ahead += 2 * 3600
    clocks.run(10)
    assert len(clocks.answer().at) == 16
    assert clocks.answer().at[-1] == clocks.wall
    assert set(clocks.answer().cpu_percent) == {10}


def test_small_clock_corrections_move_nothing() -> None:
    clocks = Clocks()
    clocks.run(60)
    before = clocks.answer().at
    clocks.ahead += 0.4
    clocks.run(5)
    assert clocks.answer().at[: len(before)] == before


def test_the_cost_of_a_response_is_proportional_to_its_figures() -> None:
    """Six times the steps take about six times as long: nothing is computed again for each."""

    def seconds(minutes: int) -> float:
        clocks = Clocks()
        clocks.run(60 * minutes, gpus=[12.3] * 8)
        taken = []
        for _ in range(9):
            clocks.run(5, gpus=[45.6] * 8)
            began = time.thread_time()
            clocks.history.answer()
            clocks.history.hour()
            taken.append(time.thread_time() - began)
        return min(taken)

    assert seconds(60) < 6 * 5 * seconds(10)
