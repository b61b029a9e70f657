"""`ec2spawner`: what an admin types."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import iri_grammar
from .gpu_check.options import gpu_check_options

STOPPED = 130
"""Exit status after Ctrl-C, as of a shell."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments, for_the_hub = parse(argv)
    if arguments.command == "demo":
        from .embedded.demo import run_demo

        return run_demo(arguments, for_the_hub)
    try:
        return _ask(arguments, for_the_hub)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nec2spawner {arguments.command}: stopped\n")
        sys.stderr.flush()
        # Nothing is left to tidy up, and Python would wait for the threads that wait for AWS.
        os._exit(STOPPED)


def _ask(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    if arguments.command == "gpu-check":
        from .gpu_check.command import run_gpu_check

        return run_gpu_check(arguments)
    iri_grammar.defer()
    if arguments.command == "check":
        from .check.command import run_check

        return run_check(arguments, for_the_hub)
    if arguments.command == "reap":
        from .reap.command import run_reap

        return run_reap(arguments, for_the_hub)
    from .survey.command import run_prices

    return run_prices(arguments, for_the_hub)


def parse(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what is JupyterHub's: never taken for an abbreviation of ours."""
    parser = argparse.ArgumentParser(prog="ec2spawner", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    epilog = "Other options go to JupyterHub, such as --EC2Spawner.region=eu-west-1."
    _demo(commands.add_parser("demo", allow_abbrev=False, help=_DEMO, epilog=epilog))
    _check(commands.add_parser("check", allow_abbrev=False, help=_CHECK, epilog=epilog))
    _prices(commands.add_parser("prices", allow_abbrev=False, help=_PRICES, epilog=epilog))
    _reap(commands.add_parser("reap", allow_abbrev=False, help=_REAP, epilog=epilog))
    gpu_check_options(commands.add_parser("gpu-check", allow_abbrev=False, help=_GPU_CHECK))
    arguments, for_the_hub = parser.parse_known_args(argv)
    if arguments.command == "gpu-check" and for_the_hub:
        parser.error(f"unrecognized arguments: {' '.join(for_the_hub)}")
    if arguments.command != "demo" and for_the_hub and not for_the_hub[0].startswith("-"):
        parser.error(f"there is no place for {for_the_hub[0]}; a file is --config={for_the_hub[0]}")
    return arguments, for_the_hub


_DEMO = "the whole journey on this machine, with an embedded EC2 and no AWS account"
_CHECK = "prove that a hub's configuration will work, without starting or changing anything"
_PRICES = "what each profile costs, by region, market and zone"

_GPU_CHECK = "measure this machine's GPUs: are they as fast as they should be?"
_REAP = "what a hub left in the account and nobody needs; ends it only with --yes"


def _demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--data-dir", help="where homes and databases stay between two demos")
    demo.add_argument("--port", type=int, default=8000, help="of the hub (0: any free one)")
    demo.add_argument(
        "--boot-seconds", type=float, default=8.0, help="how long an instance takes to boot"
    )
    demo.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name than localhost under which a browser reaches the hub; may be repeated",
    )
    demo.add_argument("--config", help="another jupyterhub_config.py")
    demo.add_argument("--json", action="store_true", help="one line of JSON when all answers")


def _check(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "-f",
        "--config",
        default="jupyterhub_config.py",
        help="the hub's own file (default: %(default)s)",
    )
    check.add_argument("--json", action="store_true", help="the findings as one line of JSON")


def _reap(reap: argparse.ArgumentParser) -> None:
    reap.add_argument(
        "-f",
        "--config",
        default="jupyterhub_config.py",
        help="the hub's own file (default: %(default)s)",
    )
    reap.add_argument("--yes", action="store_true", help="end it; without this, only look")
    reap.add_argument(
        "--older-than",
        type=float,
        default=10.0,
        metavar="MINUTES",
        help="younger things stay: a hub may be just using them (default: %(default)g)",
    )
    reap.add_argument(
        "--store",
        default="",
        metavar="ID",
        help="a store that is lost for good: what it made ends too, homes never. Make sure that "
        "no other hub uses it",
    )
    reap.add_argument("--json", action="store_true", help="one line of JSON")


def _prices(prices: argparse.ArgumentParser) -> None:
    prices.add_argument(
        "-f",
        "--config",
        help="a hub's jupyterhub_config.py: its profiles and region; else the defaults",
    )
    prices.add_argument(
        "--region", action="append", default=[], help="a region to look at; may be repeated"
    )
    prices.add_argument(
        "--allow-region",
        action="append",
        default=[],
        help="a region that may be used; may be repeated. No other is looked at, and without "
        "--region all of these are",
    )
    prices.add_argument(
        "--latency", action="store_true", help="measure how far each region is from this machine"
    )
    shape = prices.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one line of JSON")
    shape.add_argument("--csv", action="store_true", help="comma-separated values")
