"""Homes that begin as a copy: those of named servers of the home of the user's default server, and
those of runs of the home of the server that has sent them.

The record names the source and the zone before anything is made, and the volume is made once, under
the record's token. No instance is bought for the start before there is one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ...core.homes.server_copy import BUSY, REFUSALS, CopyStep, is_as_it_is_now, next_step
from ...core.homes.zone_migration import LISTING_GRACE
from ...core.names import client_token
from ...core.offers.launch_errors import THROTTLES
from ...core.tags import HOME, SNAPSHOT, STORE
from ...wire import Step, Stop
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.volume import Volume, VolumeSnapshot
from ..model.error_hints import describe_error
from ..model.leases.home_change import HomeChange
from ..model.leases.lease import FILES_COPIED, Home, Lease, LeaseState
from ..model.leases.run import run_of_server, server_words
from ..runtime.shared_call import SharedCall
from ..runtime.task_group import TaskGroup
from ..state.home_records import DEFAULT_SERVER
from ..state.state import State
from .volume_listing import UNUSABLE_STATES
from .volumes import READINGS_UNTIL_GONE, HomeVolumes
from .zone_migration import FULL, PACE, REPORTED_PERCENT

log = logging.getLogger(__name__)

NOT_HERE: Final = frozenset({"InvalidAction", "UnauthorizedOperation"})
"""Codes with which CopyVolumes is refused to this hub or region, whatever the volume."""

NOT_HERE_SECONDS: Final = 600.0
"""For so long after one of them every copy is made by a snapshot, without asking again."""

COPY: Final = "copy"
"""Value of the tag `SNAPSHOT`."""

MISSING: Final = 3
"""Readings in a row, `PACE` apart, without a source that was attached before: it was deleted."""

COPYING: Final = "Copying the files of"


@dataclass(slots=True)
class _Attempt:
    """What this process knows of a copy besides its record."""

    is_compared: bool
    """Volumes were listed since the last attempt, or there was none."""
    is_refused: bool = False
    """CopyVolumes was: a snapshot is made instead."""
    asked_at: datetime | None = None
    """When the snapshot was requested. The response may be lost, and no listing may show it yet."""
    missing: int = 0
    """Readings in a row that did not show the source's volume."""


def awaited_copies(state: State) -> Iterator[Home]:
    """Homes that are yet to be copied and that a start waits for."""
    for lease in state.leases.open(LeaseState.WAITING, LeaseState.STARTING):
        home = state.homes.for_lease(lease)
        if home is not None and home.is_being_copied:
            yield home


