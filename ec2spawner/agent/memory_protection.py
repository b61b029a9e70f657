"""Protects the agent's memory, which holds its key and the lease token, from other processes."""

from __future__ import annotations

import ctypes
import logging
import os

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
