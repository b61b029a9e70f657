"""Homes on EBS: a volume per server, with one writer, in one zone, never lost.

A volume is made once, under a token that is stored first, in a zone that is stored first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.homes.zone_migration import LISTING_GRACE
from ...core.names import client_token
from ...core.tags import HOME
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import Instance
from ..model.cloud.volume import Volume, VolumeSnapshot, VolumeSpec
from ..model.leases.home_change import HomeChange
from ..model.leases.lease import TEMPORARY, Home, Lease
from ..state.home_records import AttachedAhead, home_id_of
from ..state.state import State
from ..store.store import StoreError
from .volume_listing import UNUSABLE_STATES, VolumeListing

log = logging.getLogger(__name__)

ATTACH_TIMEOUT = 120.0
"""Seconds for which creating or attaching a volume is retried: a terminated instance has detached
its volumes within this."""

ATTACH_PAUSE = 1.0
"""Seconds between two attempts, unless the volume is detached sooner."""

READINGS_UNTIL_GONE = 10
"""Readings in a row without a volume before it counts as deleted: listings lag. One that no reading
has shown yet may be new: it counts as deleted after `Settings.listing_lag`, too."""

MAY_PASS = frozenset(
    {
        "IdempotentParameterMismatch",
        "IncorrectState",
        "InvalidInstanceID.NotFound",
        "InvalidVolume.NotFound",
        "VolumeInUse",
    }
)
"""Codes of errors that may pass: the call is retried. A call may not know a volume or an instance
that an earlier one has shown; readings show whether the volume is gone."""

TOO_SOON = frozenset({"VolumeModificationRateExceeded", "IncorrectModificationState"})
"""EC2 limits how often a volume's size changes: AWS documents four times in 24 hours, each after
the one before is complete, and has documented six hours between two."""


class HomeGone(Exception):
    """The volume of a home was deleted in EC2, and not by us."""

    def __init__(self, home: Home, newest: VolumeSnapshot | None) -> None:
        copy = f"; its newest snapshot is {newest.snapshot_id}" if newest else ""
        super().__init__(f"{home.volume_id} of {home.user!r} does not exist any more{copy}")
        self.home = home
        self.newest = newest


class HomeElsewhere(Exception):
    """The home is not in the instance's zone."""

    def __init__(self, home: Home) -> None:
        super().__init__(f"the home is in {home.zone}")
        self.home = home


