"""Builds a small C library that stands in for one of NVIDIA's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def build(source: Path, library: Path) -> None:
    """Raises `RuntimeError` where there is no C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError(
            "The tests of NVIDIA's GPUs build a small library and need a C compiler: install "
            "one (on Debian and Ubuntu: apt-get install gcc libc6-dev) and run them again."
        )
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", library, source], check=True)
