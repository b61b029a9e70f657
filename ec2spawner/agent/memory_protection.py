"""Protects the agent's memory, which holds its key and the lease token, from other processes, and
the agent from the kernel's OOM killer, but nothing that it starts except what powers the instance
off."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
"""What `OOMScoreAdjust` sets. Children inherit it, and may raise it without privileges."""

RESET: Final = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@"'
"""Without choom(1) of util-linux, or where it fails. A shell drops variables whose names are none
of its own, but executes the command in any case."""

TRIAL_SECONDS: Final = 5.0

log = logging.getLogger(__name__)

PR_SET_DUMPABLE = 4
"""From <linux/prctl.h>."""


def close_to_others() -> None:
    """Let only root read this process's memory and environment, and disable core dumps.

    Executing another program resets this.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log.warning("the agent's memory is not protected: %s", os.strerror(ctypes.get_errno()))


def expendable(*argv: str) -> tuple[str, ...]:
    """The command, for a process that the kernel may end when memory is used up, as any other.

    The agent's own protection would otherwise pass to whatever uses up the memory. Elsewhere than
    in its unit the agent has none, and the command is unchanged.
    """
    try:
        is_protected = int(OOM_SCORE.read_text()) < 0
    except (OSError, ValueError):
        return argv
    if not is_protected:
        return argv
    return (*(_by_choom() or ("/bin/sh", "-c", RESET, "sh")), *argv)


@functools.cache
def _by_choom() -> tuple[str, ...]:
    """What to put before a command; nothing where choom(1) is missing or executes none, as where it
    cannot write the score."""
    choom = shutil.which("choom")
    if not choom:
        return ()
    prefix = (choom, "-n", "0", "--")
    try:
        done = subprocess.run(
            (*prefix, "true"), capture_output=True, timeout=TRIAL_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix if done.returncode == 0 else ()
