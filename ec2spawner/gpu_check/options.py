"""What `ec2spawner gpu-check` can be told."""

from __future__ import annotations

import argparse


def gpu_check_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that the command and `python -m` share."""
    parser.add_argument(
        "--short",
        action="store_true",
        help="copies and memory alone, without matrix products: under three seconds",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")
