"""Programs that the agent runs: what they leave behind holds nothing up."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ec2spawner.agent import command
from ec2spawner.agent.command import NOT_FOUND, TIMED_OUT, run

pytestmark = pytest.mark.timeout(300)


async def test_a_command_reports_its_result() -> None:
    assert await run("sh", "-c", "echo on; echo off >&2; exit 3") == (3, "on\noff")
    status, said = await run("/nonexistent/mount")
    assert status == NOT_FOUND
    assert "No such file" in said


async def test_only_the_end_of_a_long_output_is_reported() -> None:
    status, said = await run("sh", "-c", "yes | head -c 2000000; echo the end")
    assert status == 0
    assert said.endswith("the end")
    assert len(said) <= 300


async def test_a_daemon_that_keeps_the_output_open_does_not_block(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    status, said = await run("sh", "-c", f"sleep 900 & echo $! >{pid_file}; echo mounted")
    os.kill(int(pid_file.read_text()), 9)  # it is still there: nothing has waited for its end
    assert (status, said) == (0, "mounted")


@pytest.mark.parametrize("how", ["late", "cancelled"])
async def test_a_timed_out_command_is_killed_with_its_children(tmp_path: Path, how: str) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! >{pid_file}.new; mv {pid_file}.new {pid_file}; wait"
    work = asyncio.create_task(run("sh", "-c", script, seconds=5.0 if how == "late" else 60.0))
    while not pid_file.exists():
        await asyncio.sleep(0.01)
    if how == "late":
        status, said = await work
        assert status == TIMED_OUT
        assert "took more than 5 s" in said
    else:
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    await _until_gone(int(pid_file.read_text()))


async def test_an_unkillable_command_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    spared: list[int] = []
    killpg = os.killpg
    monkeypatch.setattr(command, "KILLED_SECONDS", 0.1)
    monkeypatch.setattr(os, "killpg", lambda pid, _: spared.append(pid))
    status, _ = await run("sleep", "60", seconds=0.1)
    assert status == TIMED_OUT
    killpg(spared[0], 9)


async def _until_gone(pid: int) -> None:
    """Dead, whether or not somebody has buried it."""
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        await asyncio.sleep(0.01)
