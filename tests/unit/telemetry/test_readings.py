"""The readings by which a server is found idle: those of the last two minutes, whatever the clock
does."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.telemetry import Processes, Sampler, find_gpus
from ec2spawner.wire import Telemetry

START = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
GPU = '{"name": "T4", "count": 1, "memory_mib": 15360}'


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([60] * 5, [180, 240, 300]),
        ([60, 60, 1], [60, 120, 121]),
        ([60, 60, -90], [0, 30]),
        ([300], [300]),
    ],
)
def test_old_readings_and_those_of_a_clock_that_was_set_back_are_dropped(
    steps: Sequence[int], expected: Sequence[int]
) -> None:
    """`steps`: seconds by which the clock moves from one sample to the next."""
    at, left, is_done = START, list(steps), threading.Event()

    def sampled(_: Telemetry) -> None:
        nonlocal at
        if left:
            at += timedelta(seconds=left.pop(0))
        else:
            is_done.set()

    sampler = Sampler(
        find_gpus(GPU),
        Processes(os.getpid()),
        interval=0.01,
        now=lambda: at,
        on_sample=sampled,
    )
    sampler.start()
    assert is_done.wait(60)
    sampler.stop(60)
    for readings in sampler.readings():  # the last instant may have been sampled twice
        found = {(each.at - START).total_seconds() for each in readings}
        assert sorted(found) == expected
