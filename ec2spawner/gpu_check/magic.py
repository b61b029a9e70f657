"""`%gpu_check` in a notebook."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

from rich.console import Console

from .report import from_json, print_report
from .verdict import judge

NAME: Final = "gpu_check"

SECONDS: Final = 180.0
"""PyTorch from a cold disk takes a minute; eight GPUs take some seconds each."""

WIDTH: Final = 100
"""Columns, as wide as a notebook's output at least is."""


def gpu_check(line: str = "") -> None:
    """Is this machine as fast as it should be? `%gpu_check`, or `%gpu_check --short`.

    Measures in a process of its own, so that no CUDA context stays behind in this kernel. What
    this kernel holds of the GPU's memory stays where it is.
    """
    options = line.split()
    if not set(options) <= {"--short"}:
        print("%gpu_check takes --short and nothing else")
        return
    argv = [sys.executable, "-P", "-m", "ec2spawner.gpu_check", "--json", *options]
    try:
        said = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
        figures = from_json((said.stdout.splitlines() or [""])[-1])
    except subprocess.TimeoutExpired:
        print(f"Could not be measured: it took more than {SECONDS:.0f} seconds.")
    except ValueError:
        last = (said.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"Could not be measured: {last}")
    else:
        print_report(judge(figures), Console(width=WIDTH))


def load(shell: Any) -> None:
    shell.register_magic_function(gpu_check, "line", NAME)


def unload(shell: Any) -> None:
    shell.magics_manager.magics["line"].pop(NAME, None)
