"""The user's hooks as real processes: failing, hanging or filling the disk costs its own time."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2spawner.notebook.sleep.hooks import GROUP, hooks, run_hooks

log = logging.getLogger(__name__)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".ec2spawner").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def full_disk(home: Path) -> Iterator[Path]:
    """A home on a disk of 1 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: mounting needs root: {made.stderr}")
    (home / ".ec2spawner").mkdir()
    yield home
    subprocess.run(["umount", str(home)], check=True)


def executable(home: Path, script: str) -> None:
    file = home / ".ec2spawner" / "on-interruption"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, **functions: str) -> None:
    """An installed package with entry points: each calls a function with this body."""
    folder.mkdir()
    (folder / "hooked.py").write_text(
        "import os, time\n"
        + "".join(f"def {name}():\n    {body}\n" for name, body in functions.items())
    )
    about = folder / "hooked-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hooked\nVersion: 1\n")
    lines = [f"{name} = hooked:{name}" for name in functions]
    (about / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[3]}")


async def test_without_hooks_nothing_is_run(home: Path) -> None:
    assert hooks(home) == []


async def test_all_entry_points_are_called_although_one_fails(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(
        tmp_path / "site",
        monkeypatch,
        a_bad="raise ValueError('no')",
        note="open('said', 'w').write(os.environ['EC2SPAWNER_SECONDS_LEFT'])",
    )
    executable(home, "echo $EC2SPAWNER_TRIGGER > mine")
    commands = hooks(home)
    assert len(commands) == 2
    result = await run_hooks(commands, 30.0, "interruption", log)
    assert (result.outcome, result.detail) == ("failed", "exit status 1")
    assert (home / "said").read_text() == "30"
    assert (home / "mine").read_text() == "interruption\n"


async def test_an_entry_point_that_hangs_is_ended_with_what_it_started(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(
        tmp_path / "site",
        monkeypatch,
        hang="os.system('sleep 1000 & echo $! > pid'); open('hangs', 'w'); time.sleep(1000)",
    )
    running = asyncio.create_task(run_hooks(hooks(home), 10.0, "idle", log))
    began = time.monotonic()
    result = await running
    assert result.outcome == "late"
    assert time.monotonic() - began < 60
    assert (home / "hangs").exists(), "it had begun"
    pid = int((home / "pid").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and _state(pid) != "Z":
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_hook_that_fills_the_disk_is_reported(full_disk: Path) -> None:
    executable(full_disk, "cat /dev/zero > all || exit 3")
    result = await run_hooks(hooks(full_disk), 30.0, "idle", log)
    assert (result.outcome, result.detail) == ("failed", "exit status 3")
    free = os.statvfs(full_disk)
    assert free.f_bavail == 0


@pytest.mark.parametrize("script", ["exit 7", "kill -9 $$", "not-a-command"])
async def test_a_hook_that_fails_says_how(home: Path, script: str) -> None:
    executable(home, script)
    result = await run_hooks(hooks(home), 30.0, "idle", log)
    assert result.outcome == "failed"
    assert result.detail in ("exit status 7", "exit status -9", "exit status 127")


async def test_what_a_hook_prints_is_bounded(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    executable(home, "head -c 3000000 /dev/zero | tr '\\0' x")
    result = await run_hooks(hooks(home), 30.0, "idle", log)
    assert result.outcome == "done", "the rest is read, too"
    assert 60_000 < len(caplog.text) < 200_000


async def test_a_hook_that_cannot_be_started_says_why(home: Path) -> None:
    file = home / ".ec2spawner" / "on-interruption"
    file.write_text("#!/no/such/interpreter\n")
    file.chmod(0o700)
    result = await run_hooks([*hooks(home), [sys.executable, "-c", ""]], 30.0, "idle", log)
    assert result.outcome == "failed"
    assert result.detail.startswith("cannot be started")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
