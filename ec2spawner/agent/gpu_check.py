"""The GPU check at boot: a separate process with a timeout, run during the warm-up.

Only a GPU that is proven broken keeps the instance from being assigned a lease. A check that
fails, prints nothing or times out does not: at the first boot the disk is cold and a driver may
load late, which cannot be distinguished from a fault. The check itself detects a hanging GPU, with
a watchdog around the calls that only the GPU can block.
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

from .memory_protection import expendable

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 20.0
"""Longer than the timeout of the check's own watchdog, and shorter than a boot."""

MAX_BYTES: Final = 64 * 1024
"""Of the check's single line of output: eight GPUs take 6 KiB."""


async def broken_gpu(device: Path | None, *, seconds: float = CHECK_SECONDS) -> str:
    """What is broken, for people, or an empty string. Raises nothing.

    Without `device` this instance has no GPU, and nothing is checked.
    """
    if device is None or not await asyncio.to_thread(device.exists):
        return ""
    try:
        report = json.loads(await _run(seconds))
        state, line = report["verdict"]["state"], report["verdict"]["line"]
        broken = [
            f"GPU {gpu['index']} ({gpu['name']}): {gpu['broken']}"
            for gpu in report["gpus"]
            if gpu["broken"]
        ]
    except TimeoutError:
        log.warning("GPU check skipped: it took more than %.0f s", seconds)
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("GPU check skipped: it failed: %r", error)
        return ""
    log.log(logging.INFO if state == "fine" else logging.WARNING, "GPU check: %s", line)
    return broken[0][:400] if state == "broken" and broken else ""


async def _run(seconds: float) -> bytes:
    """The line that the check prints. Does not wait for its exit, which a hanging driver blocks."""
    process = await asyncio.create_subprocess_exec(
        *expendable(sys.executable, "-P", "-m", "ec2spawner.gpu_check", "--short", "--json"),
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
