"""Powering off with commands that fail or that only say that they did it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ec2spawner.agent.power_off import power_off


async def asked(folder: Path, name: str, status: int) -> list[str]:
    """The arguments of the first four times that `name` was asked to power off."""
    log, program = folder / "log", folder / name
    program.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexit {status}\n')
    program.chmod(0o755)
    asking = asyncio.create_task(power_off([str(program), "poweroff"], retry_after=0.05))
    async with asyncio.timeout(90):
        while not log.exists() or len(log.read_text().splitlines()) < 4:
            assert not asking.done()
            await asyncio.sleep(0.02)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return log.read_text().splitlines()[:4]


@pytest.mark.parametrize("status", [0, 1])
async def test_power_off_is_repeated_and_then_forced(tmp_path: Path, status: int) -> None:
    polite, forced = "poweroff", "poweroff --force"
    assert await asked(tmp_path, "systemctl", status) == [polite, polite, forced, forced]


async def test_a_custom_power_off_command_is_repeated_unchanged(tmp_path: Path) -> None:
    assert await asked(tmp_path, "halt-my-way", 0) == ["poweroff"] * 4


async def test_a_missing_power_off_command_is_survived() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await power_off(["/no/such/command"], retry_after=0.05)
