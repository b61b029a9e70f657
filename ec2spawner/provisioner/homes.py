"""Homes on EBS: a volume per server, with one writer, in one zone, never lost.

A volume is made once, under a token that is stored first, in a zone that is stored first. What
the records say is compared with what EC2 lists: a volume whose creation was not answered, or that
an admin made from a snapshot under the home's tag, is taken up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..core.moves import LISTING_GRACE
from ..core.names import client_token, tag_value
from ..core.tags import HOME, HUB, NAME, SERVER, STORE, USER
from .cloud import Cloud, CloudError, Instance, Volume, VolumeSnapshot, VolumeSpec
from .lease import Home, Lease
from .settings import Settings
from .store import Store, StoreError

log = logging.getLogger(__name__)

ATTACH_TIMEOUT = 120.0
"""Seconds until a home is given up that cannot be made or attached: an instance that is
terminated lets go within this."""

ATTACH_PAUSE = 1.0
"""Seconds between two tries."""

LOOKS_UNTIL_GONE = 10
"""So many looks in a row must not show a volume before it counts as deleted: listings lag."""

MAY_PASS = frozenset({"VolumeInUse", "IncorrectState", "IdempotentParameterMismatch"})
"""Refusals that another try may not meet."""

TOO_SOON = frozenset({"VolumeModificationRateExceeded", "IncorrectModificationState"})
"""EC2 changes a volume's size at most so often: AWS documents six hours between two changes."""

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


