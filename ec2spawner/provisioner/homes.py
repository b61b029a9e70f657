"""Homes on EBS: a volume per server, made in the zone of its first instance, never deleted here.

A volume has one writer: attaching waits until the instance that held it before has let go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from ..core.names import client_token, tag_value
from ..core.tags import HOME, HUB, NAME, SERVER, STORE, USER
from .cloud import Cloud, CloudError, Volume
from .lease import Home, Lease
from .settings import Settings
from .store import Store

log = logging.getLogger(__name__)

ATTACH_TIMEOUT = 120.0
"""Seconds until attaching is given up: an instance that is terminated lets go within this."""

ATTACH_PAUSE = 1.0
"""Seconds between two tries while another instance still holds the volume."""


class Homes:
    def __init__(
        self, cloud: Cloud, store: Store, settings: Settings, *, now: Callable[[], datetime]
    ) -> None:
        self._cloud = cloud
        self._store = store
        self._settings = settings
        self._now = now
        self._homes: dict[tuple[str, str], Home] = {}
        self._compared = False
        """With the cloud's volumes, since this process began."""
        self._found: dict[tuple[str, str], Volume] = {}
        """Volumes of this store without a record, by tags of user and server: handed over."""
        self._foreign: dict[tuple[str, str], str] = {}
        """Volume ids of homes that another store of this hub made, by tags of user and server."""

    def load(self, homes: tuple[Home, ...]) -> None:
        self._homes = {(home.user, home.server): home for home in homes}

    def of(self, user: str, server: str) -> Home | None:
        """The home of a server: as recorded, or as a volume's tags say it is theirs."""
        home = self._homes.get((user, server))
        volume = self._found.get((tag_value(user), tag_value(server)))
        if home is not None or volume is None:
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

    def for_lease(self, lease: Lease) -> Home | None:
        """The home that a lease uses; None where it keeps no files, whatever was kept before."""
        return self.of(lease.user, lease.server) if lease.home_kind == "ebs" else None

    def zone_of(self, user: str, server: str) -> str | None:
        """The zone that a server's home binds it to; None while any will do."""
        home = self.of(user, server)
        return home.zone if home else None

    async def take_up_volumes(self) -> None:
        """Compare the cloud's volumes with the records. Raises `CloudError`.

        A volume of this store that its record does not name yet (a crash between its creation
        and the record) is recorded, one without any record is remembered for its user. One of
        another store is never touched, but remembered too: its user must not silently get an
        empty home instead.
        """
        by_id = {home.home_id: home for home in self._homes.values()}
        for volume in await self._cloud.list_volumes(self._settings.hub):
            home_id, owner = volume.tags.get(HOME), _owner_tags(volume.tags)
            if not home_id or volume.state in {"deleting", "deleted", "error"}:
                continue
            if volume.tags.get(STORE) != self._store.store_id:
                self._foreign[owner] = volume.volume_id
                continue
            home = by_id.get(home_id)
            if home is None:
                self._found[owner] = volume
            elif home.volume_id is None:
                await self._save(replace(home, volume_id=volume.volume_id, zone=volume.zone))
                log.info("Home %s taken up again for %r", volume.volume_id, home.user)
        self._compared = True

    async def restore(self, home: Home) -> None:
        """Record a home whose record was lost with the store, and make its volume ours."""
        if home.volume_id is None or self.of(home.user, home.server) is not None:
            return
        await self._cloud.tag([home.volume_id], {STORE: self._store.store_id})
        self._foreign.pop((tag_value(home.user), tag_value(home.server)), None)
        await self._save(home)

    async def ensure_volume(self, lease: Lease, zone: str) -> Home:
        """The lease's home with a volume; a first one is made in `zone`.

        Raises `CloudError`.
        """
        home = self.of(lease.user, lease.server)
        if (home is None or home.volume_id is None) and not self._compared:
            await self.take_up_volumes()
            home = self.of(lease.user, lease.server)
        if home is None:
            foreign = self._foreign.get((tag_value(lease.user), tag_value(lease.server)))
            if foreign is not None:
                message = _foreign_message(foreign, self._store.store_id)
                raise CloudError("ForeignHome", message, retryable=False)
            home = Home(
                home_id=client_token("home"),
                user=lease.user,
                server=lease.server,
                kind=lease.home_kind,
                size_gib=lease.home_gib,
                created_at=self._now(),
            )
        if (home.user, home.server) not in self._homes:
            await self._save(home)
        if home.volume_id is None:
            home = await self._make_volume(home, zone)
        return home

    async def _make_volume(self, home: Home, zone: str) -> Home:
        try:
            volume = await self._cloud.create_volume(
                home.home_id, zone, home.size_gib, self._tags(home)
            )
        except CloudError as error:
            if error.code != "IdempotentParameterMismatch":
                raise
            # An earlier call whose answer was lost made the volume, in another zone.
            await self.take_up_volumes()
            made = self._homes[home.user, home.server]
            if made.volume_id is None:
                raise
            return made
        home = replace(home, volume_id=volume.volume_id, zone=volume.zone)
        await self._save(home)
        return home

    async def attach(self, home: Home, instance_id: str, wanted: Callable[[], bool]) -> None:
        """Attach the home's volume, waiting while another instance holds it and it is `wanted`.

        Raises `CloudError`, with code `VolumeInUse` when it was not let go in time.
        """
        assert home.volume_id is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ATTACH_TIMEOUT
        while wanted():
            try:
                await self._cloud.attach_volume(home.volume_id, instance_id)
            except CloudError as error:
                may_pass = error.retryable or error.code in {"VolumeInUse", "IncorrectState"}
                if not may_pass or loop.time() + ATTACH_PAUSE >= deadline:
                    raise
                log.info("Home %s cannot be attached yet: %s", home.volume_id, error)
                await asyncio.sleep(ATTACH_PAUSE)
            else:
                return

    async def detach(self, lease: Lease) -> None:
        """Detach the lease's volume; a failure is logged, since the instance's end frees it."""
        home = self.for_lease(lease)
        if home is None or home.volume_id is None or lease.instance_id is None:
            return
        try:
            await self._cloud.detach_volume(home.volume_id, lease.instance_id)
        except CloudError as error:
            log.warning("Detaching %s of %s: %s", home.volume_id, lease.lease_id, error)

    def _tags(self, home: Home) -> dict[str, str]:
        return {
            HUB: self._settings.hub,
            STORE: self._store.store_id,
            HOME: home.home_id,
            USER: tag_value(home.user),
            SERVER: tag_value(home.server),
            NAME: tag_value(f"home of {home.user} {home.server}".strip()),
        }

    async def _save(self, home: Home) -> None:
        self._homes[home.user, home.server] = home
        await asyncio.shield(self._store.save_home(home))


def _owner_tags(tags: Mapping[str, str]) -> tuple[str, str]:
    return tags.get(USER, ""), tags.get(SERVER, "")


def _foreign_message(volume_id: str, store_id: str) -> str:
    return (
        f"the home of this server is {volume_id}, which another store of this hub made. "
        f"If that store is lost, an administrator can hand the volume over: set its tag "
        f"{STORE} to {store_id} and restart the hub"
    )
