"""The agent's memory holds its key and the lease token: closed to other processes of its user."""

from __future__ import annotations

import ctypes
import logging
import os

log = logging.getLogger(__name__)

PR_SET_DUMPABLE = 4
"""From <linux/prctl.h>."""


def close_to_others() -> None:
    """No process but root's may read this one's memory and environment, and none gets a core dump.

    A program that is executed from here on is open again.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log.warning("the agent's memory is not closed: %s", os.strerror(ctypes.get_errno()))
