"""In a server, and in its kernels as their `sitecustomize`: at the nth change of the folder of
sleep, of all processes together, the machine "ends": server, kernels and their children at once.

Counts only while the file `armed` is in the folder of `EC2SPAWNER_TEST_KILL`; it has the number.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("EC2SPAWNER_TEST_KILL", "")
CHANGES = frozenset({"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir"})


def _append(name: str, content: bytes) -> int:
    """The size of the file then."""
    number = os.open(f"{FOLDER}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(number, content)
        return os.lseek(number, 0, os.SEEK_CUR)
    finally:
        os.close(number)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
    if not (is_write or event in CHANGES):
        return
    if not any("/.ec2spawner/sleep/" in str(each) for each in arguments[:2]):
        return
    try:
        at = int(Path(FOLDER, "armed").read_text())
    except OSError:
        return
    if _append("count", b".") == at:
        mine = os.getpgid(0)
        groups = {int(each) for each in Path(FOLDER, "groups").read_text().split()}
        for group in [*(groups - {mine}), mine]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


if FOLDER:
    _append("groups", f"{os.getpgid(0)}\n".encode())
    sys.addaudithook(_watch)
