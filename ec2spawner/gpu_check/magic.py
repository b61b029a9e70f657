"""`%gpu_check` in a notebook."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console

from .report import from_json, print_report
from .verdict import judge

NAME: Final = "gpu_check"

SECONDS: Final = 180.0
"""PyTorch from a cold disk takes a minute; eight GPUs take some seconds each."""

END_SECONDS: Final = 2.0
"""For a check that is ended early."""

WIDTH: Final = 72
"""Columns: as many as fit beside both sidebars of JupyterLab in a window of 1280 pixels."""


def gpu_check(line: str = "") -> None:
    """Is this machine as fast as it should be? `%gpu_check`, or `%gpu_check --short`.

    Measures in a process of its own, so that no CUDA context stays behind in this kernel, which
    keeps the GPU memory that it holds.
    """
    options = line.split()
    if not set(options) <= {"--short"}:
        print("%gpu_check takes --short and nothing else")
        return
    try:
        said, complained = _check(options)
        figures = from_json((said.splitlines() or [""])[-1])
    except subprocess.TimeoutExpired:
        print(f"Could not be measured: it took more than {SECONDS:.0f} seconds.")
    except ValueError:
        last = (complained.strip().splitlines() or ["it said nothing"])[-1]
        print(f"Could not be measured: {last}")
    else:
        print_report(judge(figures), Console(width=WIDTH))


def _check(options: Sequence[str]) -> tuple[str, str]:
    """What the check writes to its two outputs. Raises `subprocess.TimeoutExpired`."""
    check = subprocess.Popen(
        [sys.executable, "-P", "-m", "ec2spawner.gpu_check", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        return check.communicate(timeout=SECONDS)
    except BaseException:
        check.kill()
        # With a timeout: a driver that hangs delays its end, and must not block the kernel.
        with contextlib.suppress(subprocess.TimeoutExpired):
            check.communicate(timeout=END_SECONDS)
        raise


def load(shell: Any) -> None:
    """Register `%gpu_check`."""
    shell.register_magic_function(gpu_check, "line", NAME)


def unload(shell: Any) -> None:
    """Remove `%gpu_check`; does nothing if it is not loaded."""
    shell.magics_manager.magics["line"].pop(NAME, None)
