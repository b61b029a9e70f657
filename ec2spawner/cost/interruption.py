"""`cost.on_interruption(fn)`: a function that is called when AWS reclaims the machine."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

from . import agent
from .notice import INTERRUPTION, Notice

Function = TypeVar("Function", bound=Callable[[float], object])

PAUSE: Final = 2.0
"""Seconds between two readings of the agent, which itself polls EC2 every 5."""

MAX_FUNCTIONS: Final = 32


def on_interruption(function: Function) -> Function:
    """Call `function(seconds_left)` once at each spot notice, in a thread of its own.

    Also a decorator. It may take until the machine ends, about two minutes after the notice; what
    it raises is printed, and one that hangs delays nothing. It runs beside the user's code, so it
    must not change what that is using: write files, upload, send a message, or set a flag that a
    loop reads. A notice that AWS withdraws and gives again is another one.

    A function of the same name and module replaces the earlier one, so that a cell may run again.
    Without an agent nothing is called. Raises `ValueError` beyond `MAX_FUNCTIONS`.
    """
    _watch.add(function)
    return function


class _Watch:
    """The registered functions, and the thread that calls them."""

    def __init__(self) -> None:
        self._functions: dict[object, Callable[[float], object]] = {}
        self._called = False
        """Whether they were called for the notice that holds now."""
        self._thread: threading.Thread | None = None

    def add(self, function: Callable[[float], object]) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called")
        key = _key(function)
        if key not in self._functions and len(self._functions) >= MAX_FUNCTIONS:
            raise ValueError(f"at most {MAX_FUNCTIONS} functions are called at an interruption")
        self._functions[key] = function
        # In a forked child the parent's thread is not alive.
        if agent.is_there() and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(
                target=self._run, name="ec2spawner-interruption", daemon=True
            )
            self._thread.start()

    def see(self, reading: agent.Reading) -> None:
        """Call the functions if this is the first reading of a notice."""
        notice = reading.notice
        if notice is not None and notice.trigger == INTERRUPTION:
            if not self._called:
                self._call(notice)
            self._called = True
        elif reading.why != agent.NO_RESPONSE:  # an agent that restarts has withdrawn nothing
            self._called = False

    def _run(self) -> None:
        while True:
            self.see(agent.read_now())
            time.sleep(PAUSE)

    def _call(self, notice: Notice) -> None:
        for function in list(self._functions.values()):
            threading.Thread(
                target=_run_function,
                args=(function, notice),
                name="ec2spawner-on-interruption",
                daemon=True,
            ).start()


def _run_function(function: Callable[[float], object], notice: Notice) -> None:
    try:
        function(max(notice.until - time.time(), 0.0))
    except BaseException:
        sys.stderr.write("ec2spawner: a function of cost.on_interruption failed\n")
        traceback.print_exc()


def _key(function: Callable[[float], object]) -> object:
    """Its name and module; of a lambda or an object the thing itself."""
    name = getattr(function, "__qualname__", "")
    if not name or name.endswith("<lambda>") or getattr(function, "__self__", None) is not None:
        return id(function)
    return getattr(function, "__module__", ""), name


_watch = _Watch()
