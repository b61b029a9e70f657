"""Options of a rehearsal."""

from __future__ import annotations

import argparse


def rehearsal_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of `ec2spawner plan`."""
    parser.add_argument(
        "--rehearse",
        type=int,
        metavar="NUMBER",
        help="after the plan, start so many servers for real, stop them, and report times and "
        "cost; 0 only removes what earlier rehearsals have left",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1200.0,
        metavar="SECONDS",
        help="of a rehearsal: after which a start has failed (default: %(default)g)",
    )
    parser.add_argument(
        "--even-if-short",
        action="store_true",
        help="of a rehearsal: begin although the plan says that so many cannot start",
    )
    parser.add_argument("--yes", action="store_true", help="of a rehearsal: begin without asking")
