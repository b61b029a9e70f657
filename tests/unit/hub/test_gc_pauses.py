"""Collections stay short while the hub grows and works, and frozen garbage is collected daily."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ec2spawner.hub.app.event_loop.gc_pauses import (
    FULL_INTERVAL,
    LATEST,
    QUIET,
    is_due,
    nothing_starts_or_stops,
)
from ec2spawner.provisioner.model.leases.lease import LeaseState

ROOT = Path(__file__).resolve().parents[3]
"""The programs import modules of tests, and a test before may have changed the directory."""

GROWTH = """
import asyncio, gc, time
from ec2spawner.hub.app.event_loop.gc_pauses import TURN_INTERVAL, GCPauses
from tests.virtual_time import VirtualTimeLoop

OBJECTS = 600_000

def walked():
    return len(gc.get_objects())

def full():
    return gc.get_stats()[2]["collections"]

async def main():
    pauses, thresholds = GCPauses(lambda: False), gc.get_threshold()
    with pauses.kept_short():
        task = asyncio.create_task(pauses.run())
        await asyncio.sleep(2 * TURN_INTERVAL)
        at_first, before = walked(), full()
        lives = [[] for _ in range(OBJECTS)]
        assert full() == before  # not amid work
        await asyncio.sleep(2 * TURN_INTERVAL)
        assert full() == before + 1
        assert walked() < at_first + 1000, walked()  # it was long: what lives is frozen

        # The next one does not wait for a growth by a quarter of what is frozen.
        lives.extend([] for _ in range(OBJECTS // 5))
        await asyncio.sleep(2 * TURN_INTERVAL)
        assert full() == before + 2
        # Without work, one of four collections is a full one.
        await asyncio.sleep(8 * TURN_INTERVAL)
        assert full() == before + 4
        task.cancel()
    assert gc.get_threshold() == thresholds

with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    runner.run(main())
"""

REPLACEMENT = """
import asyncio, gc
from ec2spawner.hub.app.event_loop.gc_pauses import TURN_INTERVAL, GCPauses
from tests.virtual_time import VirtualTimeLoop

REPLACED = 20_000

def young():
    return len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))

async def main():
    lives = [[] for _ in range(REPLACED)]
    pauses = GCPauses(lambda: False)
    with pauses.kept_short():
        task = asyncio.create_task(pauses.run())
        await asyncio.sleep(1.5 * TURN_INTERVAL)
        for _ in range(3):
            for place in range(REPLACED):
                lives[place] = []
            # One more and one less each time: CPython sees no reason to collect.
            assert young() > REPLACED / 2, young()
            await asyncio.sleep(TURN_INTERVAL)
            assert young() < 1000, young()
        task.cancel()

with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    runner.run(main())
"""

FROZEN_GARBAGE = """
import asyncio, gc, weakref
from ec2spawner.hub.app.event_loop.gc_pauses import FULL_INTERVAL, QUIET, GCPauses
from tests.virtual_time import VirtualTimeLoop

class Spawner:
    def __init__(self):
        self.itself = self

async def main():
    is_quiet = False
    pauses = GCPauses(lambda: is_quiet)
    spawner = Spawner()
    stopped = weakref.ref(spawner)
    with pauses.kept_short():
        task = asyncio.create_task(pauses.run())
        del spawner
        await asyncio.sleep(FULL_INTERVAL + 3600)
        gc.collect()
        assert stopped() is not None  # frozen, and there was no quiet moment
        frozen = gc.get_freeze_count()
        is_quiet = True
        await asyncio.sleep(QUIET - 120)
        assert stopped() is not None
        await asyncio.sleep(240)
        assert stopped() is None
        assert gc.get_freeze_count() > frozen // 2  # what lives is frozen again
        task.cancel()

with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize(
    "program",
    [GROWTH, REPLACEMENT, FROZEN_GARBAGE],
    ids=["growth", "replacement", "frozen-garbage"],
)
def test_in_a_process_of_its_own(program: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_everything_is_collected_once_a_day_in_a_quiet_moment() -> None:
    assert not is_due(FULL_INTERVAL - 1, QUIET)
    assert is_due(FULL_INTERVAL, QUIET)
    assert not is_due(FULL_INTERVAL, QUIET - 1)
    assert not is_due(LATEST - 1, 60)
    assert is_due(LATEST, 60)


def test_a_moment_with_a_start_or_a_stop_is_not_quiet() -> None:
    assert nothing_starts_or_stops(set())
    assert nothing_starts_or_stops({LeaseState.READY})
    for state in (LeaseState.WAITING, LeaseState.STARTING, LeaseState.ENDING):
        assert not nothing_starts_or_stops({LeaseState.READY, state})
