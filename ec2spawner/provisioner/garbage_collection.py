"""What is left over in the cloud when instances are gone: disks, interfaces, security groups and
placement groups of clusters, launch templates.

Each pass terminates surplus instances, and EC2 deletes with them what was created with them. This
lists, every few minutes, what remained nevertheless (a detached disk, a deletion that EC2 left
half-way), and deletes it once it has been unattached for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar

from ..core.alarms.leaks import leak
from ..core.instances.leaks import Kind, Known, Resource, verdict
from ..core.tags import LEASE
from .model import metrics
from .model.cloud.cloud import Cloud, CloudError
from .model.leases.lease import OPEN
from .runtime.supervise import Supervised
from .state.state import State

log = logging.getLogger(__name__)

T = TypeVar("T")

TEMPLATES_KEPT = timedelta(days=7)
"""Launch templates that nobody has used for so long are deleted; one that is needed again is
made again."""

GROUPS: Final = frozenset({Kind.SECURITY_GROUP, Kind.PLACEMENT_GROUP})
"""Of clusters. They cost nothing."""

MAX_DELETED = 50
"""Things deleted by one scan: each is a call, and EC2 limits its calls. The next scan continues."""


async def allowed(listing: Awaitable[Sequence[T]]) -> Sequence[T]:
    """What is listed; nothing where it may not be: a hub without that permission makes none."""
    try:
        return await listing
    except CloudError as error:
        if error.retryable:
            raise
        log.debug("Not listed: %s", error)
        return ()


@dataclass(slots=True)
class GarbageCollection:
    """Deletes what outlived its instance: disks, network interfaces, groups of clusters, unused
    launch templates."""

    state: State
    cloud: Cloud
    _free_since: dict[str, float] = field(default_factory=dict)
    """By id, in seconds of uptime: since when this process has seen a resource unattached."""

    async def run(self) -> None:
        """Scan at the start and then every `reap_interval`, until cancelled."""
        supervised = Supervised("Looking for disks and interfaces left over")
        while True:
            with supervised:
                try:
                    await self.scan()
                except CloudError as error:
                    log.warning("Looking for disks and interfaces left over failed: %s", error)
            await asyncio.sleep(self.state.settings.reap_interval)

    async def scan(self) -> None:
        """Delete what has been unattached for long. Raises `CloudError` where listing fails."""
        free = await self._free()
        now = self.state.clock.uptime()
        self._free_since = {t.resource_id: self._free_since.get(t.resource_id, now) for t in free}
        # The volumes of all homes that the store knows are a second lock beside their tag. Read
        # after the listing: a home that was made meanwhile is known by now.
        homes = self.state.homes.volume_ids()
        known = Known(self.state.settings.hub, self.state.store_id, homes=homes)
        deleted = 0
        for resource in free:
            seconds = now - self._free_since[resource.resource_id]
            resource = Resource(
                resource.kind, resource.resource_id, resource.state, resource.tags, seconds
            )
            judged = verdict(resource, known)
            if resource.kind in GROUPS and self._is_of_open_cluster(resource):
                continue  # its server has begun another cluster meanwhile
            if deleted < MAX_DELETED and judged.ends:
                await self._delete(resource, judged.why)
                deleted += 1

    async def _free(self) -> list[Resource]:
        volumes = await self.cloud.free_volumes(self.state.settings.hub)
        interfaces = await self.cloud.free_interfaces(self.state.settings.hub)
        return [
            *(Resource(Kind.VOLUME, each.volume_id, each.state, each.tags) for each in volumes),
            *(
                Resource(Kind.INTERFACE, each.interface_id, each.state, each.tags)
                for each in interfaces
            ),
            *(await self._unused_groups()),
        ]

    async def _unused_groups(self) -> list[Resource]:
        """Security groups and placement groups of no open cluster. A hub without clusters may not
        list placement groups, and does not ask."""
        hub = self.state.settings.hub
        found = [
            Resource(Kind.SECURITY_GROUP, each.group_id, "", each.tags)
            for each in await allowed(self.cloud.list_security_groups(hub))
        ]
        if self.state.settings.has_clusters:
            found += [
                Resource(Kind.PLACEMENT_GROUP, each.name, each.state, each.tags)
                for each in await allowed(self.cloud.list_placement_groups(hub))
            ]
        return [group for group in found if not self._is_of_open_cluster(group)]

    def _is_of_open_cluster(self, group: Resource) -> bool:
        """Also one that is being made, or that the cluster's own controller will delete."""
        head = self.state.leases.get(group.tags.get(LEASE, ""))
        if head is None or head.cluster is None or head.state not in OPEN:
            return False
        held = {head.cluster.security_group, head.cluster.placement_group}
        return bool(head.cluster.workers) or group.resource_id in held

    async def _delete(self, resource: Resource, why: str) -> None:
        """A failure is logged, and the next look tries again: EC2 refuses what is in use."""
        delete: Mapping[Kind, Callable[[str], Awaitable[None]]] = {
            Kind.VOLUME: self.cloud.delete_volume,
            Kind.INTERFACE: self.cloud.delete_interface,
            Kind.SECURITY_GROUP: self.cloud.delete_security_group,
            Kind.PLACEMENT_GROUP: self.cloud.delete_placement_group,
        }
        try:
            await delete[resource.kind](resource.resource_id)
        except CloudError as error:
            log.warning(
                "Deleting %s %s: %s; trying again", resource.kind, resource.resource_id, error
            )
        else:
            metrics.REAPED.labels(resource.kind.value).inc()
            log.warning("Deleted %s %s: it was left over", resource.kind, resource.resource_id)
            if resource.kind in GROUPS:
                return  # it cost nothing
            alarm = leak(resource.kind.value, resource.resource_id, why, self.state.clock.now())
            self.state.incidents.record(alarm)

    async def run_templates(self) -> None:
        """Delete launch templates that are no longer used, once a day, until cancelled."""
        supervised = Supervised("Deleting old launch templates")
        while True:
            with supervised:
                await self._delete_old_templates()
            await asyncio.sleep(self.state.settings.template_interval)

    async def _delete_old_templates(self) -> None:
        hub, before = self.state.settings.hub, self.state.clock.now() - TEMPLATES_KEPT
        try:
            number = await self.cloud.delete_old_templates(hub, self.state.store_id, before)
        except CloudError as error:
            log.warning("Deleting old launch templates failed, tomorrow again: %s", error)
        else:
            metrics.REAPED.labels(Kind.TEMPLATE.value).inc(number)
            if number:
                log.info("Deleted %d launch templates that were no longer used", number)
