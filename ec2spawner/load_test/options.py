"""Options of `ec2spawner load-test`."""

from __future__ import annotations

import argparse


def load_test_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the command's parser."""
    parser.add_argument("url", metavar="URL", help="the hub's address")
    parser.add_argument("--users", type=int, default=10, help="how many (default: %(default)s)")
    parser.add_argument(
        "--max-users",
        type=int,
        default=100,
        metavar="USERS",
        help="refuse to run with more users (default: %(default)s)",
    )
    _arrival(parser)
    _use(parser)
    _access(parser)
    parser.add_argument(
        "--max-usd",
        type=float,
        metavar="USD",
        help="end the test when its servers have cost about so much, by the hub's prices; "
        "retained, replaced and pool instances are not included",
    )
    parser.add_argument(
        "--yes", action="store_true", help="run it, instead of only printing what would happen"
    )
    parser.add_argument("--html", default="", metavar="FILE", help="also write locust's report")
    parser.add_argument("--json", action="store_true", help="one line of JSON at the end")


def _arrival(parser: argparse.ArgumentParser) -> None:
    arrival = parser.add_mutually_exclusive_group()
    arrival.add_argument(
        "--spawn-rate",
        type=float,
        default=1.0,
        metavar="RATE",
        help="users that arrive in a second (default: %(default)g)",
    )
    arrival.add_argument(
        "--over", type=float, metavar="SECONDS", help="let all arrive evenly within so long"
    )
    arrival.add_argument("--at-once", action="store_true", help="let all arrive at once")


def _use(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile", default="", help="the profile to start, if not the hub's own choice"
    )
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another field of the spawn page's form; with a token, another user option; may be "
        "repeated",
    )
    parser.add_argument(
        "--cells", type=int, default=5, help="cells that each user runs (default: %(default)s)"
    )
    parser.add_argument(
        "--cell-every",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="the pause after each cell (default: %(default)g)",
    )
    parser.add_argument(
        "--idle",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="the pause before the server is stopped (default: %(default)g)",
    )
    parser.add_argument(
        "--start-timeout",
        type=float,
        default=1200.0,
        metavar="SECONDS",
        help="after which a start has failed (default: %(default)g)",
    )


def _access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prefix",
        default="load",
        help="the users are called PREFIX-0001 and so on (default: %(default)s)",
    )
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument(
        "--password-file",
        metavar="FILE",
        help="the password of all users, for hubs with a login form "
        "(default: $EC2SPAWNER_LOAD_TEST_PASSWORD)",
    )
    secret.add_argument(
        "--token-file",
        metavar="FILE",
        help="an admin's token, for other hubs (default: $JUPYTERHUB_API_TOKEN)",
    )
