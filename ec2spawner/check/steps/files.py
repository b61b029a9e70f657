"""EFS, snapshots of data and S3."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..facts.buckets import find_bucket
from ..facts.network import Subnet
from ..finding import Finding
from ..topics import Topic
from ..verdicts.files import (
    judge_bucket,
    judge_file_system,
    judge_shared_homes,
    judge_snapshot,
)
from .context import LATER, Context, answer, ask


async def check_files(context: Context, subnets: Sequence[Subnet], findings: list[Finding]) -> None:
    """Findings on the file system of homes, on each data volume and on each bucket."""
    await asyncio.gather(
        _file_system(context, subnets, findings),
        _data_volumes(context, findings),
        _buckets(context, findings),
    )


async def _file_system(
    context: Context, subnets: Sequence[Subnet], findings: list[Finding]
) -> None:
    home = context.options.home
    if home.kind != "efs":
        return
    if not context.options.image.is_stock:
        findings.append(judge_shared_homes(home.file_system))
    if not subnets:
        return
    asked = context.account.mount_targets(home.file_system)
    targets = await ask(findings, Topic.FILE_SYSTEM, asked, LATER)
    if targets is not None:
        findings.append(judge_file_system(home.file_system, targets, subnets))


async def _data_volumes(context: Context, findings: list[Finding]) -> None:
    snapshots = sorted({each.snapshot for each in context.options.every_data_volume})
    asked = [answer(context.account.snapshot_state(each)) for each in snapshots]
    for snapshot, (state, error) in zip(snapshots, await asyncio.gather(*asked), strict=True):
        findings.append(judge_snapshot(snapshot, state, error))


async def _buckets(context: Context, findings: list[Finding]) -> None:
    options = context.options
    names = sorted({each.bucket for each in options.every_bucket})
    if not names:
        return
    endpoint = await context.client.endpoint("s3")
    found = await asyncio.gather(*(find_bucket(endpoint, name) for name in names))
    findings += [judge_bucket(bucket, options.region) for bucket in found]
