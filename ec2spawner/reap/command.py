"""`ec2spawner reap`: exit status 0 where nothing is left to end, 1 where something failed, 2 for a
wrong request, 3 where something would end and `--yes` was not given."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from ..aws.ec2 import EC2Cloud
from ..check.hub_config import ConfigurationBroken, load
from ..config import Options
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.store.read_only import peek
from ..provisioner.store.store import Store, StoreError, StoreHeldError
from ..terminal import complain
from .report import Report, as_json, print_table
from .rows import rows_of
from .scan import account_of, store_of
from .termination import SECOND_CHECK, end, with_outcome

NEEDED = ("region", "endpoint_url", "hub_name", "store_url")
"""Options without which nothing can be found; a hub that cannot start for another leaves things
behind too."""

FAILED = 1
WRONG = 2
WOULD_END = 3


def run_reap(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """`ec2spawner reap`; returns its exit status, see docs/how-to/operate.md."""
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            options = load(Path(arguments.config), for_the_hub).require(*NEEDED)
    except ConfigurationBroken as broken:
        for finding in broken.findings:
            complain("reap", f"{finding.name}: {finding.said}. Fix: {finding.fix}")
        return WRONG
    try:
        report = asyncio.run(_reap(options, arguments))
    except (CloudError, StoreError) as error:
        complain("reap", f"{error}. Nothing was changed")
        return FAILED
    if arguments.json:
        print(as_json(report))
    else:
        print_table(report, Console())
    return status_of(report)


def status_of(report: Report) -> int:
    """0 nothing left, 1 failed, 3 something would be deleted without `--yes`."""
    if report.outcome is not None:
        return FAILED if any(report.outcome.values()) else 0
    if any(row.ends for row in report.rows):
        return WOULD_END
    return FAILED if report.trouble else 0


async def _reap(options: Options, arguments: argparse.Namespace) -> Report:
    """Raises `CloudError`, `StoreError`."""
    yes: bool = arguments.yes
    cloud = EC2Cloud(options.region, options.endpoint_url or None)
    try:
        async with _holding(options.store_url if yes else "") as hub_runs:
            with Console(stderr=True).status("Asking EC2"):
                report = await _scan_and_end(cloud, options, arguments)
            return replace(report, hub_runs=hub_runs if yes else report.hub_runs)
    finally:
        await cloud.close()


async def _scan_and_end(cloud: EC2Cloud, options: Options, arguments: argparse.Namespace) -> Report:
    hub, now = options.hub_name, datetime.now(UTC)
    account = await account_of(cloud, hub, options.region, now)
    peek, trouble = await store_of(options.store_url, account, now)
    grace = 60.0 * max(arguments.older_than, 0.0)
    rows = rows_of(account, peek, hub, now, grace, arguments.store)
    outcome = None
    if arguments.yes:
        outcome = await end(cloud, hub, rows, second_check=min(SECOND_CHECK, grace))
        rows = with_outcome(rows, outcome)
    return Report(
        hub=hub,
        store_id=peek.store_id if peek else "",
        hub_runs=peek is not None and peek.hub_runs,
        rows=rows,
        outcome=outcome,
        trouble=trouble,
    )


@asynccontextmanager
async def _holding(store_url: str) -> AsyncIterator[bool]:
    """Keep a hub from starting meanwhile; True where one runs already.

    Without a store there is nothing to keep. Raises `StoreError` where there is one that cannot be
    opened.
    """
    store: Store | None = None
    hub_runs = False
    if store_url and await _exists(store_url):
        try:
            store = await Store.open(store_url, now=datetime.now(UTC))
        except StoreHeldError:
            hub_runs = True
    try:
        yield hub_runs
    finally:
        if store is not None:
            await store.close()


async def _exists(store_url: str) -> bool:
    """To open a store that is not there would make an empty one."""
    try:
        await peek(store_url, (), now=datetime.now(UTC))
    except StoreError:
        return False
    return True
