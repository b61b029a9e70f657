"""`ec2spawner`: what an admin types."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    arguments, for_the_hub = parse(argv)

    from .embedded.demo import run_demo

    return run_demo(arguments, for_the_hub)


def parse(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what is JupyterHub's: never taken for an abbreviation of ours."""
    parser = argparse.ArgumentParser(prog="ec2spawner", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        allow_abbrev=False,
        help="the whole journey on this machine, with an embedded EC2 and no AWS account",
        epilog='Other options go to JupyterHub, such as --EC2Spawner.idle=\'{"server": "5m"}\'.',
    )
    demo.add_argument("--data-dir", help="where homes and databases stay between two demos")
    demo.add_argument("--port", type=int, default=8000, help="of the hub (0: any free one)")
    demo.add_argument(
        "--boot-seconds", type=float, default=8.0, help="how long an instance takes to boot"
    )
    demo.add_argument("--config", help="another jupyterhub_config.py")
    demo.add_argument("--json", action="store_true", help="one line of JSON when all answers")
    return parser.parse_known_args(argv)
