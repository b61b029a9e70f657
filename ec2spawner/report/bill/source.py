"""Where a bill is read from: an export in S3, an export in a folder, or Cost Explorer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ...aws.billing import bill_exports, cost_explorer
from ...aws.calls.client import Client
from ...core.bills.bill_lines import BillLine
from ...core.bills.reconciliation import Period
from ...provisioner.model.cloud.cloud import CloudError
from .errors import BillError
from .files import SUFFIXES, files_at, lines_in

_S3: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")

NOT_ENABLED: Final = "DataUnavailableException"
"""Cost Explorer's answer where it has no data of single resources."""


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill's lines, to be read once, and where they are from."""

    lines: Iterable[BillLine]
    source: str


@asynccontextmanager
async def open_bill(
    location: str, client: Client, period: Period, now: datetime
) -> AsyncIterator[Bill]:
    """The bill at `s3://bucket/prefix`, at a path, or of Cost Explorer where `location` is empty.

    Files from S3 exist only within the context. Raises `BillError`; so does reading the lines.
    """
    if not location:
        yield Bill(await _from_cost_explorer(client, period, now), "Cost Explorer")
    elif location.startswith("s3://"):
        with TemporaryDirectory(prefix="ec2spawner-bill-") as folder:
            files = await _from_s3(location, client, period, Path(folder))
            yield Bill(lines_in(files), location)
    else:
        yield Bill(lines_in(await asyncio.to_thread(files_at, Path(location))), location)


def months_of(period: Period) -> list[str]:
    """The billing periods that a period touches, such as `2026-11`: AWS's begin in UTC."""
    first, last = period.start.astimezone(UTC), period.end.astimezone(UTC)
    numbers = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]


async def _from_s3(location: str, client: Client, period: Period, folder: Path) -> list[Path]:
    found = _S3.fullmatch(location)
    if found is None:
        raise BillError(f"{location} is no place in S3. Fix: write it like s3://bucket/prefix")
    bucket, prefix = found[1], found[2] or ""
    months = months_of(period)
    try:
        objects = await bill_exports.list_export(client, bucket, prefix)
        chosen = bill_exports.chosen(objects, months, SUFFIXES)
        if not chosen:
            raise BillError(
                f"{location} has no data for {', '.join(months)}. Fix: the folder of the export, "
                "with its name"
            )
        files = []
        for place, each in enumerate(chosen):
            name = each.key.rpartition("/")[2]
            target = folder / f"{place:05}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)}"
            await bill_exports.download(client, bucket, each, target)
            files.append(target)
    except CloudError as error:
        raise BillError(
            f"{location} cannot be read: {error}. It needs s3:ListBucket and s3:GetObject"
        ) from error
    return files


async def _from_cost_explorer(client: Client, period: Period, now: datetime) -> list[BillLine]:
    since, until = period.start.date(), _day_after(min(period.end, now))
    try:
        return await cost_explorer.instance_lines(client, since, until)
    except CloudError as error:
        fix = "It needs ce:GetCostAndUsageWithResources"
        if error.code == NOT_ENABLED:
            fix = (
                "Fix: enable resource-level data in the preferences of Cost Explorer (it begins "
                "within 48 hours), or --bill with an export"
            )
        raise BillError(f"Cost Explorer cannot be read: {error}. {fix}") from error


def _day_after(instant: datetime) -> date:
    """The first day in UTC that begins at or after an instant."""
    return (instant.astimezone(UTC) + timedelta(days=1, microseconds=-1)).date()
