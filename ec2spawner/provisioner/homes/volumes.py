"""Homes on EBS: a volume per server, with one writer, in one zone, never lost.

A volume is made once, under a token that is stored first, in a zone that is stored first. What
the records say is compared with what EC2 lists: a volume whose creation was not answered, or that
an admin made from a snapshot under the home's tag, is taken up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.homes.zone_migration import LISTING_GRACE
from ...core.names import client_token, tag_value
from ...core.tags import (
    HOME,
    SERVER,
    STORE,
    USER,
)
from ..model.cloud import (
    Cloud,
    CloudError,
    Instance,
    Volume,
    VolumeSnapshot,
    VolumeSpec,
)
from ..model.lease import Home, Lease
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)

ATTACH_TIMEOUT = 120.0
"""Seconds until a home is given up that cannot be made or attached: an instance that is
terminated lets go within this."""

ATTACH_PAUSE = 1.0
"""Seconds between two tries."""

READINGS_UNTIL_GONE = 10
"""Readings in a row without a volume before it counts as deleted: listings lag."""

MAY_PASS = frozenset({"VolumeInUse", "IncorrectState", "IdempotentParameterMismatch"})
"""Refusals that another try may not meet."""

TOO_SOON = frozenset({"VolumeModificationRateExceeded", "IncorrectModificationState"})
"""EC2 changes a volume's size only so often: AWS documents four times in 24 hours, each after the
one before is complete, and has documented six hours between two."""

ENDING_STATES = frozenset({"deleting", "deleted", "error"})


class HomeGone(Exception):
    """The volume of a home was deleted in EC2, and not by us."""

    def __init__(self, home: Home, newest: VolumeSnapshot | None) -> None:
        copy = f"; its newest snapshot is {newest.snapshot_id}" if newest else ""
        super().__init__(f"{home.volume_id} of {home.user!r} does not exist any more{copy}")
        self.home = home
        self.newest = newest


class HomeElsewhere(Exception):
    """The home is in another zone than the instance."""

    def __init__(self, home: Home) -> None:
        super().__init__(f"the home is in {home.zone}")
        self.home = home


class HomeVolumes:
    """The volumes of the recorded homes in EC2: found, made, grown, attached, let go."""

    def __init__(self, state: State, cloud: Cloud) -> None:
        self._records = state.homes
        self._clock = state.clock
        self._settings = state.settings
        self._store_id = state.store_id
        self._cloud = cloud
        self._compared = False
        """With the cloud's volumes, since this process began."""
        self._foreign: dict[tuple[str, str], str] = {}
        """Volume ids of homes that another store of this hub made, by tags of user and server, as
        the last look showed them."""

    # --- what EC2 shows ---

    async def take_up_volumes(self) -> None:
        """Compare the cloud's volumes with the records. Raises `CloudError`.

        A volume of this store that its record does not name yet (a crash between its creation
        and the record) is recorded, one without any record is remembered for its user. One of
        another store is never touched, but remembered too: its user must not silently get an
        empty home instead.
        """
        await self.compare(await self._cloud.list_volumes(self._settings.hub))

    async def compare(self, volumes: Sequence[Volume]) -> None:
        """The same with a complete listing. Raises `CloudError`."""
        by_home: dict[str, list[Volume]] = {}
        foreign: dict[tuple[str, str], str] = {}
        for volume in volumes:
            home_id, owner = volume.tags.get(HOME), _owner_tags(volume.tags)
            if not home_id or volume.state in ENDING_STATES:
                continue
            if volume.tags.get(STORE) == self._store_id:
                by_home.setdefault(home_id, []).append(volume)
            else:
                foreign[owner] = volume.volume_id
        self._foreign = foreign
        listed = {volume.volume_id for volume in volumes}
        for home in self._records.live():
            await self._compare_one(home.home_id, by_home.pop(home.home_id, []), listed)
        newest = {home_id: _newest(found) for home_id, found in by_home.items()}
        self._records.remember_found(newest)
        self._compared = True

    async def _compare_one(self, home_id: str, found: Sequence[Volume], listed: set[str]) -> None:
        home = self._records.find(home_id)
        if home is None:
            return
        await self._follow_tags(home, found)
        if home.volume_id is None:
            if found:
                await self._take_up(home, _newest(found))
            elif home.zone is not None and self._clock.now() - home.created_at > LISTING_GRACE:
                # It was never made: any zone will do. If it exists after all, a listing shows it.
                await self._records.save(replace(home, zone=None))
            return
        if home.volume_id in listed or home.move is not None or not found:
            return
        if await self._cloud.volume(home.volume_id) is None and self._records.find(home_id) is home:
            await self._take_up(home, _newest(found))

    async def _take_up(self, home: Home, volume: Volume) -> None:
        self._records.gone.discard(home.home_id)
        log.info("Home %s taken up again for %r", volume.volume_id, home.user)
        await self._records.save(
            replace(home, volume_id=volume.volume_id, zone=volume.zone, size_gib=volume.size_gib)
        )

    async def restore(self, home: Home) -> None:
        """Record a home whose record was lost with the store, and make its volume ours."""
        if home.volume_id is None or self._records.of(home.user, home.server) is not None:
            return
        await self._cloud.tag([home.volume_id], {STORE: self._store_id})
        self._foreign.pop((tag_value(home.user), tag_value(home.server)), None)
        await self._records.save(home)

    async def _follow_tags(self, home: Home, found: Sequence[Volume]) -> None:
        """Tag the volumes of a home that was renamed as its record says: they are found by that
        where the store is lost. What fails is done at the next look."""
        tags = self._records.tags(home)
        differ = [each.volume_id for each in found if _owner_tags(each.tags) != _owner_tags(tags)]
        if not differ:
            return
        try:
            await self._cloud.tag(differ, tags)
        except CloudError as error:
            log.warning("Tagging %s for %r: %s", ", ".join(differ), home.server, error)

    # --- a volume for a lease ---

    async def ensure_volume(self, lease: Lease, zone: str) -> Home:
        """The lease's home with a volume; a first one is made in `zone`.

        Raises `CloudError`, and `HomeElsewhere` where it is in another zone.
        """
        home = self._records.of(lease.user, lease.server)
        if (home is None or home.volume_id is None) and not self._compared:
            await self.take_up_volumes()
            home = self._records.of(lease.user, lease.server)
        if home is None:
            self._refuse_foreign(lease)
            home = Home(
                home_id=client_token("home"),
                user=lease.user,
                server=lease.server,
                kind=lease.home_kind,
                size_gib=lease.home_gib,
                created_at=self._clock.now(),
            )
        if not self._records.is_recorded(home) or home.zone is None:
            home = await self._records.save(replace(home, zone=home.zone or zone))
        if home.zone != zone:
            raise HomeElsewhere(home)
        return home if home.volume_id is not None else await self._make_volume(home, zone)

    def _refuse_foreign(self, lease: Lease) -> None:
        foreign = self._foreign.get((tag_value(lease.user), tag_value(lease.server)))
        if foreign is not None:
            message = _foreign_message(foreign, self._store_id)
            raise CloudError("ForeignHome", message, retryable=False)

    async def _make_volume(self, home: Home, zone: str) -> Home:
        token = home.volume_token or home.home_id
        spec = self.spec(home.size_gib, home.from_snapshot)
        try:
            volume = await self._cloud.create_volume(token, zone, spec, self._records.tags(home))
        except CloudError as error:
            if error.code == "IdempotentParameterMismatch":
                return await self._find_what_was_made(home, zone, error)
            if not error.retryable:
                await self._was_not_made(home)
            raise
        return await self._records.save(replace(home, volume_id=volume.volume_id, zone=volume.zone))

    async def _find_what_was_made(self, home: Home, zone: str, error: CloudError) -> Home:
        """An earlier call whose answer was lost made the volume, in another zone or kind."""
        await self.take_up_volumes()
        home = self._records.find(home.home_id) or home
        if home.volume_id is None:
            if self._clock.now() - home.created_at > LISTING_GRACE:  # and it has been deleted since
                await self._records.save(
                    replace(home, zone=zone, volume_token=client_token("home"))
                )
            raise error
        if home.zone != zone:
            raise HomeElsewhere(home)
        return home

    async def _was_not_made(self, home: Home) -> None:
        """EC2 refused it: the next start may try another zone."""
        if home.from_snapshot:
            self._records.gone.add(home.home_id)
        await self._records.save(replace(home, zone=None))

    async def grow(self, home: Home, wanted_gib: int) -> tuple[Home, str]:
        """The home with at least so much room where EC2 allows it; else why not, in words.

        A home is never made smaller. What fails here fails no start: the files are there.
        """
        if wanted_gib < home.size_gib:
            return home, f"Your home stays at {home.size_gib} GiB: a volume cannot be made smaller"
        if wanted_gib == home.size_gib or home.volume_id is None:
            return home, ""
        try:
            volume = await self._cloud.volume(home.volume_id)
            if volume is None or volume.size_gib < wanted_gib:
                await self._cloud.modify_volume(home.volume_id, wanted_gib)
        except CloudError as error:
            log.warning("%s does not grow to %d GiB: %s", home.volume_id, wanted_gib, error)
            if error.code in TOO_SOON:
                why = "EC2 has changed its size too lately"
            else:
                why = f"EC2 says: {error.message}" if not error.retryable else "EC2 is busy"
            return home, (
                f"Your home stays at {home.size_gib} GiB for now: {why}. A later start grows it"
            )
        size_gib = max(wanted_gib, volume.size_gib if volume else 0)
        log.info("%s of %r has %d GiB now", home.volume_id, home.user, size_gib)
        now = self._records.find(home.home_id)
        if now is None or now.volume_id != home.volume_id:
            return home, ""  # it has moved, or goes for good, while EC2 took its time
        return await self._records.save(replace(now, size_gib=size_gib)), ""

    async def attach(self, lease: Lease, instance: Instance, wanted: Callable[[], bool]) -> None:
        """Attach the lease's home, waiting while another instance holds it and it is `wanted`.

        EC2's own view of the volume is looked at before each try, so that one which is elsewhere,
        held or gone is known as that. Raises `HomeGone`, `HomeElsewhere`, and `CloudError`, with
        code `VolumeInUse` when it was not let go in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ATTACH_TIMEOUT
        missing = 0
        while wanted():
            home = self._records.of(lease.user, lease.server)
            assert home is not None
            assert home.volume_id is not None
            try:
                volume = await self._cloud.volume(home.volume_id)
                missing = missing + 1 if volume is None else 0
                if missing >= READINGS_UNTIL_GONE:
                    await self._is_gone(home)
                if (
                    volume is not None
                    and self._records.of(lease.user, lease.server) == home
                    and wanted()
                ):
                    await self._attach(home, volume, instance)
                    return
            except CloudError as error:
                may_pass = error.retryable or error.code in MAY_PASS
                if not may_pass or loop.time() + ATTACH_PAUSE >= deadline:
                    raise
                log.info("Home %s cannot be attached yet: %s", home.volume_id, error)
            await asyncio.sleep(ATTACH_PAUSE)

    async def _attach(self, home: Home, volume: Volume, instance: Instance) -> None:
        if volume.zone != instance.zone:
            home = await self._records.save(replace(home, zone=volume.zone))
            raise HomeElsewhere(home)
        if volume.attached_to not in {None, instance.instance_id}:
            said = f"{volume.attached_to} still holds {volume.volume_id}"
            raise CloudError("VolumeInUse", said, retryable=False)
        now, move = self._clock.now(), home.move
        if move is not None and move.volume_id is not None and move.opened_at is None:
            move = replace(move, opened_at=now)
        await self._records.save(replace(home, used_at=now, move=move))
        await self._cloud.attach_volume(volume.volume_id, instance.instance_id)

    async def _is_gone(self, home: Home) -> None:
        """Unless there is another one in its place: an admin's, or that from which it has moved.
        Raises `HomeGone`, `HomeElsewhere`."""
        await self.take_up_volumes()
        if self._records.find(home.home_id) != home:
            return
        await self._back_to_the_old_one(home)
        self._records.gone.add(home.home_id)
        newest = self._records.newest.get(home.home_id)
        log.error(
            "%s of %r/%r does not exist any more. Fix: make a volume with the tags %s in any zone "
            "of this hub%s, and start the server again",
            home.volume_id,
            home.user,
            home.server,
            self._records.tags(home),
            f" from {newest.snapshot_id}" if newest else "",
        )
        raise HomeGone(home, newest)

    async def _back_to_the_old_one(self, home: Home) -> None:
        """The volume from which it moved is there until a server got ready with the new one.
        Raises `HomeElsewhere` where it is the home again."""
        move = home.move
        if move is None or move.volume_id != home.volume_id:
            return
        old = await self._cloud.volume(move.from_volume_id)
        if old is None or old.state in ENDING_STATES or self._records.find(home.home_id) != home:
            return
        log.error(
            "%s of %r/%r does not exist any more: %s, from which it moved, is the home again",
            home.volume_id,
            home.user,
            home.server,
            old.volume_id,
        )
        move = move.given_up(old.volume_id, self._clock.now())
        back = replace(home, volume_id=old.volume_id, zone=old.zone, move=move)
        raise HomeElsewhere(await self._records.save(back))

    async def replace_gone(self, home: Home, snapshot_id: str) -> None:
        """Let the next start make a new volume, from a snapshot of this home or, without one,
        empty. Raises `CloudError`, with code `HomeExists` while the volume is there."""
        if home.volume_id is not None and await self._is_there(home.home_id, home.volume_id):
            said = f"the home's volume {home.volume_id} is there"
            raise CloudError("HomeExists", said, retryable=False)
        size = home.size_gib
        if snapshot_id:
            listed = await self._cloud.list_snapshots(self._settings.hub)
            size = max(size, self._own_snapshot(home, listed, snapshot_id).size_gib)
        log.warning("A new volume replaces %s of %r", home.volume_id, home.user)
        self._records.gone.discard(home.home_id)
        await self._records.save(
            replace(
                home,
                volume_id=None,
                zone=None,
                size_gib=size,
                volume_token=client_token("home"),
                from_snapshot=snapshot_id,
                created_at=self._clock.now(),
                move=None,
            )
        )

    async def _is_there(self, home_id: str, volume_id: str) -> bool:
        """Looks until it is seen, or has not been for as many times as count: listings lag. One
        that was found gone already has been looked for so often."""
        for _ in range(1 if home_id in self._records.gone else READINGS_UNTIL_GONE):
            if await self._cloud.volume(volume_id) is not None:
                return True
            await asyncio.sleep(ATTACH_PAUSE)
        return False

    def _own_snapshot(
        self, home: Home, listed: Sequence[VolumeSnapshot], snapshot_id: str
    ) -> VolumeSnapshot:
        for snapshot in listed:
            if snapshot.snapshot_id == snapshot_id and snapshot.tags.get(HOME) == home.home_id:
                return snapshot
        said = f"{snapshot_id} is no snapshot of this home"
        raise CloudError("InvalidSnapshot.NotFound", said, retryable=False)

    async def detach(self, lease: Lease) -> None:
        """Detach the lease's volume; a failure is logged, since the instance's end frees it."""
        home = self._records.for_lease(lease)
        if home is None or home.volume_id is None or lease.instance_id is None:
            return
        try:
            await self._cloud.detach_volume(home.volume_id, lease.instance_id)
            if (now := self._records.find(home.home_id)) is not None:
                await self._records.save(replace(now, used_at=self._clock.now()))
        except (CloudError, StoreError) as error:
            log.warning("Detaching %s of %s: %s", home.volume_id, lease.lease_id, error)

    def spec(self, size_gib: int, snapshot_id: str = "") -> VolumeSpec:
        """The volume of a new home, or of a copy if `snapshot_id` is given."""
        rules = self._settings.home
        return VolumeSpec(
            size_gib=size_gib,
            snapshot_id=snapshot_id,
            volume_type=rules.volume_type,
            encrypted=rules.encrypted,
            kms_key=rules.kms_key,
        )


def _newest(volumes: Sequence[Volume]) -> Volume:
    def age(volume: Volume) -> tuple[Any, ...]:
        made = volume.created_at
        return (volume.attached_to is not None, made is not None, made, volume.volume_id)

    return max(volumes, key=age)


def _owner_tags(tags: Mapping[str, str]) -> tuple[str, str]:
    return tags.get(USER, ""), tags.get(SERVER, "")


def _foreign_message(volume_id: str, store_id: str) -> str:
    return (
        f"the home of this server is {volume_id}, which another store of this hub made. "
        f"If that store is lost, an administrator can hand the volume over: set its tag "
        f"{STORE} to {store_id} and restart the hub"
    )
