"""Options of `ec2spawner run` and `ec2spawner runs`."""

from __future__ import annotations

import argparse


def run_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `run` to the command's parser."""
    parser.add_argument(
        "file", metavar="FILE", help="a notebook (.ipynb) or script (.py) in your home"
    )
    parser.add_argument(
        "--profile", required=True, metavar="SLUG", help="the hardware, such as a10g"
    )
    parser.add_argument(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a parameter; may be repeated. In a notebook it replaces the value in the cell tagged "
        "parameters; a script is given --NAME VALUE. The value is JSON or text",
    )
    parser.add_argument(
        "--params",
        default="",
        metavar="FILE",
        help="an array, one run for each set of parameters: a JSON list of objects, or a CSV with "
        "a header",
    )
    parser.add_argument(
        "--at-once",
        type=int,
        metavar="N",
        help="of an array: so many have an instance at the same time (default: the hub's limit)",
    )
    parser.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="how often a run begins again after its instance was lost (default: 5)",
    )
    _bounds(parser)
    parser.add_argument(
        "--notify",
        action="store_true",
        help="notify the hub's alarm destinations when the run ends; of an array once",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="show progress until the end; exit status 1 unless all have succeeded",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def _bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-usd", type=float, metavar="USD", help="end each run before it costs more"
    )
    parser.add_argument(
        "--deadline",
        default="",
        metavar="TIME",
        help="end each run then, done or not: 8h from now, or 2026-11-26T08:00",
    )
    parser.add_argument(
        "--max-spot-price",
        type=float,
        metavar="USD",
        help="wait until a spot instance costs so much per hour or less",
    )
    parser.add_argument(
        "--wait-until",
        default="",
        metavar="TIME",
        help="accept only spot instances until then, and afterwards whatever the profile allows",
    )


def runs_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `runs` to the command's parser."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", "cancel", "result", "table"),
        default="list",
        metavar="ACTION",
        help="list all; show one; cancel one, or an array; result: the executed notebook or the "
        "log so far; table: an array with its parameters and costs",
    )
    parser.add_argument(
        "number", nargs="?", type=int, metavar="N", help="of all but list: the run's number"
    )
    parser.add_argument(
        "--to",
        default="",
        metavar="FILE",
        help="of result: where to write it; without it, to the standard output",
    )
    parser.add_argument(
        "--array", action="store_true", help="of cancel: all runs of the array of this run"
    )
    parser.add_argument(
        "--hub",
        default="",
        metavar="URL",
        help="the hub's address: all runs of the user whose token is in JUPYTERHUB_API_TOKEN, from "
        "anywhere; without it those of this server",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one line of JSON")
    shape.add_argument("--csv", action="store_true", help="of table: comma-separated values")
