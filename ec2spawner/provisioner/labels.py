"""Tags that follow the leases: whose an instance is, and that it is never to be another's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.names import tag_value
from ..core.tags import LEASE, NAME, STORE, USER
from .book import LeaseBook
from .cloud import Cloud, CloudError
from .lease import Lease, LeaseState
from .watcher import Watcher

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Labels:
    """Tags what a listing shows without them, once, or again where that failed."""

    book: LeaseBook
    cloud: Cloud
    watcher: Watcher
    store_id: str
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    _asked: set[str] = field(default_factory=set)
    """Instance ids: a listing may still show these without their tags."""

    def follow(self) -> None:
        leases = {
            lease.instance_id: lease
            for lease in self.book.open(LeaseState.STARTING, LeaseState.READY)
            if lease.instance_id
        }
        self._asked &= leases.keys()
        for instance_id in leases.keys() - self._asked:
            instance = self.watcher.instances.get(instance_id)
            tags = self._tags(leases[instance_id])
            if instance is not None and not tags.items() <= instance.tags.items():
                self._asked.add(instance_id)
                self.spawn_task(self._tag(instance_id, tags), f"tags of {instance_id}")

    def _tags(self, lease: Lease) -> dict[str, str]:
        return {
            STORE: self.store_id,
            LEASE: lease.lease_id,
            USER: tag_value(lease.user),
            NAME: tag_value(f"{lease.user} {lease.server}".strip()),
        }

    async def _tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        try:
            await self.cloud.tag([instance_id], tags)
        except CloudError as error:
            log.warning("Tagging %s: %s; trying again", instance_id, error)
            self._asked.discard(instance_id)
