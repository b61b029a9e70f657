"""`ec2spawner gpu-check`: exit status 0, 1 for a slow or broken GPU, 2 if no conclusive figure
could be measured."""

from __future__ import annotations

import argparse
import os
import sys

from .figures import Figures
from .measure import FULL, SHORT, measure
from .report import as_json, print_report
from .verdict import Verdict, judge

NO_TF32: dict[str, str] = {
    "NVIDIA_TF32_OVERRIDE": "0",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "0",
    "CUPY_TF32": "0",
}
"""Turns TF32 off for FP32 products. CUDA's libraries read these when they are loaded."""


def run_gpu_check(arguments: argparse.Namespace) -> int:
    """Measure, print table or JSON, and return the verdict's exit status."""
    os.environ.update(NO_TF32)

    def hung(figures: Figures) -> None:
        # The main thread is blocked in the driver, which would block an ordinary exit too.
        status = _show(figures, arguments.json).exit_status
        sys.stdout.flush()
        os._exit(status)

    figures = measure(SHORT if arguments.short else FULL, hung)
    return _show(figures, arguments.json).exit_status


def _show(figures: Figures, in_json: bool) -> Verdict:
    verdict = judge(figures)
    if in_json:
        print(as_json(figures, verdict), flush=True)
    else:
        from rich.console import Console

        print_report(verdict, Console())
    return verdict
