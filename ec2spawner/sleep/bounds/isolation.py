"""Keeping what a throw-away copy does inside its process.

Python's audit events say what code is about to do: a copy that is loaded to be looked at must not
start a process or a thread, nor reach the network or anybody's files.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

ACTS: Final = {
    "os.chmod": "changes files",
    "os.chown": "changes files",
    "os.exec": "starts a program",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.kill": "sends a signal",
    "os.killpg": "sends a signal",
    "os.link": "changes files",
    "os.mkdir": "changes files",
    "os.posix_spawn": "starts a program",
    "os.remove": "changes files",
    "os.rename": "changes files",
    "os.rmdir": "changes files",
    "os.spawn": "starts a program",
    "os.symlink": "changes files",
    "os.system": "starts a program",
    "os.truncate": "changes files",
    "os.utime": "changes files",
    "shutil.rmtree": "changes files",
    "socket.__new__": "uses the network",
    "socket.bind": "uses the network",
    "socket.connect": "uses the network",
    "socket.getaddrinfo": "uses the network",
    "socket.sendto": "uses the network",
    "sqlite3.connect": "opens a database",
    "subprocess.Popen": "starts a program",
    "webbrowser.open": "opens a page",
}
"""Audit events, and what they are in words; from the table in Python's documentation."""

THREADS: Final = (
    "_start_joinable_thread",
    "_start_new_thread",
    "start_joinable_thread",
    "start_new_thread",
)
"""What starts a thread, in `_thread` and as `threading` imports it."""

WRITES: Final = os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ActsOutside(BaseException):
    """Code was about to do something outside its process: what."""


@contextlib.contextmanager
def scratch() -> Iterator[Callable[[], None]]:
    """What prepares a child to load a copy, in a folder that is removed afterwards. Raises OSError
    where there is no room for one."""
    with tempfile.TemporaryDirectory(prefix="ec2spawner-") as folder:

        def prepare() -> None:
            disarm()
            isolate(folder)

        yield prepare


def isolate(folder: str) -> None:
    """From now on, code of this process that acts outside it gets ActsOutside, but in `folder`,
    where it runs. There is no way back: this is for a child that ends soon."""
    os.chdir(folder)
    sys.dont_write_bytecode = True
    begin = os.path.realpath(folder) + os.sep

    def is_inside(path: Any) -> bool:
        try:
            found = os.path.realpath(os.fsdecode(path))
            return found.startswith(begin) or found == os.devnull
        except (OSError, TypeError, ValueError):
            return False

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if type(flags) is int and flags & WRITES and not is_inside(path):
                raise ActsOutside("writes files")
        elif (what := ACTS.get(event)) and not (what == "changes files" and is_inside(args[0])):
            raise ActsOutside(what)

    sys.addaudithook(audit)
    for module in (_thread, threading):  # of a thread, Python 3.11 has no event
        for name in THREADS:
            if hasattr(module, name):
                setattr(module, name, _start_thread)


def _start_thread(*_: Any, **__: Any) -> None:
    raise ActsOutside("starts a thread")


def disarm() -> None:
    """Let no destructor, hook or callback of this process's classes run any more."""
    sys.unraisablehook = sys.__unraisablehook__
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    for kind in _classes():
        if "__del__" in type.__dict__["__dict__"].__get__(kind):
            try:
                type.__delattr__(kind, "__del__")
            except TypeError:  # one of C
                continue


def _classes() -> Iterator[type]:
    seen: set[int] = {id(object)}
    waiting = [object]
    while waiting:
        for each in type.__subclasses__(waiting.pop()):
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
                yield each