class HomeVolumes:
    """The volumes of homes: made, grown, attached, detached, replaced."""

    def __init__(self, state: State, cloud: Cloud) -> None:
        self._records = state.homes
        self._clock = state.clock
        self._settings = state.settings
        self._store_id = state.store_id
        self._cloud = cloud
        self._detached: dict[str, asyncio.Event] = {}
        """By home id: set when this process has detached a home that somebody waits for."""
        self._detaching: set[str] = set()
        """Ids of homes for which a DetachVolume is under way."""
        self.listing = VolumeListing(state, cloud)

    # --- a volume for a lease ---

    async def ensure_volume(self, lease: Lease, zone: str) -> Home:
        """The lease's home with a volume; a first one is made in `zone`.

        Raises `CloudError`, with code `HomeExists` where a temporary start would use files that
        stay, and `HomeElsewhere` where it is in another zone.
        """
        home = self._records.of(lease.user, lease.server)
        if (home is None or home.volume_id is None) and not self.listing.is_complete:
            await self.listing.refresh()
            home = self._records.of(lease.user, lease.server)
        if home is not None and lease.mounts.temporary_home and not home.is_temporary:
            said = "this server has a home with files, and a temporary start uses none"
            raise CloudError("HomeExists", said, retryable=False)
        if home is not None and home.is_temporary and not lease.mounts.temporary_home:
            # Left by another start, and about to be deleted: no files that stay go there.
            await self._records.leave(home)
            home = None
        if home is None:
            self.listing.refuse_foreign(lease.user, lease.server)
            kind = TEMPORARY if lease.mounts.temporary_home else lease.home_kind
            home = Home(
                home_id=home_id_of(kind),
                user=lease.user,
                server=lease.server,
                kind=kind,
                size_gib=lease.home_gib,
                created_at=self._clock.now(),
            )
        if not self._records.is_recorded(home) or home.zone is None:
            home = await self._records.save(replace(home, zone=home.zone or zone))
        if home.zone != zone:
            raise HomeElsewhere(home)
        if home.is_being_copied:
            said = f"the files of {home.made_from} are still being copied"
            raise CloudError("IncorrectState", said, retryable=False)
        return home if home.volume_id is not None else await self._make_volume(home, zone)

    async def _make_volume(self, home: Home, zone: str) -> Home:
        token = home.volume_token or home.home_id
        spec = self.spec(home.size_gib, home.made_from)
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
        """An earlier call, whose response was lost, made the volume in another zone or kind."""
        await self.listing.refresh()
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
        if home.made_from:
            self._records.gone.add(home.home_id)
        await self._records.save(replace(home, zone=None))

    async def grow(self, home: Home, wanted_gib: int) -> tuple[Home, str]:
        """Grow the home to `wanted_gib` GiB. Returns the home, and in words why it did not grow.

        A home is never made smaller. A failure does not fail the start: the files are there.
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
            return home, ""  # it was moved or deleted during the calls
        return await self._records.save(replace(now, size_gib=size_gib)), ""

    async def attach(self, lease: Lease, instance: Instance, wanted: Callable[[], bool]) -> None:
        """Attach the lease's home, waiting while another instance holds it and it is `wanted`.

        Unless known to be free, the volume is read before each attempt: is it in another zone,
        attached, deleted? Raises `HomeGone`, `HomeElsewhere`, and `CloudError`, with code
        `VolumeInUse` if it was not detached in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ATTACH_TIMEOUT
        while self._is_detaching(lease) and wanted():
            await asyncio.sleep(ATTACH_PAUSE)
        if wanted() and (
            await self._is_attached_ahead(lease, instance)
            or await self._attach_free(lease, instance)
        ):
            return
        missing, missing_since = 0, self._clock.uptime()
        while wanted():
            home = self._records.of(lease.user, lease.server)
            assert home is not None
            assert home.volume_id is not None
            detached = self._detached[home.home_id] = asyncio.Event()
            try:
                volume = await self._cloud.volume(home.volume_id)
                missing = missing + 1 if volume is None else 0
                for_seconds = self._clock.uptime() - missing_since
                if missing >= READINGS_UNTIL_GONE and for_seconds >= self._lag_of(home):
                    await self._is_gone(home)
                if (
                    volume is not None
                    and self._records.of(lease.user, lease.server) == home
                    and wanted()
                ):
                    await self._attach(home, volume, instance)
                    self._detached.pop(home.home_id, None)
                    return
            except CloudError as error:
                may_pass = error.retryable or error.code in MAY_PASS
                if not may_pass or loop.time() + ATTACH_PAUSE >= deadline:
                    raise
                log.info("Home %s cannot be attached yet: %s", home.volume_id, error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ATTACH_PAUSE):
                    await detached.wait()

    def _is_detaching(self, lease: Lease) -> bool:
        home = self._records.for_lease(lease)
        return home is not None and home.home_id in self._detaching

    def _lag_of(self, home: Home) -> float:
        """For how many seconds EC2 may not know the home's volume: none once it was attached."""
        move = home.move
        is_copy = move is not None and move.volume_id == home.volume_id
        attached_at = move.opened_at if move is not None and is_copy else home.used_at
        return self._settings.listing_lag if attached_at is None else 0.0

    async def _is_attached_ahead(self, lease: Lease, instance: Instance) -> bool:
        """Whether nothing is to be done: EC2 has confirmed it, and the last listing shows it."""
        home = self._records.for_lease(lease)
        ahead = self._records.ahead.get(home.home_id) if home is not None else None
        if home is None or home.move is not None or ahead is None:
            return False
        is_shown = home.volume_id in instance.volumes.values()
        if not is_shown or ahead != (home.volume_id, instance.instance_id):
            return False
        await self._records.save(replace(home, used_at=self._clock.now()))
        return True

    async def attach_ahead(
        self, home: Home, instance: Instance, wanted: Callable[[], bool]
    ) -> None:
        """Attach a home to the instance that is kept for its server, which has not started yet, if
        that is `wanted` once EC2 has said where the home is.

        Raises `CloudError`, with code `VolumeInUse` while another instance holds it.
        """
        assert home.volume_id is not None
        volume = await self._cloud.volume(home.volume_id)
        if volume is None or volume.zone != instance.zone:
            said = f"{home.volume_id} is not in {instance.zone}"
            raise CloudError("InvalidVolume.NotFound", said, retryable=False)
        if volume.attached_to not in {None, instance.instance_id}:
            said = f"{volume.attached_to} holds {volume.volume_id}"
            raise CloudError("VolumeInUse", said, retryable=False)
        if not wanted():
            return
        self._records.free.discard(home.volume_id)
        await self._cloud.attach_volume(home.volume_id, instance.instance_id)
        self._records.ahead[home.home_id] = AttachedAhead(home.volume_id, instance.instance_id)

    async def detach_from(self, home: Home, instance_id: str) -> None:
        """Detach a home from an instance that has not mounted it, or has shut down; meanwhile no
        start attaches it. No error if it is not attached. Raises `CloudError`."""
        assert home.volume_id is not None
        self._detaching.add(home.home_id)
        try:
            await self._cloud.detach_volume(home.volume_id, instance_id)
        finally:
            self._detaching.discard(home.home_id)
            self._wake(home.home_id)

    async def _attach_free(self, lease: Lease, instance: Instance) -> bool:
        """Attach a home that is known to be free, without a reading: EC2 checks the same. False if
        it is not known to be, moves to another zone, or EC2 refuses: a reading shows why."""
        home = self._records.of(lease.user, lease.server)
        if home is None or home.move is not None or home.volume_id not in self._records.free:
            return False
        try:
            await self._ask_to_attach(home, instance)
        except CloudError as error:
            log.info("Home %s is read before it is attached: %s", home.volume_id, error)
            return False
        return True

    async def _attach(self, home: Home, volume: Volume, instance: Instance) -> None:
        if volume.zone != instance.zone:
            home = await self._records.save(replace(home, zone=volume.zone))
            raise HomeElsewhere(home)
        if volume.attached_to not in {None, instance.instance_id}:
            said = f"{volume.attached_to} still holds {volume.volume_id}"
            raise CloudError("VolumeInUse", said, retryable=False)
        if volume.state == "creating":  # AttachVolume would be refused, and has few tokens
            said = f"{volume.volume_id} is still being created"
            raise CloudError("IncorrectState", said, retryable=False)
        await self._ask_to_attach(home, instance)

    async def _ask_to_attach(self, home: Home, instance: Instance) -> None:
        assert home.volume_id is not None
        now, move = self._clock.now(), home.move
        if move is not None and move.volume_id is not None and move.opened_at is None:
            move = replace(move, opened_at=now)
        await self._records.save(replace(home, used_at=now, move=move))
        self._records.free.discard(home.volume_id)
        await self._cloud.attach_volume(home.volume_id, instance.instance_id)

    async def _is_gone(self, home: Home) -> None:
        """Raises `HomeGone`, unless another volume takes its place: an admin's, or the one that it
        was moved from. Raises `HomeElsewhere` for the latter."""
        await self.listing.refresh()
        if self._records.find(home.home_id) != home:
            return
        await self._return_to_previous(home)
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

    async def _return_to_previous(self, home: Home) -> None:
        """The volume that it was moved from exists until a server got ready with the new one.
        Raises `HomeElsewhere` if it is the home again."""
        move = home.move
        if move is None or move.volume_id != home.volume_id:
            return
        old = await self._cloud.volume(move.from_volume_id)
        if old is None or old.state in UNUSABLE_STATES or self._records.find(home.home_id) != home:
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

    async def plan_replacement(self, home: Home, snapshot_id: str) -> HomeChange:
        """Let a start make a new volume, from a snapshot of this home or, without one, empty.

        Raises `CloudError`, with code `HomeExists` while the volume is there, and `StoreError`.
        """
        if home.is_being_copied and not snapshot_id:
            return self._plan_empty_instead(home)
        if home.volume_id is None:  # it may be there, and only the answer was lost
            await self.listing.refresh()
            home = self._records.find(home.home_id) or home
        if home.volume_id is not None and await self._is_there(home.home_id, home.volume_id):
            said = f"the home's volume {home.volume_id} is there"
            raise CloudError("HomeExists", said, retryable=False)
        size = home.size_gib
        if snapshot_id:
            listed = await self._cloud.list_snapshots(self._settings.hub)
            size = max(size, self._own_snapshot(home, listed, snapshot_id).size_gib)
        new = replace(
            home,
            volume_id=None,
            zone=None,
            size_gib=size,
            volume_token=client_token("home"),
            made_from=snapshot_id,
            created_at=self._clock.now(),
            used_at=None,
            move=None,
        )
        return HomeChange(
            home,
            new,
            forgets_session=not snapshot_id,
            log_message=f"a new volume replaces {home.volume_id} of {home.user!r}",
        )

    def _plan_empty_instead(self, home: Home) -> HomeChange:
        """An empty home, with an id of its own, instead of one that is being copied. EC2 may have
        made the copy, and list it later: all volumes with the id of the first are deleted."""
        empty = Home(
            home_id=home_id_of(home.kind),
            user=home.user,
            server=home.server,
            kind=home.kind,
            size_gib=home.size_gib,
            created_at=self._clock.now(),
        )
        return HomeChange(
            home,
            empty,
            forgets_session=True,
            log_message=f"an empty home replaces the copy of {home.made_from} for {home.user!r}",
        )

    async def _is_there(self, home_id: str, volume_id: str) -> bool:
        """Reads it until it is there, at most `READINGS_UNTIL_GONE` times: listings lag. Once if it
        was found deleted before."""
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
            self._records.free.add(home.volume_id)
            self._wake(home.home_id)
            if (now := self._records.find(home.home_id)) is not None:
                await self._records.save(replace(now, used_at=self._clock.now()))
        except (CloudError, StoreError) as error:
            log.warning("Detaching %s of %s: %s", home.volume_id, lease.lease_id, error)

    def _wake(self, home_id: str) -> None:
        """Let whoever waits for this home try again at once."""
        if (waited_for := self._detached.pop(home_id, None)) is not None:
            waited_for.set()

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
