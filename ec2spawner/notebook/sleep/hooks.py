"""The user's own code before the instance goes: an executable in the home, and entry points.

Both run as the notebook's user, in processes and process groups of their own, so that one that
hangs can be ended with whatever it has started. How long is left, and why, is in the environment:
`EC2SPAWNER_SECONDS_LEFT`, whole seconds, and `EC2SPAWNER_TRIGGER`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ...wire import StepResult, Trigger

log = logging.getLogger(__name__)

GROUP = "ec2spawner.on_interruption"
"""Of entry points: functions without arguments."""

MAX_OUTPUT_BYTES = 64 * 1024
"""Of what a hook prints; the rest is read and dropped."""

KILL_SECONDS = 1.0
"""For a process group to be gone after SIGKILL: one that waits for a disk is left."""


def hook_file(home: Path) -> Path | None:
    """The user's executable, if there is one."""
    file = home / ".ec2spawner" / "on-interruption"
    return file if file.is_file() and os.access(file, os.X_OK) else None


def hooks(home: Path) -> list[list[str]]:
    """The commands that run all hooks of this user; an empty list without any."""
    found = []
    file = hook_file(home)
    if file is not None:
        found.append([str(file)])
    try:
        if entry_points(group=GROUP):
            found.append([sys.executable, "-m", "ec2spawner.notebook.sleep.entry_point_hooks"])
    except Exception:  # of the metadata of any package that the user has installed
        log.exception("ec2spawner: entry points cannot be read")
    return found


async def run_hooks(
    commands: Sequence[Sequence[str]], seconds: float, trigger: Trigger, log: Any
) -> StepResult:
    """Run all at the same time for at most `seconds`; what they print is in the log."""
    began = time.monotonic()
    environment = os.environ | {
        "EC2SPAWNER_SECONDS_LEFT": str(int(seconds)),
        "EC2SPAWNER_TRIGGER": trigger,
    }
    ended = await asyncio.gather(*(_run(each, seconds, environment, log) for each in commands))
    problems = [each for each in ended if each]
    took = time.monotonic() - began
    if not problems:
        return StepResult(step="hook", outcome="done", seconds=took)
    is_late = "late" in problems
    detail = "" if is_late else "; ".join(problems)[:200]
    outcome = "late" if is_late else "failed"
    return StepResult(step="hook", outcome=outcome, seconds=took, detail=detail)


async def _run(
    command: Sequence[str], seconds: float, environment: Mapping[str, str], log: Any
) -> str:
    """What went wrong: `late`, or words; empty if nothing did."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(environment),
            cwd=Path.home(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        log.warning("ec2spawner: the hook %s cannot be started: %s", command[0], error)
        return f"cannot be started: {error}"
    output = bytearray()
    reading = asyncio.create_task(_read(process, output))
    try:
        async with asyncio.timeout(seconds):
            status = await process.wait()
        problem = f"exit status {status}" if status else ""
    except TimeoutError:
        problem = "late"
    finally:
        # With what it has started, which would write while variables are saved.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await process.wait()
                await reading
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        text = output.decode(errors="replace").strip()
        if text:
            log.info("ec2spawner: output of the hook %s:\n%s", command[0], text)
    if problem:
        log.warning("ec2spawner: the hook %s: %s", command[0], problem)
    return problem


async def _read(process: asyncio.subprocess.Process, output: bytearray) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(65536):
        output += chunk[: MAX_OUTPUT_BYTES - len(output)]
