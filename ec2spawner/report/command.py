"""`ec2spawner report`: exit status 0, 1 where something could not be read, 2 for a wrong request, 3
where `--reconcile` found a difference that nothing explains."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console

from ..aws.calls.client import Client
from ..aws.ec2 import EC2Cloud
from ..check.hub_config import ConfigurationBroken, load
from ..config import Options
from ..core.bills.reconciliation import reconcile
from ..core.ledger.cost_rows import Dimension
from ..core.ledger.local_days import local_day, midnight
from ..core.pricing.discounts import Discount, beside
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.store.read_only import Ledger, LedgerQuery, read_ledger
from ..provisioner.store.store import StoreError
from ..terminal import complain
from . import focus
from .bill.errors import BillError
from .bill.source import open_bill
from .contents import Report, Scope, needed, report_of
from .delimited import report_csv
from .discount_use import discount_use
from .document import report_json
from .page import report_html
from .reconciled import Reconciled
from .request import WrongRequest, billing_period, scope_of
from .starts.command import report_starts
from .starts.contents import StartScope, start_scope_of
from .table import print_reconciled, print_report

NEEDED = ("region", "endpoint_url", "hub_name", "store_url", "time_zone", "discounts")
"""Options without which nothing can be read."""

FAILED = 1
WRONG = 2
UNSETTLED = 3


def run_report(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """`ec2spawner report`; returns its exit status, see docs/how-to/report.md."""
    now = datetime.now(UTC)
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            options = load(Path(arguments.config), for_the_hub).require(*NEEDED)
        today = local_day(now, ZoneInfo(options.time_zone))
        asked = arguments, options.hub_name, options.time_zone, today
        scope = start_scope_of(*asked) if arguments.starts else scope_of(*asked)
    except ConfigurationBroken as broken:
        for finding in broken.findings:
            complain("report", f"{finding.name}: {finding.said}. Fix: {finding.fix}")
        return WRONG
    except WrongRequest as error:
        complain("report", str(error))
        return WRONG
    try:
        if isinstance(scope, StartScope):
            report_starts(scope, options, arguments, now)
            return 0
        if arguments.focus:
            return _write_focus(scope, options, now)
        report, found = asyncio.run(_read(scope, options, arguments, now))
    except (StoreError, BillError, CloudError) as error:
        complain("report", str(error))
        return FAILED
    _write(report, found, arguments)
    return UNSETTLED if found and found.unsettled else 0


def _write(report: Report, found: Reconciled | None, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(report_json(report, found))
    elif arguments.csv:
        print(report_csv(report), end="")
    elif arguments.html:
        print(report_html(report, found))
    else:
        print_report(report, Console())
        if found:
            print_reconciled(found, Console())


def _write_focus(scope: Scope, options: Options, now: datetime) -> int:
    query = replace(_query(scope, focus.DIMENSIONS, segments=False), durations=True)
    ledger = asyncio.run(read_ledger(options.store_url, query, now=now))
    place = ZoneInfo(scope.time_zone)
    text, left_out = focus.focus_csv(
        ledger.costs, ledger.durations, hub=scope.hub, region=options.region, place=place
    )
    sys.stdout.write(text)
    if left_out:
        complain("report", f"{left_out:,} entries have no known price, and FOCUS no place for that")
    return 0


async def _read(
    scope: Scope, options: Options, arguments: argparse.Namespace, now: datetime
) -> tuple[Report, Reconciled | None]:
    """Raises `StoreError`, `BillError`, `CloudError`."""
    # A report on one user has no place for what everybody shares.
    place = ZoneInfo(scope.time_zone)
    start = midnight(scope.since, place)
    discounts = () if scope.user else await _discounts(options, arguments.reservations, start, now)
    query = _query(scope, needed(scope.by), segments=bool(discounts) or arguments.reconcile)
    with Console(stderr=True).status("Reading the store"):
        ledger = await read_ledger(options.store_url, query, now=now)
    end = min(midnight(scope.until + timedelta(days=1), place), now)
    uses = discount_use(discounts, ledger.segments, start, max(end, start))
    report = report_of(scope, ledger.costs, now, uses)
    if not arguments.reconcile:
        return report, None
    return report, await _reconciled(scope, options, arguments.bill, ledger, now)


async def _discounts(
    options: Options, reservations: bool, start: datetime, now: datetime
) -> Sequence[Discount]:
    """The configured ones, and the account's reservations in the time in which none of these
    replaces them: the hub's own rule.

    Those that have ended since `start` are among them."""
    configured = [each.discount() for each in options.discounts]
    if not reservations:
        return configured
    cloud = EC2Cloud(options.region, options.endpoint_url or None)
    try:
        with Console(stderr=True).status("Asking EC2"):
            found = await cloud.reservations((start, now))
    finally:
        await cloud.close()
    if not found:
        complain(
            "report",
            f"no Reserved Instances were found in {options.region}: there are none, or "
            "ec2:DescribeReservedInstances is not permitted",
        )
    parts = beside(configured, found)
    return [
        *configured,
        *(each for each in parts if each.has_begun(now) and not each.has_expired(start)),
    ]


async def _reconciled(
    scope: Scope, options: Options, location: str, ledger: Ledger, now: datetime
) -> Reconciled:
    period = billing_period(scope)
    client = Client(options.region, options.endpoint_url or None)
    try:
        with Console(stderr=True).status("Reading the bill"):
            async with open_bill(location, client, period, now) as bill:
                result = await asyncio.to_thread(
                    reconcile, ledger.segments, bill.lines, period, hub=options.hub_name, now=now
                )
    finally:
        await client.close()
    return Reconciled(result, bill.source)


def _query(scope: Scope, by: Sequence[Dimension], *, segments: bool) -> LedgerQuery:
    """With the segments of these days in the hub's time zone and in UTC, which differ by hours."""
    period, margin = billing_period(scope), timedelta(days=1)
    return LedgerQuery(
        since=scope.since,
        until=scope.until,
        by=by,
        only={Dimension.USER: [scope.user]} if scope.user else {},
        time_zone=ZoneInfo(scope.time_zone),
        segments_between=(period.start - margin, period.end + margin) if segments else None,
    )
