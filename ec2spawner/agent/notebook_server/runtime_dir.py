"""Jupyter's runtime directory outside the home, so that a full home does not stop a start.

Jupyter Server ends, and no kernel starts, where it cannot write there: its cookie secret, what it
listens on, the connection files and IPC sockets of kernels. By default it is in the home,
`~/.local/share/jupyter/runtime`.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from ..settings import NotebookUser

log = logging.getLogger(__name__)

RUNTIME_DIR: Final = "JUPYTER_RUNTIME_DIR"
"""The variable by which Jupyter finds it."""

NAME: Final = "jupyter"


def make_runtime_dir(run_dir: Path, user: NotebookUser) -> Path | None:
    """An empty folder that only the notebook user may enter; None if there is room for none.

    It is in the run directory, which is in memory: neither a full home nor a full system disk
    matters. Where that is full, it is in the folder of temporary files. Blocks.
    """
    try:
        folder = _make(run_dir / NAME)
        if not user.is_agent:
            os.chown(folder, user.uid, user.gid)
    except OSError as error:
        log.error("Jupyter's runtime directory is in the home: %s", error)
        return None
    return folder


def _make(folder: Path) -> Path:
    """Raises `OSError`."""
    try:
        remove_runtime_dir(folder)  # of an earlier lease
        folder.mkdir(mode=0o700)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="ec2spawner-jupyter-"))
    return folder


def remove_runtime_dir(folder: Path | None) -> None:
    """Delete it with the keys of kernels: the user's processes have ended. Blocks."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
