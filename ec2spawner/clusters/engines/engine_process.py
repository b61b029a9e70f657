"""The engine's process on the notebook's instance: it outlives the kernel that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..errors import ClusterError
from ..run_folder import Record, started_at

START_SECONDS: Final = 120.0
"""For an engine to start: on a new disk its files are read slowly."""

STOP_SECONDS: Final = 10.0
"""From SIGTERM to SIGKILL."""

KILL_SECONDS: Final = 10.0
"""For a killed engine to end: one that waits for a disk is left after that."""

TAIL: Final = 2000
"""Characters of the log that an error shows."""


def start_patiently(
    argv: Sequence[str], environment: Mapping[str, str], log: Path, started: str, attempts: int
) -> int:
    """As `start`, tried so many times: on a new disk the first one may be too slow for an engine
    with a timeout of its own."""
    for _ in range(attempts - 1):
        try:
            return start(argv, environment, log, started)
        except ClusterError:
            continue
    return start(argv, environment, log, started)


def start(argv: Sequence[str], environment: Mapping[str, str], log: Path, started: str) -> int:
    """Start an engine in a session of its own and return its pid once its log has the text
    `started`. Raises `ClusterError` if it ends or takes too long."""
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as output:
        process = subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        if _has_started(process, log, started):
            return process.pid
    except BaseException:  # an interrupted cell leaves nothing behind
        _end(process.pid)
        raise
    _end(process.pid)
    words = log.read_text(encoding="utf-8", errors="replace")[-TAIL:]
    raise ClusterError(f"The engine did not start on this machine. It printed last:\n{words}")


def _has_started(process: subprocess.Popen[bytes], log: Path, started: str) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if started in log.read_text(encoding="utf-8", errors="replace"):
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.1)
    return False


def stop(record: Record) -> None:
    """End an engine, and with it the processes that it started."""
    if started_at(record.pid) == record.started:
        _end(record.pid)


def _end(pid: int) -> None:
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number) if number is signal.SIGTERM else os.killpg(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            if started_at(pid) is None:
                return
            time.sleep(0.05)
