"""The instances that are retained for their users after a stop: each change is stored first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from datetime import timedelta

from ...core.instances.retention_rules import Kept, moved_with_clock
from ..model.cloud import GONE, Instance
from ..model.launch_key import fit_key_of
from ..model.lease import Lease
from ..runtime.clock import Clock
from ..store.store import Store, StoreError

log = logging.getLogger(__name__)


class RetainedInstances:
    """All that are retained, in memory and in the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        """By instance id."""

    def load(self, kept: Sequence[Kept]) -> None:
        """Take over what an earlier process has stored."""
        self._kept = {each.instance_id: each for each in kept}

    # --- reading ---

    def get(self, instance_id: str) -> Kept | None:
        """How an instance is retained; None if it is not."""
        return self._kept.get(instance_id)

    @property
    def instance_ids(self) -> Set[str]:
        """Of all that are retained."""
        return self._kept.keys()

    def all(self) -> Iterator[Kept]:
        """All that are retained, in any state."""
        return iter(list(self._kept.values()))

    def holds(self, instance_id: str) -> bool:
        """Whether the instance is retained, in any state."""
        return instance_id in self._kept

    def holds_for(self, lease: Lease) -> bool:
        """True where the lease's instance is retained after it: its agent has stopped in order."""
        kept = self._kept.get(lease.instance_id or "")
        return kept is not None and kept.lease_id == lease.lease_id

    def of_server(self, user: str, server: str) -> tuple[Kept, ...]:
        """What is retained for a server and still has time, the latest last."""
        now = self._clock.now()
        mine = [k for k in self._kept.values() if (k.user, k.server) == (user, server)]
        return tuple(sorted((k for k in mine if k.until > now), key=lambda k: k.kept_at))

    # --- changing ---

    async def retain(self, lease: Lease, instance: Instance | None) -> Kept | None:
        """Retain the instance of a lease that has ended in order; None where that cannot be.

        Retention acts on it in the pass: an instance that shall be stopped is stopped.
        """
        kept = self._kept.get(lease.instance_id or "") or self._new(lease, instance)
        if kept is None:
            return None
        try:
            await self.save(kept)
        except StoreError as error:
            log.error("%s cannot be kept: %s", kept.instance_id, error)
            return None
        log.info("%s of %r is kept: %s", kept.instance_id, kept.user, kept.then)
        return kept

    def _new(self, lease: Lease, instance: Instance | None) -> Kept | None:
        if instance is None or instance.state in GONE or lease.stop is None:
            return None
        now = self._clock.now()
        return Kept(
            instance_id=instance.instance_id,
            user=lease.user,
            server=lease.server,
            lease_id=lease.lease_id,
            profile=lease.profile,
            profile_name=lease.profile_name,
            then=lease.stop.then,
            fit_key=fit_key_of(lease.spec, lease.stop.then),
            kept_at=now,
            until=now + timedelta(seconds=lease.after_stop.seconds),
            launched_at=instance.launched_at,
            disk_gib=lease.spec.disk_gib,
        )

    async def save(self, kept: Kept) -> None:
        """Raises `StoreError`, and then nothing has changed: what is done must be stored before."""
        before = self._kept.get(kept.instance_id)
        self._kept[kept.instance_id] = kept
        try:
            await asyncio.shield(self._store.save_kept(kept))
        except StoreError:
            if self._kept.get(kept.instance_id) is kept:
                del self._kept[kept.instance_id]
                if before is not None:
                    self._kept[kept.instance_id] = before
            raise

    async def forget(self, instance_id: str) -> None:
        """It has a lease again, or is gone. Raises `StoreError`."""
        if self._kept.pop(instance_id, None) is not None:
            await asyncio.shield(self._store.forget_kept(instance_id))

    async def take_start_back(self, instance_id: str) -> None:
        """Forget that it was started: the next pass stops it, and starts it again for a lease that
        waits for it. Raises `StoreError`, and then nothing has changed."""
        await self.save(replace(self._kept[instance_id], started_for=""))

    async def give_up(self, user: str, server: str) -> None:
        """End the retention of a server's instances. Raises `StoreError`."""
        now = self._clock.now()
        for kept in self.of_server(user, server):
            await self.save(replace(kept, until=now))

    async def rename(self, user: str, server: str, new: str) -> None:
        """What is retained for a server waits for it under its new name. Raises `StoreError`."""
        for kept in self.of_server(user, server):
            await self.save(replace(kept, server=new))

    def clock_was_set(self, by: timedelta) -> bool:
        """Adjust wall-clock instants. True if `save_all` must follow."""
        if not by or not self._kept:
            return False
        now = self._clock.now()
        self._kept = {each: moved_with_clock(kept, by, now) for each, kept in self._kept.items()}
        return True

    async def save_all(self) -> None:
        """Store all of them as they are. Raises `StoreError`."""
        for instance_id in list(self._kept):
            if kept := self._kept.get(instance_id):
                await self.save(kept)
