"""The Python of the image below that of the kernel."""

from __future__ import annotations

import sys
from pathlib import Path


def image_python() -> str:
    """The Python whose packages this kernel sees beside its own; empty if it has none.

    A kernel runs in an environment of its user's home, which extends one of the image. Workers have
    the image, and not always the home.
    """
    own = Path(sys.prefix)
    for folder in map(Path, sys.path):
        # Such as /opt/pytorch/lib/python3.12/site-packages.
        if folder.match("*/lib/*/site-packages") and not folder.is_relative_to(own):
            python = folder.parents[2] / "bin" / "python"
            if python.exists():
                return str(python)
    return ""
