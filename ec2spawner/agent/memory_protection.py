"""Protects the agent's memory, which holds its key and the lease token, from other processes, and
the agent from the kernel's OOM killer, but nothing that it starts."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
from pathlib import Path
from typing import Final

OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
"""What `OOMScoreAdjust` sets. Children inherit it, and may raise it without privileges."""

RESET: Final = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@"'
"""Without choom(1) of util-linux. A shell drops variables whose names are none of its own."""

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
    if choom := shutil.which("choom"):
        return (choom, "-n", "0", "--", *argv)
    return ("/bin/sh", "-c", RESET, "sh", *argv)