class Homes:
    """The records of all homes, and their volumes."""

    def __init__(
        self, cloud: Cloud, store: Store, settings: Settings, *, now: Callable[[], datetime]
    ) -> None:
        self._cloud = cloud
        self._store = store
        self._settings = settings
        self._now = now
        self._homes: dict[tuple[str, str], Home] = {}
        self._leaving: dict[str, Home] = {}
        """Homes that are being deleted for good, by id."""
        self._compared = False
        """With the cloud's volumes, since this process began."""
        self._found: dict[tuple[str, str], Volume] = {}
        """Volumes of this store without a record, by tags of user and server: handed over."""
        self._foreign: dict[tuple[str, str], str] = {}
        """Volume ids of homes that another store of this hub made, by tags of user and server."""
        self.newest: dict[str, VolumeSnapshot] = {}
        """The newest complete snapshot of each home, by its id, as the last look showed it."""
        self.gone: set[str] = set()
        """Ids of the homes whose volume was found deleted when it was wanted."""

    def load(self, homes: Iterable[Home]) -> None:
        homes = tuple(homes)
        self._homes = {(h.user, h.server): h for h in homes if h.delete_at is None}
        self._leaving = {h.home_id: h for h in homes if h.delete_at is not None}

    # --- reading, from memory ---

    def of(self, user: str, server: str) -> Home | None:
        """The home of a server: as recorded, or as a volume's tags say it is theirs."""
        home = self._homes.get((user, server))
        volume = self._found.get((tag_value(user), tag_value(server)))
        if home is not None or volume is None or volume.tags[HOME] in self._leaving:
            return home
        return Home(
            home_id=volume.tags[HOME],
            user=user,
            server=server,
            kind="ebs",
            size_gib=volume.size_gib,
            created_at=self._now(),
            volume_id=volume.volume_id,
            zone=volume.zone,
        )

    def live(self) -> tuple[Home, ...]:
        """All that are recorded and stay."""
        return tuple(self._homes.values())

    def leaving(self) -> tuple[Home, ...]:
        """All that are being deleted for good."""
        return tuple(self._leaving.values())

    def find(self, home_id: str) -> Home | None:
        """A home that stays, by id."""
        return next((home for home in self._homes.values() if home.home_id == home_id), None)

    def volume_ids(self) -> frozenset[str]:
        """The volumes of all homes that are recorded, those of a move included."""
        found: set[str | None] = set()
        for home in (*self._homes.values(), *self._leaving.values()):
            found.add(home.volume_id)
            if home.move is not None:
                found |= {home.move.from_volume_id, *home.move.discard}
        return frozenset(each for each in found if each)

    def for_lease(self, lease: Lease) -> Home | None:
        """The home that a lease uses; None where it keeps no files, whatever was kept before."""
        return self.of(lease.user, lease.server) if lease.home_kind == "ebs" else None

    def zone_of(self, user: str, server: str) -> str | None:
        """The zone that a server's home binds it to; None while any will do."""
        home = self.of(user, server)
        if home is not None and home.move is not None and home.move.volume_id is None:
            return home.move.zone
        return home.zone if home else None

    def is_moving(self, user: str, server: str) -> bool:
        """Whether its files are still on their way to another zone."""
        home = self._homes.get((user, server))
        return home is not None and home.move is not None and home.move.volume_id is None

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
        for volume in volumes:
            home_id, owner = volume.tags.get(HOME), _owner_tags(volume.tags)
            if not home_id or volume.state in ENDING_STATES:
                continue
            if volume.tags.get(STORE) == self._store.store_id:
                by_home.setdefault(home_id, []).append(volume)
            else:
                self._foreign[owner] = volume.volume_id
        listed = {volume.volume_id for volume in volumes}
        for home in self.live():
            await self._compare_one(home.home_id, by_home.pop(home.home_id, []), listed)
        self._found = {
            _owner_tags(found[0].tags): _newest(found)
            for home_id, found in by_home.items()
            if home_id not in self._leaving and self.find(home_id) is None
        }
        self._compared = True

    async def _compare_one(self, home_id: str, found: Sequence[Volume], listed: set[str]) -> None:
        home = self.find(home_id)
        if home is None:
            return
        if home.volume_id is None:
            if found:
                await self._take_up(home, _newest(found))
            elif home.zone is not None and self._now() - home.created_at > LISTING_GRACE:
                # It was never made: any zone will do. Where it comes all the same, it is seen.
                await self.save(replace(home, zone=None))
            return
        if home.volume_id in listed or home.move is not None or not found:
            return
        if await self._cloud.volume(home.volume_id) is None and self.find(home_id) is home:
            await self._take_up(home, _newest(found))

    async def _take_up(self, home: Home, volume: Volume) -> None:
        self.gone.discard(home.home_id)
        log.info("Home %s taken up again for %r", volume.volume_id, home.user)
        await self.save(
            replace(home, volume_id=volume.volume_id, zone=volume.zone, size_gib=volume.size_gib)
        )

    async def restore(self, home: Home) -> None:
        """Record a home whose record was lost with the store, and make its volume ours."""
        if home.volume_id is None or self.of(home.user, home.server) is not None:
            return
        await self._cloud.tag([home.volume_id], {STORE: self._store.store_id})
        self._foreign.pop((tag_value(home.user), tag_value(home.server)), None)
        await self.save(home)

    # --- a volume for a lease ---

    async def ensure_volume(self, lease: Lease, zone: str) -> Home:
        """The lease's home with a volume; a first one is made in `zone`.

        Raises `CloudError`, and `HomeElsewhere` where it is in another zone.
        """
        home = self.of(lease.user, lease.server)
        if (home is None or home.volume_id is None) and not self._compared:
            await self.take_up_volumes()
            home = self.of(lease.user, lease.server)
        if home is None:
            self._refuse_foreign(lease)
            home = Home(
                home_id=client_token("home"),
                user=lease.user,
                server=lease.server,
                kind=lease.home_kind,
                size_gib=lease.home_gib,
                created_at=self._now(),
            )
        if (home.user, home.server) not in self._homes or home.zone is None:
            home = await self.save(replace(home, zone=home.zone or zone))
        if home.zone != zone:
            raise HomeElsewhere(home)
        return home if home.volume_id is not None else await self._make_volume(home, zone)

    def _refuse_foreign(self, lease: Lease) -> None:
        foreign = self._foreign.get((tag_value(lease.user), tag_value(lease.server)))
        if foreign is not None:
            message = _foreign_message(foreign, self._store.store_id)
            raise CloudError("ForeignHome", message, retryable=False)

    async def _make_volume(self, home: Home, zone: str) -> Home:
        token = home.volume_token or home.home_id
        spec = self.spec(home.size_gib, home.from_snapshot)
        try:
            volume = await self._cloud.create_volume(token, zone, spec, self.tags(home))
        except CloudError as error:
            if error.code == "IdempotentParameterMismatch":
                return await self._find_what_was_made(home, zone, error)
            if not error.retryable:
                await self._was_not_made(home)
            raise
        return await self.save(replace(home, volume_id=volume.volume_id, zone=volume.zone))

    async def _find_what_was_made(self, home: Home, zone: str, error: CloudError) -> Home:
        """An earlier call whose answer was lost made the volume, in another zone or kind."""
        await self.take_up_volumes()
        home = self.find(home.home_id) or home
        if home.volume_id is None:
            if self._now() - home.created_at > LISTING_GRACE:  # and it has been deleted since
                await self.save(replace(home, zone=zone, volume_token=client_token("home")))
            raise error
        if home.zone != zone:
            raise HomeElsewhere(home)
        return home

    async def _was_not_made(self, home: Home) -> None:
        """EC2 refused it: the next start may try another zone."""
        if home.from_snapshot:
            self.gone.add(home.home_id)
        await self.save(replace(home, zone=None))

    async def grow(self, home: Home, wanted_gib: int) -> tuple[Home, str]:
        """The home with at least so much room where EC2 allows it; else why not, in words.

        A home is never made smaller. What fails here fails no start: the files are there.
        """
        if wanted_gib < home.size_gib:
            return home, f"Your home stays at {home.size_gib} GiB: a volume cannot be made smaller"
        if wanted_gib == home.size_gib or home.volume_id is None:
            return home, ""
        try:
            await self._cloud.modify_volume(home.volume_id, wanted_gib)
        except CloudError as error:
            log.warning("%s does not grow to %d GiB: %s", home.volume_id, wanted_gib, error)
            if error.code in TOO_SOON:
                why = "EC2 changed its size less than six hours ago"
            else:
                why = f"EC2 says: {error.message}" if not error.retryable else "EC2 is busy"
            return home, (
                f"Your home stays at {home.size_gib} GiB for now: {why}. A later start grows it"
            )
        log.info("%s of %r has %d GiB now", home.volume_id, home.user, wanted_gib)
        return await self.save(replace(home, size_gib=wanted_gib)), ""

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
            home = self.of(lease.user, lease.server)
            assert home is not None
            assert home.volume_id is not None
            try:
                volume = await self._cloud.volume(home.volume_id)
                missing = missing + 1 if volume is None else 0
                if missing >= LOOKS_UNTIL_GONE:
                    await self._is_gone(home)
                if volume is not None:
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
            home = await self.save(replace(home, zone=volume.zone))
            raise HomeElsewhere(home)
        if volume.attached_to not in {None, instance.instance_id}:
            said = f"{volume.attached_to} still holds {volume.volume_id}"
            raise CloudError("VolumeInUse", said, retryable=False)
        now, move = self._now(), home.move
        if move is not None and move.volume_id is not None and move.opened_at is None:
            move = replace(move, opened_at=now)
        await self.save(replace(home, used_at=now, move=move))
        await self._cloud.attach_volume(volume.volume_id, instance.instance_id)

    async def _is_gone(self, home: Home) -> None:
        """Unless an admin has put another one in its place. Raises `HomeGone`."""
        await self.take_up_volumes()
        if self.find(home.home_id) != home:
            return
        self.gone.add(home.home_id)
        newest = self.newest.get(home.home_id)
        log.error(
            "%s of %r/%r does not exist any more. Mend: make a volume with the tags %s in any zone "
            "of this hub%s, and start the server again",
            home.volume_id,
            home.user,
            home.server,
            self.tags(home),
            f" from {newest.snapshot_id}" if newest else "",
        )
        raise HomeGone(home, newest)

    async def replace_gone(self, home: Home, snapshot_id: str) -> None:
        """Let the next start make a new volume, from a snapshot of this home or, without one,
        empty. Raises `CloudError`, with code `HomeExists` while the volume is there."""
        if home.volume_id is not None and await self._cloud.volume(home.volume_id) is not None:
            said = f"the home's volume {home.volume_id} is there"
            raise CloudError("HomeExists", said, retryable=False)
        size = home.size_gib
        if snapshot_id:
            listed = await self._cloud.list_snapshots(self._settings.hub)
            size = max(size, self._own_snapshot(home, listed, snapshot_id).size_gib)
        log.warning("A new volume replaces %s of %r", home.volume_id, home.user)
        self.gone.discard(home.home_id)
        await self.save(
            replace(
                home,
                volume_id=None,
                zone=None,
                size_gib=size,
                volume_token=client_token("home"),
                from_snapshot=snapshot_id,
                created_at=self._now(),
                move=None,
            )
        )

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
        home = self.for_lease(lease)
        if home is None or home.volume_id is None or lease.instance_id is None:
            return
        try:
            await self._cloud.detach_volume(home.volume_id, lease.instance_id)
            if (now := self.find(home.home_id)) is not None:
                await self.save(replace(now, used_at=self._now()))
        except (CloudError, StoreError) as error:
            log.warning("Detaching %s of %s: %s", home.volume_id, lease.lease_id, error)

    # --- the end of a home ---

    async def leave(self, home: Home) -> None:
        """Its user or server is gone for good: volume, snapshots and record shall go."""
        await self.save(replace(home, delete_at=self._now()))

    async def forget(self, home: Home) -> None:
        """Its volume and snapshots are deleted."""
        await asyncio.shield(self._store.delete_home(home.home_id))
        self._leaving.pop(home.home_id, None)

    # --- what is made ---

    def spec(self, size_gib: int, snapshot_id: str = "") -> VolumeSpec:
        rules = self._settings.home
        return VolumeSpec(
            size_gib=size_gib,
            snapshot_id=snapshot_id,
            volume_type=rules.volume_type,
            encrypted=rules.encrypted,
            kms_key=rules.kms_key,
        )

    def tags(self, home: Home) -> dict[str, str]:
        """Of a home's volumes and snapshots."""
        return {
            HUB: self._settings.hub,
            STORE: self._store.store_id,
            HOME: home.home_id,
            USER: tag_value(home.user),
            SERVER: tag_value(home.server),
            NAME: tag_value(f"home of {home.user} {home.server}".strip()),
        }

    async def save(self, home: Home) -> Home:
        """Remember a change. Raises `StoreError`, and then nothing has changed."""
        if home.delete_at is None and home.home_id in self._leaving:
            # It was given up while somebody was at work on it.
            home = replace(home, delete_at=self._leaving[home.home_id].delete_at)
        before = self.find(home.home_id)
        self._put(home)
        try:
            await asyncio.shield(self._store.save_home(home))
        except StoreError:
            if before is not None:
                self._leaving.pop(home.home_id, None)
                self._homes[home.user, home.server] = before
            elif home.delete_at is None:
                self._homes.pop((home.user, home.server), None)
            raise
        return home

    def _put(self, home: Home) -> None:
        place = home.user, home.server
        if home.delete_at is None:
            self._homes[place] = home
            return
        self._leaving[home.home_id] = home
        if place in self._homes and self._homes[place].home_id == home.home_id:
            del self._homes[place]


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
