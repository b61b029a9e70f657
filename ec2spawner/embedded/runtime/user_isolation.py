"""Whether instances can have users of their own: only root may give them some."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

TRIAL_TIMEOUT = 20.0
"""Seconds for an import of JupyterHub, which takes one or two."""

_PROGRAM: Final = "import os, sys, ec2spawner, jupyterhub; os.chdir(sys.argv[1])"


def can_work_in(folder: Path, user_id: int, python: str = sys.executable) -> bool:
    """Whether a process of this user can run this Python, with the hub's packages, and reach the
    folder. Blocks. False unless this process is root.
    """
    if os.geteuid() != 0:
        return False
    try:
        trial = subprocess.run(
            [python, "-c", _PROGRAM, str(folder)],
            cwd="/",  # where we are may be closed to them
            env={"PATH": os.defpath, "HOME": "/nonexistent"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user_id,
            group=user_id,
            extra_groups=[],
            timeout=TRIAL_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return trial.returncode == 0
