"""Where the checkpoints of a loop are, and that one process at a time writes there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Final

from .record import CheckpointError

ROOT: Final = Path(".ec2spawner/checkpoints")
"""Below the home."""

NOTEBOOK: Final = "JPY_SESSION_NAME"
"""Jupyter Server sets it for each kernel to the notebook's path."""

RUN: Final = "EC2SPAWNER_RUN"
"""On the instance of a run its number. Runs of one notebook may have different parameters, so each
has checkpoints of its own, which all its attempts share."""

UNNAMED: Final = "loop"


def notebook_path() -> str:
    """The notebook that this kernel runs for; empty in a script, and where it is not known."""
    return "" if _script() else os.environ.get(NOTEBOOK, "")


def key(name: str) -> str:
    """Folder of the loop below the place of all checkpoints: of its notebook or script, and its
    name."""
    document = _script() or notebook_path() or "interactive"
    run = os.environ.get(RUN, "")
    if run.isascii() and run.isdecimal():
        # By the name alone: where the home is mounted may differ between its instances.
        return f"run-{run}-{_slug(Path(document).name)}/{_slug(name or UNNAMED)}"
    return f"{_slug(document)}/{_slug(name or UNNAMED)}"


def home() -> Path:
    """The place of all checkpoints unless another one is given."""
    return Path.home() / ROOT


def _script() -> str:
    """The script's path: first, because a script that a notebook starts inherits its variables."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(file).resolve()) if file else ""


def _slug(text: str) -> str:
    """A readable file name; two texts never share one."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(text).name).strip("-")[:40]
    if plain == text:
        return plain
    return f"{plain or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


class Lock:
    """Held by one process for a folder, and released by the kernel with its end.

    A POSIX lock: a forked child, such as a data loader's worker, does not inherit it. It must not
    be opened twice in a process, because closing either file releases it.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            owner = os.pread(self._file, 20, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise CheckpointError(
                f"process {owner or '?'} already runs this loop: stop that one, for example by "
                "shutting down its kernel, or give this loop a name of its own"
            ) from error
        except OSError:
            return  # a file system without locks
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the folder free."""
        os.close(self._file)
