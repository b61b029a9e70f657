"""Sizes of the disks that instances are launched with: the root disk and data volumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from ...core.tags import HOME, INTENT
from ..model.cloud.cloud import Cloud
from ..model.cloud.instance import Instance, InstanceState
from ..model.cloud.launch import LaunchSpec
from ..state.state import State


class Disks:
    """Sizes in GiB, by the launch call in an instance's tags. Those of data volumes are their
    snapshots', which never change: each is read once. Where they are unknown, the volumes of a
    running instance are listed: the store may have been lost and with it the call, or a snapshot
    was deleted or is shared no more. All of that is read in the background."""

    def __init__(self, state: State, cloud: Cloud, wake: Callable[[], None]) -> None:
        """`wake` is called when a size is wanted that has not been read."""
        self._state = state
        self._cloud = cloud
        self._wake = wake
        self._snapshots: dict[str, int] = {}
        self._attached: dict[str, int] = {}
        """By id of an instance, as its volumes were listed."""
        self._unread_snapshots: set[str] = set()
        self._unread_instances: set[str] = set()

    def gib(self, root_gib: float, snapshots: Sequence[str]) -> float | None:
        """Of a root disk and the data volumes from these snapshots; None while unknown."""
        unread = set(snapshots) - self._snapshots.keys()
        if not unread:
            return root_gib + sum(self._snapshots[each] for each in snapshots)
        self._want(self._unread_snapshots, unread)
        return None

    def gib_of(self, instance: Instance) -> float | None:
        """The same of an instance."""
        intent = self._state.launches.intents.get(instance.tags.get(INTENT, ""))
        if intent is not None:
            spec = intent.request.spec
            gib = self.gib(spec.disk_gib, snapshots_of(spec))
            if gib is not None:
                return gib
        # EC2 may not have attached all volumes of a pending one.
        is_listable = instance.state is not InstanceState.PENDING
        if is_listable and instance.instance_id not in self._attached:
            self._want(self._unread_instances, {instance.instance_id})
        return self._attached.get(instance.instance_id)

    def _want(self, unread: set[str], ids: set[str]) -> None:
        if not ids <= unread:
            unread |= ids
            self._wake()

    def unread(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What is to be read, and how: each apart, since EC2 may refuse one of them. They raise
        `CloudError`; what EC2 does not know stays unread."""
        if self._unread_snapshots:
            yield "sizes of snapshots", self._read_snapshots()
        if self._unread_instances:
            yield "sizes of volumes", self._read_volumes()

    async def _read_snapshots(self) -> None:
        found = await self._cloud.snapshot_sizes(sorted(self._unread_snapshots))
        self._snapshots |= found
        self._unread_snapshots -= found.keys()

    async def _read_volumes(self) -> None:
        listed = self._state.instances.listed
        self._unread_instances &= listed.keys()
        if self._unread_instances:
            sizes: defaultdict[str, int] = defaultdict(int)
            for volume in await self._cloud.list_volumes(self._state.settings.hub):
                if volume.attached_to and HOME not in volume.tags:
                    sizes[volume.attached_to] += volume.size_gib
            known = {**self._attached, **sizes}
            self._attached = {each: known[each] for each in known if each in listed}
            self._unread_instances -= self._attached.keys()


def snapshots_of(spec: LaunchSpec) -> Sequence[str]:
    """Ids of the snapshots of its data volumes."""
    return [each.snapshot for each in spec.data_volumes]
