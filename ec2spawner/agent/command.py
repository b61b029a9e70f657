"""Programs of the system, run to their end, and what they said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

COMMAND_SECONDS = 300.0
"""For one of mkfs, fsck, mount and umount; a check of a large file system takes a while."""

KILLED_SECONDS = 5.0
"""What is stuck in the kernel does not even die, and is not waited for."""

MAX_SAID = 4096
"""Bytes of what a command said that are looked at: the last ones."""

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
    """Exit status and the end of what the command said, both outputs together.

    `user` and `group`: whose rights it has; None for ours. A command that takes too long, or is
    cancelled, is killed with all that it has started; what has become a daemon lives on.
    """
    # Into memory and not into a pipe: a daemon that keeps its end open would hold us up.
    output = os.memfd_create("output", os.MFD_CLOEXEC)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
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
    said = os.pread(output, MAX_SAID, max(os.fstat(output).st_size - MAX_SAID, 0))
    return said.decode(errors="replace").strip()[-300:]
