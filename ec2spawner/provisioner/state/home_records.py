"""The records of homes: which server's files are where, in memory and in the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from ...core.ledger.cost_rows import user_payer
from ...core.names import client_token, tag_value
from ...core.tags import HOME, HUB, NAME, PAYER, SERVER, STORE, USER
from ..model.cloud.volume import Volume, VolumeSnapshot
from ..model.leases.home_change import HomeChange
from ..model.leases.lease import TEMPORARY, Home, Lease
from ..model.settings import Settings
from ..runtime.clock import Clock
from ..store.store import Store, StoreError
from .user_accounts import UserAccounts

log = logging.getLogger(__name__)

DEFAULT_SERVER: Final = ""
"""Name of the server whose home those of other servers begin as a copy of."""

FORGOTTEN_KEPT: Final = timedelta(days=1)
"""How long a deleted home is remembered: by then, operations on it that were in progress have ended
and no listing shows its volume any more."""


PayersOf = Callable[[Collection[str]], Mapping[str, str]]
"""User -> default payer, of those who have another one than themselves."""


class HomeChanged(Exception):
    """A home is not as it was when its change was planned; the message is for its user."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A home that was deleted for good."""

    wanted_at: datetime
    forgotten_at: datetime


class AttachedAhead(NamedTuple):
    """Where a home is, before a lease of its server has got that instance."""

    volume_id: str
    instance_id: str


