"""`ec2spawner`: what an admin types."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import __version__, iri_grammar
from .cli_help import SUMMARIES, description, epilog
from .gpu_check.options import gpu_check_options
from .load_test.options import load_test_options
from .plan.rehearsal.options import rehearsal_options
from .runs.commands.options import run_options, runs_options

STOPPED = 130
"""Exit status after Ctrl-C, as of a shell."""


WITHOUT_HUB_OPTIONS = frozenset({"gpu-check", "interrupt", "load-test", "pool", "run", "runs"})
"""Commands that read no configuration of a hub."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of `ec2spawner`; returns its exit status, 130 after Ctrl-C."""
    arguments, for_the_hub = parse(argv)
    if arguments.command == "demo":
        from .embedded.demo.demo import run_demo

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
    if arguments.command == "run":
        from .runs.commands.command import run_run

        return run_run(arguments)
    if arguments.command == "runs":
        from .runs.commands.overview_command import run_runs

        return run_runs(arguments)
    iri_grammar.defer()
    if arguments.command == "check":
        from .check.command import run_check

        return run_check(arguments, for_the_hub)
    if arguments.command == "interrupt":
        from .interrupt.command import run_interrupt

        return run_interrupt(arguments)
    if arguments.command == "pool":
        from .pool.command import run_pool

        return run_pool(arguments)
    if arguments.command == "load-test":
        from .load_test.command import run_load_test

        return run_load_test(arguments)
    if arguments.command == "reap":
        from .reap.command import run_reap

        return run_reap(arguments, for_the_hub)
    if arguments.command == "report":
        from .report.command import run_report

        return run_report(arguments, for_the_hub)
    if arguments.command == "first-light":
        from .first_light.command import run_first_light

        return run_first_light(arguments, for_the_hub)
    if arguments.command == "plan":
        from .plan.command import run_plan

        return run_plan(arguments, for_the_hub)
    from .prices.command import run_prices

    return run_prices(arguments, for_the_hub)


