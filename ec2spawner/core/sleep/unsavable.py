"""What no sleep can save, by the full name of its class, in a person's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNSAVABLE: Final[Mapping[str, str]] = {
    "_asyncio.Future": "a task",
    "_asyncio.Task": "a task",
    "_io.BufferedRandom": "an open file",
    "_io.BufferedReader": "an open file",
    "_io.BufferedWriter": "an open file",
    "_io.FileIO": "an open file",
    "_io.TextIOWrapper": "an open file",
    "asyncio.futures.Future": "a task",
    "asyncio.tasks.Task": "a task",
    "builtins.async_generator": "a generator",
    "builtins.coroutine": "a coroutine",
    "builtins.frame": "a running function",
    "builtins.generator": "a generator",
    "builtins.traceback": "a traceback",
    "concurrent.futures.process.ProcessPoolExecutor": "a pool of processes",
    "concurrent.futures.thread.ThreadPoolExecutor": "a pool of threads",
    "IPython.core.interactiveshell.InteractiveShell": "IPython itself",
    "ipykernel.iostream.OutStream": "an output stream",
    "mmap.mmap": "an open file",
    "multiprocessing.pool.Pool": "a pool of processes",
    "multiprocessing.pool.ThreadPool": "a pool of threads",
    "psycopg2.extensions.connection": "a database connection",
    "psycopg2.extensions.cursor": "a database connection",
    "socket.socket": "a network connection",
    "sqlalchemy.engine.base.Connection": "a database connection",
    "sqlalchemy.engine.base.Engine": "a database connection",
    "sqlite3.Connection": "a database connection",
    "sqlite3.Cursor": "a database connection",
    "ssl.SSLSocket": "a network connection",
    "subprocess.Popen": "a process",
    "tempfile._TemporaryFileWrapper": "an open file",
    "threading.Thread": "a thread",
    "weakref.finalize": "a finalizer",
    "zmq.sugar.context.Context": "a network connection",
    "zmq.sugar.socket.Socket": "a network connection",
}
"""What dill would save as something that is not what it was, or fails at late. A file, above all:
one that is opened again for writing would be emptied."""

KINDS: Final = frozenset(UNSAVABLE.values())
"""The words. Pages show a kernel's only where they are among these."""


def cannot_be_saved(code: str, detail: str) -> str:
    """`a generator cannot be saved`, for the code and detail of a variable that is lost; empty for
    other reasons."""
    return f"{detail} cannot be saved" if code == "not-storable" and detail in KINDS else ""
