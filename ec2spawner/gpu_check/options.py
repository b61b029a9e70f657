"""Options of `ec2spawner gpu-check`."""

from __future__ import annotations

import argparse


def gpu_check_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that the command and `python -m` share."""
    parser.add_argument(
        "--short",
        action="store_true",
        help="only copies and memory, without matrix products: under three seconds",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")
