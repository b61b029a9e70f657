"""What carries the hub's tag in the account, and deleting all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from ..aws.ec2 import EC2Cloud
from ..core.instances.leaks import Kind
from ..provisioner.model.cloud import GONE, CloudError
from ..reap.rows import Account
from ..reap.scan import account_of

TIMEOUT: Final = 600.0
"""Seconds until everything must be gone: a GPU instance takes minutes to shut down."""

PAUSE: Final = 5.0
"""Seconds between two listings."""

CONFIRMATIONS: Final = 2
"""Empty listings in a row that count as nothing left: EC2's lag behind what was created."""

_DELETED: Final = frozenset({"deleting", "deleted"})


def remains(account: Account) -> dict[str, Kind]:
    """Resource id -> kind, of all that still exists. Pure."""
    found: dict[str, Kind] = {}
    for instance in account.instances:
        if instance.state not in GONE:
            found[instance.instance_id] = Kind.INSTANCE
    for volume in account.volumes:
        if volume.state not in _DELETED:
            found[volume.volume_id] = Kind.VOLUME
    found |= {each.interface_id: Kind.INTERFACE for each in account.interfaces}
    found |= {each.template_id: Kind.TEMPLATE for each in account.templates}
    found |= {each.snapshot_id: Kind.SNAPSHOT for each in account.snapshots}
    return found


def words(found: dict[str, Kind]) -> str:
    """`2 volumes (vol-1, vol-2), 1 launch template (lt-1)`; at most five ids of each kind."""
    parts = []
    for kind in Kind:
        ids = sorted(each for each, its in found.items() if its is kind)
        if ids:
            more = ", …" if len(ids) > 5 else ""
            plural = "s" if len(ids) > 1 else ""
            parts.append(f"{len(ids)} {kind}{plural} ({', '.join(ids[:5])}{more})")
    return ", ".join(parts)


async def remaining(cloud: EC2Cloud, hub: str, region: str) -> dict[str, Kind]:
    """Resource id -> kind, of all with the hub's tag. Raises `CloudError`."""
    return remains(await account_of(cloud, hub, region, datetime.now(UTC)))


async def delete_everything(
    cloud: EC2Cloud, hub: str, region: str, announce: Callable[[str], None]
) -> dict[str, Kind]:
    """Delete all with the hub's tag; what is left after `TIMEOUT`. Raises `CloudError` where the
    account could not even be listed."""
    loop = asyncio.get_running_loop()
    deadline, empty = loop.time() + TIMEOUT, 0
    found: dict[str, Kind] = {}
    failure: CloudError | None = None
    while loop.time() < deadline:
        try:
            found, failure = await remaining(cloud, hub, region), None
        except CloudError as error:
            failure = error
        else:
            empty = 0 if found else empty + 1
            if empty >= CONFIRMATIONS:
                return {}
            if found:
                announce(words(found))
                await _delete(cloud, found)
        await asyncio.sleep(PAUSE)
    if failure is not None:
        raise failure
    return found


async def _delete(cloud: EC2Cloud, found: dict[str, Kind]) -> None:
    """One attempt at each: what is still in use is refused, and tried again."""
    deletes: dict[Kind, Callable[[str], Awaitable[None]]] = {
        Kind.VOLUME: cloud.delete_volume,
        Kind.INTERFACE: cloud.delete_interface,
        Kind.TEMPLATE: cloud.delete_template,
        Kind.SNAPSHOT: cloud.delete_snapshot,
    }
    instances = _of(found, Kind.INSTANCE)
    if instances:
        await _try(cloud.terminate(instances))
    for kind, delete in deletes.items():
        for resource_id in _of(found, kind):
            await _try(delete(resource_id))


def _of(found: dict[str, Kind], kind: Kind) -> list[str]:
    return sorted(each for each, its in found.items() if its is kind)


async def _try(work: Awaitable[None]) -> None:
    try:
        await work
    except CloudError:
        return  # the next listing still shows it
