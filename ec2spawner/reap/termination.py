"""Deletes what was listed as leaked, and reports the outcome for each resource."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import replace
from typing import Final, TypeVar

from ..aws.ec2 import EC2Cloud
from ..core.instances.leaks import Kind
from ..provisioner.model.cloud.cloud import CloudError
from .rows import Row, ids

T = TypeVar("T")

SECOND_CHECK: Final = 15.0
"""Seconds: an interface that is being launched with its instance is attached within a few."""


async def end(
    cloud: EC2Cloud, hub: str, rows: Sequence[Row], second_check: float
) -> dict[str, str]:
    """Resource id -> what went wrong; empty for what was deleted. Instances first: they cost most.

    `second_check` in seconds, see `SECOND_CHECK`.
    """
    outcome: dict[str, str] = {}
    instances = sorted(ids(rows, Kind.INSTANCE))
    if instances:
        said = await _try(cloud.terminate, instances)
        outcome |= dict.fromkeys(instances, said)
    for volume_id in sorted(ids(rows, Kind.VOLUME)):
        outcome[volume_id] = await _try(cloud.delete_volume, volume_id)
    for template_id in sorted(ids(rows, Kind.TEMPLATE)):
        outcome[template_id] = await _try(cloud.delete_template, template_id)
    if interfaces := ids(rows, Kind.INTERFACE):
        outcome |= await _end_interfaces(cloud, hub, interfaces, second_check)
    for group_id in sorted(ids(rows, Kind.SECURITY_GROUP)):
        outcome[group_id] = await _try(cloud.delete_security_group, group_id)
    for name in sorted(ids(rows, Kind.PLACEMENT_GROUP)):
        outcome[name] = await _try(cloud.delete_placement_group, name)
    return outcome


async def _end_interfaces(
    cloud: EC2Cloud, hub: str, found: Set[str], pause: float
) -> dict[str, str]:
    await asyncio.sleep(pause)
    try:
        still = {each.interface_id for each in await cloud.free_interfaces(hub)}
    except CloudError as error:
        return dict.fromkeys(found, str(error))
    outcome = dict.fromkeys(found - still, "it is in use by now")
    for interface_id in sorted(found & still):
        outcome[interface_id] = await _try(cloud.delete_interface, interface_id)
    return outcome


async def _try(work: Callable[[T], Awaitable[None]], what: T) -> str:
    """What went wrong, in words."""
    try:
        await work(what)
    except CloudError as error:
        return str(error)
    return ""


def with_outcome(rows: Sequence[Row], outcome: dict[str, str]) -> list[Row]:
    """The rows as they are now: what failed says so."""
    return [
        replace(row, why=f"{row.why}; NOT ended: {said}") if (said := outcome.get(row.id)) else row
        for row in rows
    ]
