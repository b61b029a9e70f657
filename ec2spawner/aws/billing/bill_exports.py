"""Exports of AWS's bill in S3, copied to a folder part by part."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ...provisioner.model.cloud.cloud import CloudError
from ..calls.client import Answer, Client

PART: Final = 8 << 20
"""Bytes of one request: held in memory, and received well within the timeout of a call."""

MAX_LISTINGS: Final = 100
"""Pages of 1,000 objects after which a prefix counts as something else than an export."""

_MONTH: Final = re.compile(r"BILLING_PERIOD=(\d{4}-\d{2})/")
"""The folder of a month, as Data Exports names it."""


@dataclass(frozen=True, slots=True)
class ExportObject:
    """An object in the bucket of an export."""

    key: str
    size: int
    """Bytes."""
    modified_at: datetime
    """UTC."""


def chosen(
    objects: Collection[ExportObject], months: Collection[str], suffixes: tuple[str, ...]
) -> list[ExportObject]:
    """The data of these months (`2026-11`), each from its newest run.

    An export that does not overwrite itself writes each run to a folder of its own within the
    month. Objects outside a month's folder are all taken.
    """
    newest: dict[str, tuple[datetime, str]] = {}
    data: list[tuple[str, str, ExportObject]] = []
    for each in objects:
        if not each.key.lower().endswith(suffixes):
            continue
        found = _MONTH.search(each.key)
        month, folder = (found[1] if found else ""), each.key.rpartition("/")[0]
        if month and month not in months:
            continue
        data.append((month, folder, each))
        if month:
            newest[month] = max(
                newest.get(month, (each.modified_at, "")), (each.modified_at, folder)
            )
    return [each for month, folder, each in data if not month or newest[month][1] == folder]


async def list_export(client: Client, bucket: str, prefix: str) -> list[ExportObject]:
    """Every object below the prefix. Raises `CloudError`."""
    found: list[ExportObject] = []
    place: Mapping[str, Any] = {}
    for _ in range(MAX_LISTINGS):
        some, token = await client.call(
            "list_objects_v2", _page, service="s3", Bucket=bucket, Prefix=prefix, **place
        )
        found += some
        if not token:
            return found
        place = {"ContinuationToken": token}
    raise CloudError(
        "EndlessListing",
        f"s3://{bucket}/{prefix} has more than {MAX_LISTINGS * 1000:,} objects: name the folder "
        "of one export",
        retryable=False,
    )


def _page(answer: Answer) -> tuple[Sequence[ExportObject], str]:
    objects = [
        ExportObject(each["Key"], each["Size"], each["LastModified"])
        for each in answer.get("Contents", ())
    ]
    return objects, answer.get("NextContinuationToken", "")


async def download(client: Client, bucket: str, each: ExportObject, target: Path) -> None:
    """Copy an object to a file, in parts. Raises `CloudError`, also where it changes meanwhile."""
    place: dict[str, Any] = {"Bucket": bucket, "Key": each.key}
    # An empty object has no range.
    for start in range(0, max(each.size, 1), PART):
        if each.size:
            place["Range"] = f"bytes={start}-{min(start + PART, each.size) - 1}"
        # Only what was read completely is written: the call may be repeated.
        data, place["IfMatch"] = await client.call("get_object", _body, service="s3", **place)
        await asyncio.to_thread(_append, target, data)


def _body(answer: Answer) -> tuple[bytes, str]:
    from botocore.exceptions import BotoCoreError

    from ..calls.errors import cloud_error

    try:
        return answer["Body"].read(), answer["ETag"]
    except BotoCoreError as error:  # the connection ended within the body
        raise cloud_error(error) from error


def _append(target: Path, data: bytes) -> None:
    with target.open("ab") as file:
        file.write(data)