@dataclass(slots=True)
class ServerCopies:
    """Makes the volumes of homes that begin as a copy, one stored step after the other."""

    state: State
    cloud: Cloud
    volumes: HomeVolumes
    tasks: TaskGroup
    _attempts: dict[str, _Attempt] = field(default_factory=dict)
    """By home id."""
    _busy: set[str] = field(default_factory=set)
    """Ids of the homes that are being copied."""
    _not_here_until: float = 0.0
    """Uptime in seconds until which CopyVolumes is not asked for."""
    _list_snapshots: SharedCall[Sequence[VolumeSnapshot]] = field(init=False)
    _tried_at: dict[str, float] = field(default_factory=dict)
    """By home id: when its last step ended, on the loop's clock in seconds."""

    def __post_init__(self) -> None:
        hub = self.state.settings.hub
        self._list_snapshots = SharedCall(lambda: self.cloud.list_snapshots(hub))

    async def plan(self, user: str, server: str, size_gib: int) -> HomeChange:
        """Let a server's first home begin as a copy of the default server's, and that of a run as
        a copy of its own server's, if that has one.

        Raises `CloudError`, with code `ForeignHome` where another store made a home for it, and
        `StoreError`.
        """
        homes = self.state.homes
        home = homes.of(user, server)
        if home is None and not self.volumes.listing.is_complete:
            await self.volumes.listing.refresh()
            home = homes.of(user, server)
        origin = self._origin(server)
        source = None if origin is None else homes.copy_source(user, origin)
        has_files = home is not None and not home.is_temporary
        if has_files or source is None or source.volume_id is None:
            return HomeChange(home, home)
        self.volumes.listing.refuse_foreign(user, server)
        copy = Home(
            home_id=client_token("home"),
            user=user,
            server=server,
            kind="ebs",
            size_gib=max(size_gib, source.size_gib),
            created_at=self.state.clock.now(),
            zone=homes.zone_of(user, source.server),
            made_from=source.volume_id,
        )
        # A temporary one was left by another start.
        return HomeChange(home, copy, log_message=f"a copy of {source.volume_id} of {user!r}")

    async def reconcile(self, now: datetime) -> None:
        """Continue every copy that a start waits for and that is due. Never raises."""
        awaited = {home.home_id for home in awaited_copies(self.state)}
        latest = asyncio.get_running_loop().time() - PACE * self.state.settings.busy_interval
        self._tried_at = {each: at for each, at in self._tried_at.items() if at > latest}
        for home_id in self._attempts.keys() - awaited - self._busy:
            del self._attempts[home_id]
        for home_id in awaited - self._busy - self._tried_at.keys():
            if not self.state.homes.is_stored(home_id):
                continue
            self._busy.add(home_id)
            self.tasks.spawn(self._follow(home_id), f"copy for {home_id}")

    async def _follow(self, home_id: str) -> None:
        is_new = home_id in self.state.homes.not_copied
        attempt = self._attempts.setdefault(home_id, _Attempt(is_compared=is_new))
        self.state.homes.not_copied.discard(home_id)
        try:
            if not attempt.is_compared:
                # CreateVolume does not know the token of CopyVolumes, nor the other way round: what
                # an earlier attempt has made by the one must not be made again by the other.
                await self.volumes.listing.refresh()
                attempt.is_compared = True
            while await self._advance(home_id, attempt):
                pass
        finally:
            self._busy.discard(home_id)
            self._tried_at[home_id] = asyncio.get_running_loop().time()

    async def _advance(self, home_id: str, attempt: _Attempt) -> bool:
        """Do the next step. True if another one may follow at once. Raises `CloudError`."""
        home = self.state.homes.find(home_id)
        if home is None or not home.is_being_copied:
            return False
        if self.state.clock.uptime() < self._not_here_until:
            attempt.is_refused = True
        snapshot = await self._snapshot_of(home) if attempt.is_refused else None
        step = next_step(
            snapshot.state if snapshot else None,
            is_refused=attempt.is_refused,
            asked_at=attempt.asked_at,
            now=self.state.clock.now(),
        )
        match step:
            case CopyStep.COPY:
                return await self._copy(home, attempt)
            case CopyStep.SNAPSHOT:
                return await self._ask_for_snapshot(home, attempt)
            case CopyStep.WAIT:
                percent = snapshot.percent if snapshot else 0
                await self._report(home, f"{percent - percent % REPORTED_PERCENT} % copied")
            case CopyStep.VOLUME:
                assert snapshot is not None
                await self._make_volume(home, snapshot)
            case CopyStep.GIVE_UP:
                await self._give_up(home, "EC2 could not make a snapshot of them")
                await self._delete_snapshots(home)
        return False

    # --- the source ---

    def _origin(self, server: str) -> str | None:
        """Name of the server whose files a home begins with: of a run its own server, since all who
        have access to that can submit runs; None for a run that is over."""
        number = run_of_server(server)
        if not number:
            return DEFAULT_SERVER
        run = self.state.runs.get(number)
        return run.server if run is not None else None

    def _origin_words(self, home: Home) -> str:
        return server_words(self._origin(home.server) or DEFAULT_SERVER)

    async def _source(self, home: Home, attempt: _Attempt) -> tuple[Home, Volume] | None:
        """The record as it is to be made from its source now, and the source's volume.

        None if it cannot be copied now or, with its starts ended, at all.
        """
        origin = self._origin(home.server)
        source = None if origin is None else self.state.homes.copy_source(home.user, origin)
        if source is None or source.volume_id is None:
            await self._give_up(home, f"{self._origin_words(home)} has none any more")
            return None
        if self.state.homes.is_moving(home.user, source.server):
            await self._report(home, "They are being moved to another zone first")
            return None
        volume = await self.cloud.volume(source.volume_id)
        attempt.missing = attempt.missing + 1 if volume is None else 0
        if volume is None or volume.state in UNUSABLE_STATES:
            is_new = source.used_at is None
            if volume is not None or attempt.missing >= (
                READINGS_UNTIL_GONE if is_new else MISSING
            ):
                why = f"their volume, {source.volume_id}, does not exist any more"
                await self._give_up(home, why)
            return None
        now = self.state.homes.find(home.home_id)
        if now is None or not now.is_being_copied:
            return None  # its user has chosen an empty one meanwhile, or deleted it
        home = now
        size = max(home.size_gib, volume.size_gib)
        wanted = replace(home, made_from=volume.volume_id, zone=volume.zone, size_gib=size)
        if wanted != home:
            # It has moved, grown or been replaced since. The token stays: where an earlier call has
            # made a volume, EC2 refuses this one, and a listing shows that.
            wanted = await self.state.homes.save(wanted)
        return wanted, volume

    # --- the steps ---

    async def _copy(self, home: Home, attempt: _Attempt) -> bool:
        found = await self._source(home, attempt)
        if found is None:
            return False
        home, source = found
        await self._report(home)
        token, tags = home.volume_token or home.home_id, self.state.homes.tags(home)
        spec, asked_at = self.volumes.spec(home.size_gib), self.state.clock.now()
        try:
            volume = await self.cloud.copy_volume(token, source, spec, tags)
        except CloudError as error:
            if error.code in REFUSALS:
                log.warning(
                    "A snapshot copies %s, which takes minutes, because CopyVolumes failed: %s",
                    source.volume_id,
                    error,
                )
                attempt.is_refused = True
                if error.code in NOT_HERE:
                    self._not_here_until = self.state.clock.uptime() + NOT_HERE_SECONDS
                return True
            await self._was_refused(home, error)
            return False
        await self._is_made(home, volume, asked_at)
        return False

    async def _ask_for_snapshot(self, home: Home, attempt: _Attempt) -> bool:
        found = await self._source(home, attempt)
        if found is None:
            return False
        home, source = found
        recent = self._recent_snapshot(home, source)
        if recent is not None:
            await self._make_volume(home, recent)
            return False
        attempt.asked_at = self.state.clock.now()
        await self._report(home, "0 % copied")
        tags = {**self.state.homes.tags(home), SNAPSHOT: COPY}
        try:
            await self.cloud.create_snapshot(source.volume_id, tags)
        except CloudError as error:
            if error.code in FULL | THROTTLES:  # none was made
                attempt.asked_at = None
            elif not error.retryable:
                await self._give_up(home, describe_error(error))
            else:
                log.warning("Snapshot of %s for a copy: %s", source.volume_id, error)
        return False

    def _recent_snapshot(self, home: Home, source: Volume) -> VolumeSnapshot | None:
        """A scheduled one that has all files of the source as they are now."""
        origin = self._origin(home.server)
        record = None if origin is None else self.state.homes.of(home.user, origin)
        newest = self.state.homes.newest.get(record.home_id) if record else None
        if record is None or newest is None:
            return None
        in_use = source.attached_to is not None
        same = is_as_it_is_now(newest.started_at, record.used_at, in_use=in_use)
        return newest if same and newest.volume_id == source.volume_id else None

    async def _make_volume(self, home: Home, snapshot: VolumeSnapshot) -> None:
        assert home.zone is not None
        token, tags = home.volume_token or home.home_id, self.state.homes.tags(home)
        spec = self.volumes.spec(max(home.size_gib, snapshot.size_gib), snapshot.snapshot_id)
        try:
            volume = await self.cloud.create_volume(token, home.zone, spec, tags)
        except CloudError as error:
            await self._was_refused(home, error)
            return
        await self._is_made(home, volume, snapshot.started_at)
        await self._delete_snapshots(home)

    async def _was_refused(self, home: Home, error: CloudError) -> None:
        """Raises `CloudError` where no response came: the call is repeated with its token."""
        if error.retryable:
            raise error
        if error.code == "IdempotentParameterMismatch":
            # A response was lost, and the configuration has changed since.
            await self.volumes.listing.refresh()
            now = self.state.homes.find(home.home_id)
            if now is not None and now.is_being_copied and self._is_old(now):
                await self.state.homes.save(replace(now, volume_token=client_token("home")))
        elif error.code in BUSY or error.code == "InvalidSnapshot.NotFound":
            await self._report(home, "EC2 is busy with them")
        else:
            await self._give_up(home, describe_error(error))

    def _is_old(self, home: Home) -> bool:
        """Whether a listing shows what was made for it at first."""
        return self.state.clock.now() - home.created_at > LISTING_GRACE

    async def _is_made(self, home: Home, volume: Volume, as_of: datetime) -> None:
        now = self.state.homes.find(home.home_id) or home  # a deleted one stays deleted
        if not now.is_being_copied:
            if now.volume_id != volume.volume_id:  # a listing has shown another one meanwhile
                await self.cloud.delete_volume(volume.volume_id)
            return
        made = await self.state.homes.save(
            replace(
                now,
                volume_id=volume.volume_id,
                zone=volume.zone,
                size_gib=volume.size_gib,
                created_at=as_of,
            )
        )
        self.state.homes.gone.discard(home.home_id)
        log.info("%s of %r is a copy of %s", volume.volume_id, home.user, home.made_from)
        said = f"{FILES_COPIED} {self._origin_words(home)}, as of {as_of:%d %B, %H:%M} UTC"
        for lease in self._waiting(made):
            await self.state.leases.note(lease.lease_id, Step.REQUEST, said)
        self.state.wake()

    async def _give_up(self, home: Home, why: str) -> None:
        """Nothing is made; the start ends, and offers an empty home instead."""
        log.error("The home of %r/%r is not copied: %s", home.user, home.server, why)
        self.state.homes.gone.add(home.home_id)
        message = f"The files of {self._origin_words(home)} could not be copied: {why.rstrip('. ')}"
        if not run_of_server(home.server):
            message += ". Start again to retry, or start this server with an empty home"
        for lease in self._waiting(home):
            await self.state.end(lease.lease_id, Stop(reason="failed", message=message[:500]))

    # --- its snapshots ---

    async def _snapshots_of(self, home: Home) -> list[VolumeSnapshot]:
        mine = {HOME: home.home_id, STORE: self.state.store_id, SNAPSHOT: COPY}.items()
        listed = await self._list_snapshots()
        return [each for each in listed if mine <= each.tags.items()]

    async def _snapshot_of(self, home: Home) -> VolumeSnapshot | None:
        """The newest; a lost response can cause two."""
        found = await self._snapshots_of(home)
        return max(found, key=lambda each: each.started_at, default=None)

    async def _delete_snapshots(self, home: Home) -> None:
        """The volume has what it needs of them. A scan finds those that are not listed yet."""
        for each in await self._snapshots_of(home):
            await self.cloud.delete_snapshot(each.snapshot_id)

    # --- what leases report, and their users see ---

    def _waiting(self, home: Home) -> list[Lease]:
        return [
            lease
            for lease in self.state.leases.open(LeaseState.WAITING, LeaseState.STARTING)
            if (lease.user, lease.server) == (home.user, home.server) and lease.home_kind == "ebs"
        ]

    async def _report(self, home: Home, detail: str = "") -> None:
        for lease in self._waiting(home):
            said = f"{COPYING} {self._origin_words(home)}"
            await self.state.leases.note(lease.lease_id, Step.REQUEST, said, detail)
