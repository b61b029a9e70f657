"""`python -m ec2spawner.gpu_check`: the check by itself, in the Python that runs it."""

from __future__ import annotations

import argparse
import sys

from .command import run_gpu_check
from .options import gpu_check_options


def main() -> int:
    """The check as a process of its own; returns the exit status of its verdict."""
    parser = argparse.ArgumentParser(prog="python -m ec2spawner.gpu_check", description=__doc__)
    gpu_check_options(parser)
    return run_gpu_check(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
