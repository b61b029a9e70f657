"""Only time in which the hub could listen counts as an agent's silence."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from ec2spawner.provisioner.runtime.clock import MAX_GAP
from ec2spawner.provisioner.runtime.clock import Clock as HubClock
from tests.simulated_cloud import Clock

pytestmark = pytest.mark.asyncio


async def test_time_counts_only_while_the_loop_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", clock.monotonic)
    hub = HubClock(clock, clock.monotonic)
    for _ in range(100):
        clock.advance(5)
        hub.tick()
    assert hub.uptime() == 500
    clock.advance(3600)  # SIGSTOP, or a machine that swapped
    hub.tick()
    assert hub.uptime() == 500 + MAX_GAP


async def test_a_clock_change_has_no_effect_and_is_logged() -> None:
    clock = Clock()
    hub = HubClock(clock, clock.monotonic)
    clock.advance(5)
    assert hub.tick() == timedelta()
    clock.jump(-7200)
    clock.advance(1)
    assert hub.tick() == timedelta(seconds=-7200)
    assert hub.uptime() == 6
    clock.jump(0.5)
    assert hub.tick() == timedelta(), "NTP slews; that is nothing to talk about"