def parse(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what is JupyterHub's: never taken for an abbreviation of ours."""
    parser = command_line()
    arguments, for_the_hub = parser.parse_known_args(argv)
    if arguments.command in WITHOUT_HUB_OPTIONS and for_the_hub:
        parser.error(f"unrecognized arguments: {' '.join(for_the_hub)}")
    if arguments.command != "demo" and for_the_hub and not for_the_hub[0].startswith("-"):
        parser.error(f"there is no place for {for_the_hub[0]}; a file is --config={for_the_hub[0]}")
    return arguments, for_the_hub


def command_line() -> argparse.ArgumentParser:
    """All commands and options, for the documentation too."""
    parser = argparse.ArgumentParser(prog="ec2spawner", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    options_of = {
        "demo": _demo,
        "check": _check,
        "first-light": _first_light,
        "prices": _prices,
        "plan": _plan,
        "reap": _reap,
        "report": _report,
        "interrupt": _interrupt,
        "pool": _pool,
        "load-test": load_test_options,
        "run": run_options,
        "runs": runs_options,
        "gpu-check": gpu_check_options,
    }
    for name, add_options in options_of.items():
        add_options(
            commands.add_parser(
                name,
                allow_abbrev=False,
                help=SUMMARIES[name],
                description=description(name),
                epilog=epilog(name),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser


def _demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--data-dir", help="folder of homes and databases, kept between demos")
    demo.add_argument("--port", type=int, default=8000, help="port of the hub (0: any free one)")
    demo.add_argument(
        "--boot-seconds", type=float, default=8.0, help="duration of an instance's boot"
    )
    demo.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name besides localhost under which browsers reach the hub; may be repeated",
    )
    demo.add_argument("--config", help="another jupyterhub_config.py")
    demo.add_argument(
        "--json", action="store_true", help="print one line of JSON when everything is ready"
    )


def _hub_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-f",
        "--config",
        default="jupyterhub_config.py",
        help="the hub's own file (default: %(default)s)",
    )


def _check(check: argparse.ArgumentParser) -> None:
    _hub_config(check)
    check.add_argument("--json", action="store_true", help="print the findings as one line of JSON")
    check.add_argument(
        "--fix",
        action="store_true",
        help="ask about each fix that is safe and free, make it with your own credentials, and "
        "check again",
    )
    check.add_argument("--yes", action="store_true", help="make every such fix without asking")
    check.add_argument(
        "--test-alarms",
        action="store_true",
        help="send a test message to each destination of c.EC2Spawner.alarms",
    )


def _first_light(first_light: argparse.ArgumentParser) -> None:
    _hub_config(first_light)
    first_light.add_argument(
        "--gpu", action="store_true", help="also start the cheapest instance with a GPU"
    )
    first_light.add_argument(
        "--max-usd",
        type=float,
        default=1.0,
        metavar="USD",
        help="the cap: refuse to begin, and stop, where it could cost more (default: %(default)g)",
    )
    first_light.add_argument(
        "--idle",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="the idle limit that stops the server (default: %(default)g)",
    )
    first_light.add_argument(
        "--output",
        default=".",
        metavar="FOLDER",
        help="where the bundle for a bug report is written (default: the current folder)",
    )
    first_light.add_argument("--json", action="store_true", help="one line of JSON at the end")


def _reap(reap: argparse.ArgumentParser) -> None:
    _hub_config(reap)
    reap.add_argument(
        "--yes", action="store_true", help="delete it; without this, nothing is changed"
    )
    reap.add_argument(
        "--older-than",
        type=float,
        default=10.0,
        metavar="MINUTES",
        help="keep younger resources: a hub may be using them (default: %(default)g)",
    )
    reap.add_argument(
        "--store",
        default="",
        metavar="ID",
        help="a lost store: delete its resources too, except homes. Make sure that no other hub "
        "uses it",
    )
    reap.add_argument("--json", action="store_true", help="one line of JSON")


def _interrupt(interrupt: argparse.ArgumentParser) -> None:
    interrupt.add_argument("server", metavar="SERVER", help="USER, or USER/NAME of a named server")
    _hub_of(interrupt)
    interrupt.add_argument(
        "--notice-seconds",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="until the instance ends, 120 to 900; AWS's notice comes two minutes before "
        "(default: %(default)g)",
    )
    interrupt.add_argument(
        "--yes", action="store_true", help="interrupt it; without this, nothing is changed"
    )


def _pool(pool: argparse.ArgumentParser) -> None:
    pool.add_argument(
        "action",
        nargs="?",
        choices=("show", "set", "clear"),
        default="show",
        metavar="ACTION",
        help="show it; set how many instances wait for a profile; or clear what was set",
    )
    pool.add_argument(
        "profile", nargs="?", default="", metavar="PROFILE", help="of set and clear: its slug"
    )
    pool.add_argument(
        "running", nargs="?", type=int, metavar="N", help="of set: how many instances wait running"
    )
    pool.add_argument(
        "--stopped",
        type=int,
        metavar="N",
        help="of set: how many wait stopped, with --market=on-demand; without it as configured",
    )
    pool.add_argument(
        "--until",
        default="",
        metavar="TIME",
        help="of set: until when, such as 18:00 in the hub's time_zone, or 2026-11-24T18:00+01:00; "
        "without it for a day",
    )
    pool.add_argument(
        "--market",
        choices=("spot", "on-demand"),
        default="",
        metavar="MARKET",
        help="of set: spot or on-demand; without it that of the configuration or of the profile",
    )
    _hub_of(pool)


def _hub_of(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hub",
        default="",
        metavar="URL",
        help="the hub's address; on a server of the hub it is known",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def _report(report: argparse.ArgumentParser) -> None:
    _hub_config(report)
    report.add_argument(
        "--from",
        dest="since",
        default="",
        metavar="DAY",
        help="the first day, such as 2026-11-01 (default: the first of the month; against Cost "
        "Explorer not more than 13 days ago; with --starts, six days ago)",
    )
    report.add_argument(
        "--to", dest="until", default="", metavar="DAY", help="the last day (default: today)"
    )
    report.add_argument(
        "--by",
        default="user",
        metavar="NAMES",
        help="what to group by, with commas between: user, group (who pays), profile, type, zone, "
        "day, market, server, resource, purpose, cause (default: %(default)s)",
    )
    report.add_argument("--user", default="", metavar="NAME", help="only the servers of this user")
    report.add_argument(
        "--starts",
        action="store_true",
        help="report how long starts took and in which phase, instead of what was spent",
    )
    report.add_argument(
        "--profile", default="", metavar="SLUG", help="with --starts: only this profile"
    )
    report.add_argument(
        "--reconcile",
        action="store_true",
        help="compare each instance with the bill of AWS, and explain the differences",
    )
    report.add_argument(
        "--bill",
        default="",
        metavar="PLACE",
        help="an export of the bill, CUR 2.0 or FOCUS: s3://bucket/prefix, a folder or a file "
        "(default: Cost Explorer, the last 14 days)",
    )
    report.add_argument(
        "--reservations",
        action="store_true",
        help="also report on the use of the account's Reserved Instances; asks EC2 for them",
    )
    shape = report.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one line of JSON")
    shape.add_argument("--csv", action="store_true", help="comma-separated values")
    shape.add_argument("--html", action="store_true", help="one HTML page, to attach or to print")
    shape.add_argument("--focus", action="store_true", help="FOCUS 1.2, for tools that read bills")


def _plan(plan: argparse.ArgumentParser) -> None:
    _hub_config(plan)
    plan.add_argument("--profile", default="", metavar="SLUG", help="the profile that they start")
    plan.add_argument(
        "--users", type=int, metavar="NUMBER", help="how many (with --rehearse: as many by default)"
    )
    plan.add_argument(
        "--at",
        default="",
        metavar="HH:MM",
        help="when they begin, in the hub's time_zone (default: now)",
    )
    plan.add_argument(
        "--hours",
        type=float,
        default=2.0,
        help="how long they work, for the cost (default: %(default)g)",
    )
    rehearsal_options(plan)
    _hub_of(plan)


def _prices(prices: argparse.ArgumentParser) -> None:
    prices.add_argument(
        "-f",
        "--config",
        help="the hub's file with profiles and region (default: ./jupyterhub_config.py if present)",
    )
    prices.add_argument(
        "--defaults", action="store_true", help="use the built-in profiles, not a file"
    )
    prices.add_argument(
        "--region", action="append", default=[], help="a region to compare; may be repeated"
    )
    prices.add_argument(
        "--allow-region",
        action="append",
        default=[],
        help="a region that may be called; may be repeated. Others are not called; without "
        "--region, all of these are compared",
    )
    prices.add_argument(
        "--latency",
        action="store_true",
        help="measure the round trip from this machine to each region",
    )
    shape = prices.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one line of JSON")
    shape.add_argument("--csv", action="store_true", help="comma-separated values")
