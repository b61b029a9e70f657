"""Scheduled snapshots of homes, leftovers of moves, and the deletion of homes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ...core.homes.snapshot_schedule import Copy, is_due, too_many
from ...core.tags import HOME, MOVE, SNAPSHOT, STORE
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.volume import Volume, VolumeSnapshot
from ..model.leases.lease import Home
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .server_copies import COPY, awaited_copies
from .storage_costs import StorageCosts
from .volumes import HomeVolumes

log = logging.getLogger(__name__)

SCAN_INTERVAL = 900.0
"""Seconds of uptime between two scans of all volumes and snapshots of the hub."""

RETRY_INTERVAL = 60.0
"""The same after a scan that failed, and between two attempts to delete a home."""

ORPHAN_GRACE = timedelta(minutes=10)
"""Age below which a snapshot of an unknown migration is not deleted."""

SCHEDULED = "scheduled"


@dataclass(slots=True)
class HomeSnapshots:
    """Scheduled snapshots of homes, and the permanent deletion of homes, in the background."""

    state: State
    cloud: Cloud
    volumes: HomeVolumes
    costs: StorageCosts
    tasks: TaskGroup
    _next_scan: float = 0.0
    """Uptime in seconds, as the next."""
    _next_deletion: float = 0.0
    _scanning: bool = False
    _deleting: bool = False
    _asked: dict[str, float] = field(default_factory=dict)
    """By home id: uptime at which its last snapshot was requested, in seconds. The response may be
    lost, and no listing may show the snapshot yet."""
    _made: dict[str, float] = field(default_factory=dict)
    """By home id: uptime at which this process made its last snapshot, in seconds. Its age is
    measured by EC2's clock, and ours may be ahead: each scan would make another one, and push an
    older state out."""
    _empty_scans: dict[str, int] = field(default_factory=dict)
    """By id of a home that is being deleted: how many scans in a row, `RETRY_INTERVAL` apart, have
    found nothing of it."""

    async def reconcile(self, now: datetime) -> None:
        """Scan, and delete homes, when due."""
        await self._leave_temporary_homes(now)
        uptime = self.state.clock.uptime()
        if not self._scanning and uptime >= self._next_scan:
            self._scanning = True
            self.tasks.spawn(self._scan(), "scan of homes")
        if self.state.homes.leaving() and not self._deleting and uptime >= self._next_deletion:
            self._deleting = True
            self.tasks.spawn(self._delete_homes(), "delete homes")

    async def _scan(self) -> None:
        self._next_scan = self.state.clock.uptime() + RETRY_INTERVAL
        try:
            listed_at = self.state.clock.now()
            volumes = await self.cloud.list_volumes(self.state.settings.hub)
            await self.volumes.listing.compare(volumes)
            copies = await self.cloud.list_snapshots(self.state.settings.hub)
            snapshots = self._ours(copies)
            self._remember_newest(snapshots)
            self.tasks.spawn(self.costs.count(volumes, copies, listed_at), "cost of homes")
            self.tasks.spawn(self.volumes.listing.tag_payers(volumes), "payers of homes")
            await self._make_what_is_due(volumes, snapshots)
            await self._delete_what_is_too_much(snapshots)
            self._next_scan = self.state.clock.uptime() + SCAN_INTERVAL
        finally:
            self._scanning = False

    def _ours(self, listed: Sequence[VolumeSnapshot]) -> list[VolumeSnapshot]:
        """Those of this store: snapshots of another store are never touched."""
        return [s for s in listed if s.tags.get(STORE) == self.state.store_id and HOME in s.tags]

    def _remember_newest(self, snapshots: Sequence[VolumeSnapshot]) -> None:
        complete = [each for each in snapshots if each.state == "completed"]
        ordered = sorted(complete, key=lambda each: each.started_at)
        self.state.homes.newest = {each.tags[HOME]: each for each in ordered}

    # --- by schedule ---

    async def _make_what_is_due(
        self, volumes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot]
    ) -> None:
        schedule = self.state.settings.home.schedule
        if schedule is None:
            return
        lately = self.state.clock.uptime() - RETRY_INTERVAL
        self._asked = {home_id: at for home_id, at in self._asked.items() if at > lately}
        enough = self.state.clock.uptime() - schedule.every + SCAN_INTERVAL
        self._made = {home_id: at for home_id, at in self._made.items() if at > enough}
        done = self._asked.keys() | self._made.keys()
        # Nobody has written to a home that is attached ahead of a start.
        ahead = {kept.instance_id for kept in self.state.retained.of_users() if kept.is_ahead}
        ahead -= {lease.instance_id for lease in self.state.leases.open()}
        in_use = {each.volume_id for each in volumes if each.attached_to not in {None, *ahead}}
        there = {volume.volume_id for volume in volumes}
        for home in self.state.homes.live():
            if home.is_temporary:
                continue
            if home.volume_id not in there or home.move is not None or home.home_id in done:
                continue
            due = is_due(
                schedule,
                _scheduled(home, snapshots),
                made_at=home.created_at,
                used_at=home.used_at,
                in_use=home.volume_id in in_use,
                now=self.state.clock.now(),
            )
            if due:
                await self._make(home)

    async def _make(self, home: Home) -> None:
        assert home.volume_id is not None
        self._asked[home.home_id] = self.state.clock.uptime()
        tags = {**self.state.homes.tags(home), SNAPSHOT: SCHEDULED}
        try:
            copy = await self.cloud.create_snapshot(home.volume_id, tags)
            self._made[home.home_id] = self.state.clock.uptime()
            if self.state.homes.find(home.home_id) is None:  # deleted for good meanwhile
                await self.cloud.delete_snapshot(copy.snapshot_id)
        except CloudError as error:
            if error.retryable:
                raise
            log.error("No snapshot of %s of %r: %s", home.volume_id, home.user, error)

    async def _delete_what_is_too_much(self, snapshots: Sequence[VolumeSnapshot]) -> None:
        """Without a schedule no snapshot is deleted: the existing ones may be the last."""
        schedule = self.state.settings.home.schedule
        unwanted: list[str] = []
        for home in self.state.homes.live() if schedule is not None else ():
            assert schedule is not None
            unwanted += too_many(schedule.keep, _scheduled(home, snapshots))
        unwanted += self._orphans(snapshots)
        for snapshot_id in unwanted:
            try:
                await self.cloud.delete_snapshot(snapshot_id)
            except CloudError as error:
                if error.retryable:
                    raise
                log.warning("%s cannot be deleted: %s", snapshot_id, error)

    def _orphans(self, snapshots: Sequence[VolumeSnapshot]) -> list[str]:
        """Second snapshots of moves and copies: a response was lost, and they were not listed at
        the end. And those of copies that no start waits for any more."""
        moves = {home.move.move_id for home in self.state.homes.live() if home.move is not None}
        awaited = {home.home_id for home in awaited_copies(self.state)}
        before = self.state.clock.now() - ORPHAN_GRACE
        return [
            each.snapshot_id
            for each in snapshots
            if each.started_at < before
            and (
                (MOVE in each.tags and each.tags[MOVE] not in moves)
                or (each.tags.get(SNAPSHOT) == COPY and each.tags[HOME] not in awaited)
            )
        ]

    # --- homes that are deleted for good ---

    async def _leave_temporary_homes(self, now: datetime) -> None:
        """Those whose server has ended, whoever ended it. Raises `StoreError`."""
        homes = self.state.homes
        for home in (*homes.live(), *homes.temporary_without_record()):
            # A successor on another instance is a lease of the same server.
            if home.is_temporary and self.state.leases.of_server(home.user, home.server) is None:
                log.info("The temporary home %s of %r is deleted", home.volume_id, home.user)
                await homes.leave(home)
                await self.state.sleeping.forget(home.user, home.server, now)

    async def _delete_homes(self) -> None:
        self._next_deletion = self.state.clock.uptime() + RETRY_INTERVAL
        try:
            for home in self.state.homes.leaving():
                try:
                    await self._delete(home)
                except CloudError as error:
                    log.warning("The home %s cannot go yet: %s", home.volume_id, error)
        finally:
            self._deleting = False

    async def _delete(self, home: Home) -> None:
        """Delete what is found of it; forget it once several scans in a row have found nothing.

        Listings lag: a snapshot made seconds ago may be in none of them, and would never be
        deleted. Raises `CloudError`, also while an instance holds its volume: retried later.
        """
        scans = self._empty_scans.pop(home.home_id, 0)
        listed = await self.cloud.list_volumes(self.state.settings.hub)
        mine = {HOME: home.home_id, STORE: self.state.store_id}.items()
        volumes = [volume.volume_id for volume in listed if mine <= volume.tags.items()]
        for volume_id in volumes:
            await self.cloud.delete_volume(volume_id)
        snapshots = self._ours(await self.cloud.list_snapshots(self.state.settings.hub))
        copies = [each.snapshot_id for each in snapshots if each.tags[HOME] == home.home_id]
        for snapshot_id in copies:
            await self.cloud.delete_snapshot(snapshot_id)
        scans = 0 if volumes or copies else scans + 1
        if scans < self.state.settings.missing_listings:
            self._empty_scans[home.home_id] = scans
            return
        await self.state.homes.forget(home)
        log.warning("The home %s of %r is deleted for good", home.volume_id, home.user)


def _scheduled(home: Home, snapshots: Sequence[VolumeSnapshot]) -> list[Copy]:
    return [
        Copy(each.snapshot_id, each.started_at, each.state)
        for each in snapshots
        if each.tags[HOME] == home.home_id and each.tags.get(SNAPSHOT) == SCHEDULED
    ]
