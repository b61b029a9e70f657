"""What the journey created in the account, and deleting all of it.

Resources carry the id of the store that they were created under. The journey has a store of its
own, so nothing of another hub, or of this hub's own servers, is ever deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from ..aws.ec2 import EC2Cloud
from ..core.instances.leaks import Kind
from ..core.tags import HUB, STORE
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.cloud.instance import InstanceState

_DELETED: Final = frozenset({"deleting", "deleted"})


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds."""

    settled: float = 5.0
    """Of empty listings after which nothing is left, where the last call was long ago."""
    unsettled: float = 60.0
    """The same where a call may have been under way: listings lag behind what was created."""
    pause: float = 5.0
    """Between two listings."""
    timeout: float = 900.0
    """Until everything must be gone: a GPU instance takes minutes to shut down."""


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
    """What the listings showed, and what EC2 said to each deletion."""

    found: dict[str, Kind] = field(default_factory=dict)
    """By resource id."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By resource id."""
    unlisted: dict[Kind, str] = field(default_factory=dict)
    """Why a kind could not be listed: nothing is known of it."""

    @property
    def nothing(self) -> bool:
        """Whether every kind was listed, and none is left."""
        return not self.found and not self.unlisted

    def words(self) -> str:
        """`2 volumes (vol-1, vol-2: VolumeInUse: ...); snapshots cannot be listed: ...`."""
        parts = []
        for kind in Kind:
            ids = sorted(each for each, its in self.found.items() if its is kind)
            if ids:
                shown = [f"{i}: {self.refusals[i]}" if i in self.refusals else i for i in ids]
                plural = "s" if len(ids) > 1 else ""
                parts.append(f"{len(ids)} {kind}{plural} ({', '.join(shown)})")
        unknown = [f"{kind}s cannot be listed: {why}" for kind, why in self.unlisted.items()]
        return "; ".join([", ".join(parts), *unknown] if parts else unknown)


class _Tagged(Protocol):
    @property
    def tags(self) -> Mapping[str, str]: ...


_R = TypeVar("_R", bound=_Tagged)

Delete = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Account:
    """Lists and deletes each kind of resource of one owner."""

    cloud: EC2Cloud
    owner: Owner

    async def instances(self) -> dict[str, Delete | None]:
        """Without a deletion where it shuts down by now."""
        return {
            each.instance_id: None if each.state is InstanceState.SHUTTING_DOWN else self._terminate
            for each in self._own(await self.cloud.list_instances(self.owner.hub))
            if each.state is not InstanceState.TERMINATED
        }

    async def volumes(self) -> dict[str, Delete | None]:
        listed = self._own(await self.cloud.list_volumes(self.owner.hub))
        existing = [each for each in listed if each.state not in _DELETED]
        return {each.volume_id: self.cloud.delete_volume for each in existing}

    async def interfaces(self) -> dict[str, Delete | None]:
        listed = self._own(await self.cloud.free_interfaces(self.owner.hub))
        return {each.interface_id: self.cloud.delete_interface for each in listed}

    async def templates(self) -> dict[str, Delete | None]:
        listed = self._own(await self.cloud.list_templates(self.owner.hub))
        return {each.template_id: self.cloud.delete_template for each in listed}

    async def snapshots(self) -> dict[str, Delete | None]:
        listed = self._own(await self.cloud.list_snapshots(self.owner.hub))
        return {each.snapshot_id: self.cloud.delete_snapshot for each in listed}

    def _own(self, listed: Iterable[_R]) -> list[_R]:
        return [each for each in listed if self.owner.owns(each.tags)]

    async def _terminate(self, instance_id: str) -> None:
        await self.cloud.terminate([instance_id])


async def delete_everything(
    cloud: EC2Cloud,
    owner: Owner,
    announce: Callable[[str], None],
    empty_for: float,
    waits: Waits,
) -> str:
    """Delete all that the owner has, until listings are empty for `empty_for` seconds.

    What is left after the timeout, in words, and what could not be listed; empty for nothing.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + waits.timeout
    empty_since: float | None = None
    account, remains = _Account(cloud, owner), Remains()
    while loop.time() < deadline:
        remains = await _delete_once(account)
        if not remains.nothing:
            empty_since = None
            announce(remains.words())
        elif empty_since is None:
            empty_since = loop.time()
        elif loop.time() - empty_since >= empty_for:
            return ""
        await asyncio.sleep(waits.pause)
    return remains.words()


async def _delete_once(account: _Account) -> Remains:
    """List each kind and attempt to delete what is there; what is in use is refused for now.

    Instances come first, since they cost most. A failure ends neither the listing of other kinds
    nor the deletion of other resources.
    """
    remains = Remains()
    listings: dict[Kind, Callable[[], Awaitable[Mapping[str, Delete | None]]]] = {
        Kind.INSTANCE: account.instances,
        Kind.VOLUME: account.volumes,
        Kind.INTERFACE: account.interfaces,
        Kind.TEMPLATE: account.templates,
        Kind.SNAPSHOT: account.snapshots,
    }
    for kind, listing in listings.items():
        try:
            listed = await listing()
        except CloudError as error:
            remains.unlisted[kind] = str(error)
            continue
        for resource_id, delete in sorted(listed.items()):
            remains.found[resource_id] = kind
            try:
                if delete is not None:
                    await delete(resource_id)
            except CloudError as error:
                remains.refusals[resource_id] = str(error)
    return remains
