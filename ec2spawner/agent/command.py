"""Runs system commands and returns their exit status and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from .memory_protection import expendable

COMMAND_SECONDS = 300.0
"""For one mkfs, fsck, mount or umount; checking a large file system takes minutes."""

KILLED_SECONDS = 5.0
"""For a killed command to end. One that is stuck in the kernel does not end."""

MAX_OUTPUT_BYTES = 4096
"""Of a command's output, its last bytes are read."""

NOT_FOUND = 127
TIMED_OUT = 124
"""The shell's and timeout(1)'s statuses for these."""


async def run(
    *argv: str,
    seconds: float = COMMAND_SECONDS,
    pass_fds: tuple[int, ...] = (),
    user: int | None = None,
    group: int | None = None,
) -> tuple[int, str]:
    """Exit status and the end of stdout and stderr together.

    `user` and `group` run the command; None means the agent's. A command that times out or is
    cancelled is killed with its process group; a daemon that it started continues.
    """
    # Not a pipe: a daemon that keeps its end open would block the read.
    output = os.memfd_create("output", os.MFD_CLOEXEC)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *expendable(*argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
            )
        except OSError as error:
            return NOT_FOUND, str(error)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            await _kill(process)
            return TIMED_OUT, f"{argv[0]} took more than {seconds:.0f} s"
        except asyncio.CancelledError:
            await _kill(process)
            raise
        return process.returncode or 0, _end_of(output)
    finally:
        os.close(output)


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILLED_SECONDS):
            await process.wait()


def _end_of(output: int) -> str:
    tail = os.pread(output, MAX_OUTPUT_BYTES, max(os.fstat(output).st_size - MAX_OUTPUT_BYTES, 0))
    return tail.decode(errors="replace").strip()[-300:]
