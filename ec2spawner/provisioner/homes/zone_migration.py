"""Moves homes to another zone; each pass continues every move until it is complete.

The record holds the progress of a move, EC2 its snapshots and volumes. Nothing in the old zone is
deleted before a server has got ready with the new volume.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import datetime

from ...core.homes.zone_migration import LISTING_GRACE, CopyState, Move, MoveStep, next_step
from ...core.names import client_token, new_id
from ...core.offers.launch_errors import THROTTLES
from ...core.tags import MOVE, SNAPSHOT, STORE
from ...wire import Step, Stop
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.volume import VolumeSnapshot
from ..model.leases.lease import Home, LeaseState
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .volumes import HomeVolumes

log = logging.getLogger(__name__)

REPORTED_PERCENT = 10
"""Percent between two reports to a waiting user: each is a write to the store."""

PACE = 2.5
"""Between two checks of a home that waits for EC2, in busy intervals: five seconds."""

FULL = frozenset(
    {"ConcurrentSnapshotLimitExceeded", "SnapshotCreationPerVolumeRateExceeded", "IncorrectState"}
)
"""Codes of temporary errors of CreateSnapshot."""


def moved(home: Home, zone: str) -> Home:
    """The record of a home that begins to move.

    One that is in progress continues to its first destination.
    """
    before = home.move
    if home.volume_id is None or home.zone is None or home.zone == zone or home.is_moving:
        return home
    move = Move(
        move_id=new_id("move"),
        zone=zone,
        from_volume_id=home.volume_id,
        from_zone=home.zone,
        volume_token=client_token("move"),
        discard=(*before.discard, before.from_volume_id) if before else (),
    )
    if before is not None and before.opened_at is None:
        # The new volume has not been written to: the old one is still the home.
        move = replace(
            move,
            move_id=before.move_id,
            from_volume_id=before.from_volume_id,
            from_zone=before.from_zone,
            snapshot_id=before.snapshot_id,
            discard=(*before.discard, home.volume_id),
        )
    return replace(home, volume_id=move.from_volume_id, zone=move.from_zone, move=move)


@dataclass(slots=True)
class ZoneMigrations:
    """Moves homes to another zone by snapshot, one stored step after the other."""

    state: State
    cloud: Cloud
    volumes: HomeVolumes
    tasks: TaskGroup
    _percent: dict[str, int] = field(default_factory=dict)
    """By move id: how much of its snapshot EC2 had copied at the last listing."""
    _busy: set[str] = field(default_factory=set)
    """Ids of the homes whose move is being checked."""
    _read_at: dict[str, float] = field(default_factory=dict)
    """By move id: when it was checked last, on the loop's clock in seconds."""

    def percent(self, move_id: str) -> int:
        """How much of the move's snapshot is copied, as of the last listing, in percent 0–100."""
        return self._percent.get(move_id, 0)

    async def reconcile(self, now: datetime) -> None:
        """Continue every move that is due, in the background. Never raises."""
        latest = asyncio.get_running_loop().time() - PACE * self.state.settings.busy_interval
        self._read_at = {each: at for each, at in self._read_at.items() if at > latest}
        for home in self.state.homes.live():
            if home.move is None or home.home_id in self._busy or self._waits(home, home.move):
                continue
            self._busy.add(home.home_id)
            work = self._follow(home.home_id, home.move.move_id)
            self.tasks.spawn(work, f"move of {home.home_id}")

    def _waits(self, home: Home, move: Move) -> bool:
        """Waits for its user or its next check: passes are frequent, and EC2 limits our calls."""
        step = next_step(move, None, was_ready=self._was_ready(home), now=self.state.clock.now())
        return step is MoveStep.OPEN or move.move_id in self._read_at

    async def _follow(self, home_id: str, move_id: str) -> None:
        try:
            while await self._advance(home_id):
                pass
        finally:
            self._busy.discard(home_id)
            self._read_at[move_id] = asyncio.get_running_loop().time()

    async def _advance(self, home_id: str) -> bool:
        """Do the next step. True if another one may follow at once. Raises `CloudError`."""
        home = self.state.homes.find(home_id)
        if home is None or home.move is None:
            return False
        copy = await self._copy_of(home.move) if home.move.volume_id is None else None
        state = copy.state if copy else None
        step = next_step(
            home.move, state, was_ready=self._was_ready(home), now=self.state.clock.now()
        )
        match step:
            case MoveStep.SNAPSHOT:
                return await self._ask_for_snapshot(home, home.move)
            case MoveStep.WAIT:
                await self._report_progress(home, home.move, copy)
            case MoveStep.VOLUME:
                assert copy is not None
                return await self._make_volume(home, home.move, copy)
            case MoveStep.CLEAN_UP:
                await self._clean_up(home, home.move)
            case MoveStep.GIVE_UP:
                await self._give_up(home, "EC2 could not copy them")
            case MoveStep.OPEN:
                pass
        return False

    # --- the steps ---

    async def _copy_of(self, move: Move) -> VolumeSnapshot | None:
        """The move's snapshot; of two, which a lost response can cause, the more complete one."""
        found = await self._copies_of(move)
        order = [CopyState.COMPLETED, CopyState.PENDING]
        usable = [copy for copy in found if copy.state in order]
        usable.sort(key=lambda copy: (order.index(CopyState(copy.state)), copy.started_at))
        return next(iter([*usable, *found]), None)

    async def _copies_of(self, move: Move) -> list[VolumeSnapshot]:
        listed = await self.cloud.list_snapshots(self.state.settings.hub)
        return [
            copy
            for copy in listed
            if copy.tags.get(MOVE) == move.move_id and copy.tags.get(STORE) == self.state.store_id
        ]

    async def _ask_for_snapshot(self, home: Home, move: Move) -> bool:
        volume = await self.cloud.volume(move.from_volume_id)
        if volume is None:
            await self._give_up(home, f"their volume {move.from_volume_id} does not exist any more")
            return False
        if volume.attached_to is not None:
            await self._report(
                home, move, f"{volume.attached_to} still has to let go of your files"
            )
            return False
        move = replace(move, snapshot_asked_at=self.state.clock.now())
        home = await self.state.homes.save(replace(home, move=move))
        await self._report(home, move, "0 % copied")
        tags = {**self.state.homes.tags(home), SNAPSHOT: "move", MOVE: move.move_id}
        try:
            copy = await self.cloud.create_snapshot(move.from_volume_id, tags)
        except CloudError as error:
            if not error.retryable and error.code not in FULL:
                await self._give_up(home, error.message)
            else:
                log.warning("Snapshot of %s for its move: %s", move.from_volume_id, error)
                # None was made: the next check requests it again.
                if error.code in FULL | THROTTLES:
                    await self.state.homes.save(
                        replace(home, move=replace(move, snapshot_asked_at=None))
                    )
            return False
        await self.state.homes.save(replace(home, move=replace(move, snapshot_id=copy.snapshot_id)))
        return True

    async def _make_volume(self, home: Home, move: Move, copy: VolumeSnapshot) -> bool:
        spec = self.volumes.spec(max(home.size_gib, copy.size_gib), copy.snapshot_id)
        tags = {**self.state.homes.tags(home), MOVE: move.move_id}
        try:
            volume = await self.cloud.create_volume(move.volume_token, move.zone, spec, tags)
        except CloudError as error:
            if error.retryable or self._may_not_know(move, error):
                raise
            if error.code == "IdempotentParameterMismatch":
                # The response was lost, and the configuration has changed since: repeat it, and
                # remember what there may be of the first.
                await self._ask_anew(home, move)
            else:
                await self._give_up(home, error.message)
            return False
        move = replace(move, volume_id=volume.volume_id, snapshot_id=copy.snapshot_id)
        await self.state.homes.save(
            replace(
                home,
                volume_id=volume.volume_id,
                zone=volume.zone,
                volume_token=move.volume_token,
                size_gib=volume.size_gib,
                move=move,
            )
        )
        self._percent.pop(move.move_id, None)
        for lease_id in self._waiting(home):
            there = f"Your files are in {move.zone} now"
            await self.state.leases.note(lease_id, Step.REQUEST, there)
        self.state.wake()
        return False

    def _may_not_know(self, move: Move, error: CloudError) -> bool:
        """Whether EC2 refuses a snapshot that a listing has shown, because it is that new."""
        asked = move.snapshot_asked_at
        is_new = asked is not None and self.state.clock.now() - asked < LISTING_GRACE
        return is_new and error.code == "InvalidSnapshot.NotFound"

    async def _ask_anew(self, home: Home, move: Move) -> None:
        kept = {move.from_volume_id, home.volume_id, *move.discard}
        stray = await self._volumes_of(move)
        discard = (*move.discard, *(each for each in stray if each not in kept))
        move = replace(move, volume_token=client_token("move"), discard=discard)
        await self.state.homes.save(replace(home, move=move))

    async def _volumes_of(self, move: Move) -> list[str]:
        """Ids of those that it made: more than one if a response was lost."""
        mine = {MOVE: move.move_id, STORE: self.state.store_id}.items()
        listed = await self.cloud.list_volumes(self.state.settings.hub)
        return [each.volume_id for each in listed if mine <= each.tags.items()]

    async def _clean_up(self, home: Home, move: Move) -> None:
        """The files are in their new zone, and a server has got ready with them."""
        old = {move.from_volume_id, *move.discard, *await self._volumes_of(move)}
        for volume_id in sorted(old - {home.volume_id}):
            await self.cloud.delete_volume(volume_id)
        await self._delete_copies(move)
        log.info("%s of %r has moved to %s", home.volume_id, home.user, move.zone)
        now = self.state.homes.find(home.home_id)
        if now is not None and now.move == move:  # else it moves on already
            await self.state.homes.save(replace(now, move=None))

    async def _give_up(self, home: Home, why: str) -> None:
        """The home stays where it is; the waiting user is notified."""
        assert home.move is not None
        move = home.move
        log.error("%s of %r does not move to %s: %s", home.volume_id, home.user, move.zone, why)
        self._percent.pop(move.move_id, None)
        await self._delete_copies(move)
        assert home.volume_id is not None
        await self.state.homes.save(
            replace(home, move=move.given_up(home.volume_id, self.state.clock.now()))
        )
        message = (
            f"Your files could not be moved to {move.zone}: {why.rstrip('. ')}. They are in "
            f"{move.from_zone} as before. Start without moving them, or ask an admin to fix it"
        )
        for lease_id in self._waiting(home):
            await self.state.end(lease_id, Stop(reason="failed", message=message[:500]))

    async def _delete_copies(self, move: Move) -> None:
        for copy in await self._copies_of(move):
            await self.cloud.delete_snapshot(copy.snapshot_id)

    # --- what leases report, and their users see ---

    def _was_ready(self, home: Home) -> bool:
        """Whether a server has got ready since the new volume was first attached."""
        move = home.move
        if move is None or move.opened_at is None:
            return False
        leases = [
            self.state.leases.of_server(home.user, home.server),
            self.state.leases.last_ended(home.user, home.server),
        ]
        return any(
            lease is not None
            and lease.home_kind == "ebs"
            and lease.ready_at is not None
            and lease.ready_at >= move.opened_at
            for lease in leases
        )

    def _waiting(self, home: Home) -> list[str]:
        return [
            lease.lease_id
            for lease in self.state.leases.open(LeaseState.WAITING)
            if (lease.user, lease.server) == (home.user, home.server) and lease.home_kind == "ebs"
        ]

    async def _report_progress(self, home: Home, move: Move, copy: VolumeSnapshot | None) -> None:
        percent = copy.percent if copy else 0
        self._percent[move.move_id] = percent
        await self._report(home, move, f"{percent - percent % REPORTED_PERCENT} % copied")

    async def _report(self, home: Home, move: Move, detail: str) -> None:
        for lease_id in self._waiting(home):
            message = f"Moving your files to {move.zone}"
            await self.state.leases.note(lease_id, Step.MOVE, message, detail)
