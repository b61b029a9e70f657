"""What the journey created in the account, and deleting all of it.

Resources carry the id of the store that they were created under. The journey has a store of its
own, so nothing of another hub, or of this hub's own servers, is ever deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..aws.ec2 import EC2Cloud
from ..core.instances.leaks import Kind
from ..core.tags import HUB, STORE
from ..provisioner.model.cloud import CloudError, InstanceState

TIMEOUT: Final = 900.0
"""Seconds until everything must be gone: a GPU instance takes minutes to shut down."""

PAUSE: Final = 5.0
"""Seconds between two listings."""

SETTLED: Final = 5.0
"""Seconds of empty listings after which nothing is left, where the last call was long ago."""

UNSETTLED: Final = 60.0
"""The same where a call may have been under way: listings lag behind what was created."""

_DELETED: Final = frozenset({"deleting", "deleted"})


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose resources: those that carry both tags."""

    hub: str
    store_id: str

    def owns(self, tags: Mapping[str, str]) -> bool:
        """Whether a resource with these tags was created by this hub under this store."""
        return tags.get(HUB) == self.hub and tags.get(STORE) == self.store_id


@dataclass(slots=True)
class Remains:
    """What a listing showed, and what EC2 last said to each deletion."""

    found: dict[str, Kind] = field(default_factory=dict)
    """By resource id."""
    shutting_down: set[str] = field(default_factory=set)
    """Instances that shut down by now."""
    refusals: dict[str, str] = field(default_factory=dict)

    def words(self) -> str:
        """`2 volumes (vol-1, vol-2: VolumeInUse: ...), 1 launch template (lt-1)`."""
        parts = []
        for kind in Kind:
            ids = sorted(each for each, its in self.found.items() if its is kind)
            if ids:
                shown = [f"{i}: {self.refusals[i]}" if i in self.refusals else i for i in ids]
                plural = "s" if len(ids) > 1 else ""
                parts.append(f"{len(ids)} {kind}{plural} ({', '.join(shown)})")
        return ", ".join(parts)


async def list_remains(cloud: EC2Cloud, owner: Owner) -> Remains:
    """All that still exists. Raises `CloudError`."""
    remains = Remains()
    for instance in await cloud.list_instances(owner.hub):
        if owner.owns(instance.tags) and instance.state is not InstanceState.TERMINATED:
            remains.found[instance.instance_id] = Kind.INSTANCE
            if instance.state is InstanceState.SHUTTING_DOWN:
                remains.shutting_down.add(instance.instance_id)
    for volume in await cloud.list_volumes(owner.hub):
        if owner.owns(volume.tags) and volume.state not in _DELETED:
            remains.found[volume.volume_id] = Kind.VOLUME
    for interface in await cloud.free_interfaces(owner.hub):
        if owner.owns(interface.tags):
            remains.found[interface.interface_id] = Kind.INTERFACE
    for template in await cloud.list_templates(owner.hub):
        if owner.owns(template.tags):
            remains.found[template.template_id] = Kind.TEMPLATE
    for snapshot in await cloud.list_snapshots(owner.hub):
        if owner.owns(snapshot.tags):
            remains.found[snapshot.snapshot_id] = Kind.SNAPSHOT
    return remains


async def delete_everything(
    cloud: EC2Cloud, owner: Owner, announce: Callable[[str], None], empty_for: float
) -> str:
    """Delete all that the owner has, until listings are empty for so many seconds.

    What is left after `TIMEOUT`, in words; empty for nothing. An account that cannot be listed is
    reported as that, with what the last listing showed.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + TIMEOUT
    empty_since: float | None = None
    remains, failure = Remains(), ""
    while loop.time() < deadline:
        try:
            listed, failure = await list_remains(cloud, owner), ""
        except CloudError as error:
            failure = f"the account cannot be listed: {error}"
        else:
            listed.refusals = remains.refusals
            remains = listed
            if remains.found:
                empty_since = None
                announce(remains.words())
                await _delete(cloud, remains)
            elif empty_since is None:
                empty_since = loop.time()
            elif loop.time() - empty_since >= empty_for:
                return ""
        await asyncio.sleep(PAUSE)
    return "; ".join(filter(None, (failure, remains.words())))


async def _delete(cloud: EC2Cloud, remains: Remains) -> None:
    """One attempt at each: what is still in use is refused, and tried again."""

    async def end(instance_id: str) -> None:
        if instance_id not in remains.shutting_down:
            await cloud.terminate([instance_id])

    deletes: dict[Kind, Callable[[str], Awaitable[None]]] = {
        Kind.INSTANCE: end,
        Kind.VOLUME: cloud.delete_volume,
        Kind.INTERFACE: cloud.delete_interface,
        Kind.TEMPLATE: cloud.delete_template,
        Kind.SNAPSHOT: cloud.delete_snapshot,
    }
    for resource_id, kind in sorted(remains.found.items()):
        try:
            await deletes[kind](resource_id)
            remains.refusals.pop(resource_id, None)
        except CloudError as error:
            remains.refusals[resource_id] = str(error)
