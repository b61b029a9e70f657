"""Programs of the system, run to their end, and what they said."""

from __future__ import annotations

import asyncio

COMMAND_SECONDS = 300.0
"""For one of mkfs, fsck, mount and umount; a check of a large file system takes a while."""

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
    cancelled, is killed.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=pass_fds,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
    except OSError as error:
        return NOT_FOUND, str(error)
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except (TimeoutError, asyncio.CancelledError) as error:
        process.kill()
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
        return TIMED_OUT, f"{argv[0]} took more than {seconds:.0f} s"
    return process.returncode or 0, output.decode(errors="replace").strip()[-300:]
