"""The GPU check at boot: a program of its own, bounded in time, beside the warm-up.

Only a GPU that has proved itself broken keeps a machine from being given to anybody. A check that
fails by itself, says nothing, or takes too long never does: at the first boot a disk is cold and a
driver may load late, which cannot be distinguished from a fault. A GPU that hangs can be, by
the check itself, which has a watchdog around what only the GPU can hold up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 20.0
"""Longer than the check's own watchdog waits, and a part of what a boot takes."""

MAX_BYTES: Final = 64 * 1024
"""Of the check's one line: eight GPUs take 6 KiB."""


async def broken_gpu(device: Path | None, *, seconds: float = CHECK_SECONDS) -> str:
    """What is broken, for people; empty where nothing is known to be. Raises nothing.

    `device`: without it this machine has no GPU, and there is nothing to check.
    """
    if device is None or not await asyncio.to_thread(device.exists):
        return ""
    try:
        report = json.loads(await _run(seconds))
        state, said = report["verdict"]["state"], report["verdict"]["line"]
        broken = [
            f"GPU {gpu['index']} ({gpu['name']}): {gpu['broken']}"
            for gpu in report["gpus"]
            if gpu["broken"]
        ]
    except TimeoutError:
        log.warning("the GPU check took more than %.0f s, and is left out", seconds)
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("the GPU check did not work, and is left out: %r", error)
        return ""
    log.log(logging.INFO if state == "fine" else logging.WARNING, "GPU check: %s", said)
    return broken[0][:400] if state == "broken" and broken else ""


async def _run(seconds: float) -> bytes:
    """The check's line. It is not waited for after that: a driver that hangs holds its end up."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ec2spawner.gpu_check", "--short", "--json"),
        cwd="/",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        limit=MAX_BYTES,
        env={name: text for name, text in os.environ.items() if not name.startswith("EC2SPAWNER_")},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            line = await process.stdout.readline()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await process.wait()
            return line
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
