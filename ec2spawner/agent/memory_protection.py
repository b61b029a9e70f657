"""Protects the agent's memory, which holds its key and the lease token, from other processes, and
the agent from the kernel's OOM killer, but nothing that it starts."""

from __future__ import annotations

import ctypes
import logging
import os
from typing import Final

RESET_OOM_SCORE: Final = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@"'
"""A process inherits what `OOMScoreAdjust` gives the agent, and may raise it without privileges."""

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

    The agent's own protection would otherwise pass to whatever uses up the memory.
    """
    return ("/bin/sh", "-c", RESET_OOM_SCORE, "sh", *argv)