class HomeRecords:
    """All homes of this store, in memory."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        payers_of: PayersOf,
        accounts: UserAccounts,
    ) -> None:
        """`payers_of` says who pays for the homes of users who do not pay themselves."""
        self.payers_of = payers_of
        self._store = store
        self._settings = settings
        self._clock = clock
        self._accounts = accounts
        self._homes: dict[tuple[str, str], Home] = {}
        self._places: dict[str, tuple[str, str]] = {}
        """Where in `_homes` a home is, by id. What it says of one that is there no more is stale.
        """
        self._leaving: dict[str, Home] = {}
        """Homes that are being deleted for good, by id."""
        self._forgotten: dict[str, Forgotten] = {}
        """Homes that were deleted for good lately, by id."""
        self._found: dict[tuple[str, str], Volume] = {}
        """Volumes of this store without a record, by tags of user and server: handed over."""
        self.newest: Mapping[str, VolumeSnapshot] = {}
        """The newest complete snapshot of each home, by home id, as of the last scan."""
        self.gone: set[str] = set()
        """Ids of the homes whose volume was found deleted when it was wanted."""
        self.free: set[str] = set()
        """Ids of the volumes that the last listing of all showed as available or that were detached
        since, without those that were attached. A hint: EC2 decides."""
        self.not_copied: set[str] = set()
        """Ids of homes that a start of this process lets begin as a copy, and for which nothing was
        asked of EC2 yet."""
        self.ahead: dict[str, AttachedAhead] = {}
        """By home id: those that this process has attached before a start, as EC2 has confirmed."""

    def load(self, homes: Iterable[Home]) -> None:
        """Take over the homes that an earlier process has stored."""
        homes = tuple(homes)
        self._homes = {(h.user, h.server): h for h in homes if h.delete_at is None}
        self._places = {home.home_id: place for place, home in self._homes.items()}
        self._leaving = {h.home_id: h for h in homes if h.delete_at is not None}

    # --- reading ---

    def of(self, user: str, server: str) -> Home | None:
        """The home of a server: as recorded, or as a volume's tags say it is theirs."""
        home = self._homes.get((user, server))
        volume = self._found.get(self._place_in_tags(user, server))
        if home is not None or volume is None or volume.tags[HOME] in self._leaving:
            return home
        return Home(
            home_id=volume.tags[HOME],
            user=user,
            server=server,
            kind=TEMPORARY if _is_temporary(volume) else "ebs",
            size_gib=volume.size_gib,
            created_at=self._clock.now(),
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
        place = self._places.get(home_id)
        home = self._homes.get(place) if place is not None else None
        return home if home is not None and home.home_id == home_id else None

    def copy_source(self, user: str, server: str = DEFAULT_SERVER) -> Home | None:
        """The home of a server for others to begin as a copy of; None if it has no volume yet, or
        is temporary."""
        home = self.of(user, server)
        if home is None or home.volume_id is None or home.is_temporary:
            return None
        return home

    def temporary_without_record(self) -> tuple[Home, ...]:
        """Temporary homes whose record was lost with the store, as their volumes' tags say."""
        temporary = (place for place, each in self._found.items() if _is_temporary(each))
        users = ((self._accounts.named(user), server) for user, server in temporary)
        found = [self.of(user, server) for user, server in users if user is not None]
        return tuple(home for home in found if home is not None and home.is_temporary)

    def is_recorded(self, home: Home) -> bool:
        """Whether it stays under this user and server, and is not merely found by its tags."""
        return (home.user, home.server) in self._homes

    def remember_found(self, volumes: Mapping[str, Volume]) -> None:
        """The volumes of this store that a listing shows and no record names, by home id.

        Excluded are homes that are being deleted, or were deleted lately.
        """
        known = self._leaving.keys() | self._forgotten.keys()
        self._found = {
            (volume.tags.get(USER, ""), volume.tags.get(SERVER, "")): volume
            for home_id, volume in volumes.items()
            if home_id not in known and not self.find(home_id)
        }

    def volume_ids(self) -> frozenset[str]:
        """The volumes of all homes that are recorded, those of a move included."""
        found: set[str | None] = set()
        for home in (*self._homes.values(), *self._leaving.values()):
            found.add(home.volume_id)
            if home.move is not None:
                found |= {home.move.from_volume_id, *home.move.discard}
        return frozenset(each for each in found if each)

    def for_lease(self, lease: Lease) -> Home | None:
        """The home that a lease uses; None if it keeps no files, even if earlier leases did.

        Files that stay are never a temporary start's, nor a temporary home another start's.
        """
        home = self.of(lease.user, lease.server) if lease.home_kind == "ebs" else None
        if home is None or home.is_temporary != lease.mounts.temporary_home:
            return None
        return home

    def zone_of(self, user: str, server: str, *, temporary: bool = False) -> str | None:
        """The zone that a server's home restricts it to; None for any. A temporary home restricts
        only the start that made it: others give it up."""
        home = self.of(user, server)
        if home is None or (home.is_temporary and not temporary):
            return None
        return home.next_zone

    def is_moving(self, user: str, server: str) -> bool:
        """Whether its files are still being moved to another zone."""
        home = self._homes.get((user, server))
        return home is not None and home.is_moving

    def is_being_copied(self, user: str, server: str) -> bool:
        """Whether its volume is yet to be made, as a copy of another home's."""
        home = self._homes.get((user, server))
        return home is not None and home.is_being_copied

    # --- changing ---

    async def save(self, home: Home) -> Home:
        """Store a change. Raises `StoreError`, and then nothing has changed."""
        if home.delete_at is None:
            # It was deleted while an operation was in progress: what that created is deleted, too.
            leaving = self._leaving.get(home.home_id)
            gone = self._forgotten.get(home.home_id)
            given_up = leaving.delete_at if leaving else gone.wanted_at if gone else None
            home = replace(home, delete_at=given_up)
        before = self.find(home.home_id)
        if before is not None:  # it may have been renamed meanwhile
            home = replace(home, user=before.user, server=before.server)
        self._put(home)
        try:
            await asyncio.shield(self._store.save_home(home))
        except StoreError:
            self._take_back(home, before)
            raise
        return home

    def begin_changing(self, change: HomeChange) -> list[asyncio.Task[None]]:
        """Let what a start changes of its home hold at once; the tasks store it.

        Raises `HomeChanged` if the home is not as it was when this was planned: then nothing has
        changed. Where a task raises `StoreError`, each pass retries.
        """
        before, after, deleted = change.before, change.after, change.deleted
        if before == after:
            return []
        if not self._is_current(change):
            raise HomeChanged("the home of this server has just been changed: try again")
        log.info("The home of a server changes with its start: %s", change.log_message)
        records = [after] if after is not None else []
        if deleted is not None:
            records.insert(0, replace(deleted, delete_at=self._clock.now()))
        for home in records:
            self._put(home)
        if before is not None and (after is None or after.volume_id is None):
            self.gone.discard(before.home_id)
        if after is not None and after.is_being_copied:
            self.not_copied.add(after.home_id)
        begin = self._store.write_behind.begin
        return [begin(x.home_id, partial(self._save_as_it_is, x.home_id)) for x in records]

    def _is_current(self, change: HomeChange) -> bool:
        """Whether the home is as it was; one without a record has no time of its own."""
        before, home = change.before, change.before or change.after
        now = self.of(home.user, home.server) if home is not None else None
        if now is None or before is None:
            return now is before
        return replace(now, created_at=before.created_at) == before

    def is_stored(self, home_id: str) -> bool:
        """Whether the store has what a start has changed of a home: no copy is made before."""
        return not self._store.write_behind.is_pending(home_id)

    async def _save_as_it_is(self, home_id: str) -> None:
        home = self.find(home_id) or self._leaving.get(home_id)
        if home is not None:
            await self._store.save_home(home)

    def _take_back(self, home: Home, before: Home | None) -> None:
        """Unless it has been changed again since."""
        place = home.user, home.server
        if home not in {self._homes.get(place), self._leaving.get(home.home_id)}:
            return
        if before is not None:
            self._leaving.pop(home.home_id, None)
            self._homes[place] = before
            self._places[home.home_id] = place
        elif home.delete_at is None:
            self._homes.pop(place, None)
            self._places.pop(home.home_id, None)

    def _put(self, home: Home) -> None:
        place = home.user, home.server
        if home.delete_at is None:
            self._homes[place] = home
            self._places[home.home_id] = place
            return
        self._leaving[home.home_id] = home
        if place in self._homes and self._homes[place].home_id == home.home_id:
            del self._homes[place]
            self._places.pop(home.home_id, None)

    async def rename(self, home: Home, server: str) -> Home:
        """Rename its server. Raises `StoreError`, and then nothing has changed."""
        renamed = replace(home, server=server)
        was_recorded = self._homes.pop((home.user, home.server), None) is not None
        # Before the write: what others save meanwhile is written later, and has the new name.
        self._homes[renamed.user, renamed.server] = renamed
        self._places[home.home_id] = renamed.user, renamed.server
        try:
            await asyncio.shield(self._store.save_home(renamed))
        except StoreError:
            now = self._homes.pop((renamed.user, renamed.server), None)
            if was_recorded and now is not None:  # else it has been given up meanwhile
                self._homes[home.user, home.server] = replace(now, server=home.server)
                self._places[home.home_id] = home.user, home.server
            raise
        self._found.pop(self._place_in_tags(home.user, home.server), None)
        return renamed

    async def leave(self, home: Home) -> None:
        """Delete its volume, snapshots and record, in the background. Raises `StoreError`."""
        await self.save(replace(home, delete_at=self._clock.now()))

    async def forget(self, home: Home) -> None:
        """Delete its record: volume and snapshots are deleted. Raises `StoreError`."""
        await asyncio.shield(self._store.delete_home(home.home_id))
        self._leaving.pop(home.home_id, None)
        now = self._clock.now()
        self._forgotten = {
            home_id: gone
            for home_id, gone in self._forgotten.items()
            if now - gone.forgotten_at < FORGOTTEN_KEPT
        }
        self._forgotten[home.home_id] = Forgotten(home.delete_at or now, now)
        self._found.pop(self._place_in_tags(home.user, home.server), None)

    def tags(self, home: Home) -> dict[str, str]:
        """The tags of a home's volumes and snapshots."""
        return {
            HUB: self._settings.hub,
            STORE: self._store.store_id,
            HOME: home.home_id,
            **self.owner_tags(home),
        }

    def owner_tags(self, home: Home) -> dict[str, str]:
        """Those of them that may change. The hub's policy lets it set no others."""
        payer = self._accounts.scope(self.payers([home])[home.user])
        return {**self.found_by(home), PAYER: tag_value(payer)}

    def found_by(self, home: Home) -> dict[str, str]:
        """The tags by which a home is found where its record is lost."""
        user, server = self._place_in_tags(home.user, home.server)
        name = f"home of {self._accounts.name(home.user)} {home.server}".strip()
        return {USER: user, SERVER: server, NAME: tag_value(name)}

    def _place_in_tags(self, user: str, server: str) -> tuple[str, str]:
        return tag_value(self._accounts.name(user)), tag_value(server)

    def payers(self, homes: Iterable[Home]) -> Mapping[str, str]:
        """User -> who pays for their homes, as in the ledger."""
        users = {home.user for home in homes}
        others = self.payers_of(users)
        return {user: others.get(user) or user_payer(user) for user in users}


def home_id_of(kind: str) -> str:
    """A new id. It says that a home is temporary: its volume has it as a tag, and the record may be
    lost."""
    return client_token(TEMPORARY if kind == TEMPORARY else "home")


def _is_temporary(volume: Volume) -> bool:
    return volume.tags.get(HOME, "").startswith(f"{TEMPORARY}-")
