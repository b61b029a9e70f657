"""`ec2spawner`: what an admin types."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    arguments, for_the_hub = parse(argv)
    if arguments.command == "check":
        from .check.command import run_check

        return run_check(arguments, for_the_hub)
    if arguments.command == "prices":
        from .survey.command import run_prices

        return run_prices(arguments, for_the_hub)

    from .embedded.demo import run_demo

    return run_demo(arguments, for_the_hub)


def parse(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what is JupyterHub's: never taken for an abbreviation of ours."""
    parser = argparse.ArgumentParser(prog="ec2spawner", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for_the_hub = "Other options go to JupyterHub, such as --EC2Spawner.region=eu-west-1."
    _demo(commands.add_parser("demo", allow_abbrev=False, help=_DEMO, epilog=for_the_hub))
    _check(commands.add_parser("check", allow_abbrev=False, help=_CHECK, epilog=for_the_hub))
    _prices(commands.add_parser("prices", allow_abbrev=False, help=_PRICES, epilog=for_the_hub))
    return parser.parse_known_args(argv)


_DEMO = "the whole journey on this machine, with an embedded EC2 and no AWS account"
_CHECK = "prove that a hub's configuration will work, without starting or changing anything"
_PRICES = "what each profile costs, by region, market and zone"


def _demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--data-dir", help="where homes and databases stay between two demos")
    demo.add_argument("--port", type=int, default=8000, help="of the hub (0: any free one)")
    demo.add_argument(
        "--boot-seconds", type=float, default=8.0, help="how long an instance takes to boot"
    )
    demo.add_argument("--config", help="another jupyterhub_config.py")
    demo.add_argument("--json", action="store_true", help="one line of JSON when all answers")


def _check(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "--config", default="jupyterhub_config.py", help="the hub's own file (default: %(default)s)"
    )
    check.add_argument("--json", action="store_true", help="the findings as one line of JSON")


def _prices(prices: argparse.ArgumentParser) -> None:
    prices.add_argument(
        "--config", help="a hub's jupyterhub_config.py: its profiles and region; else the defaults"
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
