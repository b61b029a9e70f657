"""The instances that are retained for their users after a stop: each change is stored first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

from ....core.instances.retention_rules import Kept, moved_with_clock
from ...model.cloud.instance import GONE, Instance
from ...model.launch_key import fit_key_of
from ...model.leases.lease import Lease
from ...runtime.clock import Clock
from ...store.store import Store, StoreError

log = logging.getLogger(__name__)


class RetainedInstances:
    """All that are retained, for their user or in the warm pool, in memory and in the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        """By instance id."""
        self._withheld: set[tuple[str, str]] = set()
        """Users with a server that is starting afresh."""

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
        """All that are retained for a user, or stopped in the warm pool, in any state."""
        return iter(list(self._kept.values()))

    def of_users(self) -> Iterator[Kept]:
        """Those that wait for their user."""
        return (kept for kept in self.all() if not kept.is_of_pool)

    def of_pool(self) -> Iterator[Kept]:
        """Those of the warm pool, which have had no user."""
        return (kept for kept in self.all() if kept.is_of_pool)

    def holds(self, instance_id: str) -> bool:
        """Whether the instance is retained, in any state."""
        return instance_id in self._kept

    def holds_for(self, lease: Lease) -> bool:
        """Whether the lease's instance is retained after it: its agent has stopped."""
        kept = self._kept.get(lease.instance_id or "")
        return kept is not None and kept.lease_id == lease.lease_id

    def of_server(self, user: str, server: str) -> tuple[Kept, ...]:
        """What is retained for a server and still has time, the latest last."""
        now = self._clock.now()
        mine = [k for k in self._kept.values() if (k.user, k.server) == (user, server)]
        return tuple(sorted((k for k in mine if k.until > now), key=lambda k: k.kept_at))

    def is_withheld(self, kept: Kept) -> bool:
        """Whether no start may take it now, because its server is starting afresh."""
        return (kept.user, kept.server) in self._withheld

    # --- changing ---

    @contextmanager
    def given_up_with(self, lease: Lease) -> Iterator[tuple[Kept, ...]]:
        """What is retained for the server of a lease that starts afresh, as it is to be stored
        with that lease.

        Until it is stored, nothing is done about it; if that fails it is retained as before. The
        caller stays in this context until the outcome is known, also where a start is cancelled.
        """
        before, until = self.of_server(lease.user, lease.server), lease.requested_at
        given_up = tuple(replace(kept, until=min(until, self._clock.now())) for kept in before)
        self._kept.update({kept.instance_id: kept for kept in given_up})
        self._withheld.add((lease.user, lease.server))
        try:
            yield given_up
        except Exception:
            for kept in before:
                if now := self._kept.get(kept.instance_id):
                    self._kept[kept.instance_id] = replace(now, until=kept.until)
                    # What timed out is stored nevertheless.
                    write = partial(self._save_as_it_is, kept.instance_id)
                    self._store.write_behind.later(kept.instance_id, write)
            raise
        finally:
            self._withheld.discard((lease.user, lease.server))

    async def retain(self, lease: Lease, instance: Instance | None) -> Kept | None:
        """Retain the instance of a lease that has ended in order; None where that cannot be.

        Retention acts on it in the pass: an instance that shall be stopped is stopped.
        """
        kept = self._kept.get(lease.instance_id or "")
        # One of an earlier lease is about to be forgotten.
        if kept is None or kept.lease_id != lease.lease_id:
            kept = self._new(lease, instance)
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
            disk_usd_per_month=lease.segments[-1].disk_usd_per_month if lease.segments else None,
            payer=lease.payer,
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

    async def _save_as_it_is(self, instance_id: str) -> None:
        if kept := self._kept.get(instance_id):
            await self._store.save_kept(kept)

    def is_current(self, kept: Kept) -> bool:
        """Whether the instance is still retained after the same lease: a start may have taken it
        meanwhile, and its end retained it anew."""
        now = self._kept.get(kept.instance_id)
        return now is not None and now.lease_id == kept.lease_id

    async def forget(self, kept: Kept) -> None:
        """It has a lease again, or is gone; does nothing unless it is current. Raises
        `StoreError`."""
        if self.is_current(kept):
            await self.forget_instance(kept.instance_id)

    async def forget_instance(self, instance_id: str) -> None:
        """The same, after whatever lease it is retained. Raises `StoreError`."""
        if self._kept.pop(instance_id, None) is not None:
            await asyncio.shield(self._store.forget_kept(instance_id))

    async def take_start_back(self, instance_id: str) -> None:
        """Forget that it was started: the next pass stops it, and starts it again for a lease that
        waits for it. Raises `StoreError`, and then nothing has changed."""
        await self.save(replace(self._kept[instance_id], started_for=""))

    async def give_up(self, user: str, server: str) -> None:
        """End the retention of a server's instances, for all starts requested from now on: earlier
        ones may still have them. Raises `StoreError`."""
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
