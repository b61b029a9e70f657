"""Children that end with the process that started them, even if it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>."""


def end_with_parent() -> Callable[[], None]:
    """For `preexec_fn`: the child gets SIGTERM when this process ends, be it by SIGKILL.

    It runs between fork and exec, where a lock of another thread would stay locked: so
    it makes system calls only, and what it calls is found before the fork.
    """
    prctl, our_id = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != our_id:  # we ended before the child could ask
            os.kill(os.getpid(), signal.SIGTERM)

    return ask
