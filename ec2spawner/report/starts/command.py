"""`ec2spawner report --starts`: reads a hub's store, and prints where starts take their time."""

from __future__ import annotations

import argparse
import asyncio
from datetime import datetime

from rich.console import Console

from ...config import Options
from ...provisioner.store.read_only import read_starts
from .contents import SLOWEST, StartReport, StartScope
from .forms import starts_csv, starts_json
from .table import print_starts


def report_starts(
    scope: StartScope, options: Options, arguments: argparse.Namespace, now: datetime
) -> None:
    """Print the report in the form that was asked for. Raises `StoreError`."""
    with Console(stderr=True).status("Reading the store"):
        reading = read_starts(
            options.store_url, scope.begin, scope.end, scope.profile, slowest=SLOWEST
        )
        groups, slowest = asyncio.run(reading)
    names = {each.slug: each.display_name for each in options.profiles}
    report = StartReport(scope, now, groups, slowest, names)
    if arguments.json:
        print(starts_json(report))
    elif arguments.csv:
        print(starts_csv(report), end="")
    else:
        print_starts(report, Console())
