"""A time limit for code in this process.

A timer's signal raises `TimeUp` in the main thread, again and again until the code has ended:
`except:` in a loop does not outlast it. Code that never returns to Python, such as a system call
on a disk that hangs, does: so only what is known to return runs here.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

REPEAT_SECONDS: Final = 0.1

T = TypeVar("T")


class TimeUp(BaseException):
    """Raised in the code. No Exception, so that `except Exception` does not catch it."""


class Late(Exception):
    """The code was ended by the limit."""


def is_possible() -> bool:
    """Whether this thread can have a limit: signals are handled in the main thread only."""
    return threading.current_thread() is threading.main_thread()


def limited(work: Callable[[], T], seconds: float) -> T:
    """What `work` returns. Raises Late after so many seconds, and whatever `work` raises.

    Without a limit in threads that cannot have one. A timer and a handler of the user's are as
    they were afterwards, but for the time that has passed.
    """
    if seconds <= 0:
        raise Late
    if not is_possible():
        return work()
    is_armed = True

    def raise_if_armed(*_: Any) -> None:
        if is_armed:
            raise TimeUp

    before = signal.signal(signal.SIGALRM, raise_if_armed)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
    try:
        try:
            return work()
        finally:
            is_armed = False
    except TimeUp:
        raise Late from None
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(TypeError):  # the handler was not installed by Python
            signal.signal(signal.SIGALRM, before)
        if timer[0]:
            signal.setitimer(signal.ITIMER_REAL, *timer)
