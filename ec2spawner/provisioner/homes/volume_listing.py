"""EC2's volumes of homes, compared with the records.

A volume whose creation was not answered, or that an admin made from a snapshot under the home's
tag, becomes the home's. One of another store of this hub is never touched.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...core.homes.zone_migration import LISTING_GRACE
from ...core.names import tag_value
from ...core.tags import HOME, PAYER, SERVER, STORE, USER
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.volume import Volume
from ..model.leases.lease import Home
from ..runtime.shared_call import SharedCall
from ..state.state import State

log = logging.getLogger(__name__)

UNUSABLE_STATES = frozenset({"deleting", "deleted", "error"})

PAYERS_TAGGED: Final = 50
"""Calls of one comparison to tag payers: the first after an upgrade finds a thousand, and EC2 would
throttle launches with them."""


class VolumeListing:
    """Which volumes EC2 has for the homes of this hub."""

    def __init__(self, state: State, cloud: Cloud) -> None:
        self._records = state.homes
        self._accounts = state.accounts
        self._clock = state.clock
        self._settings = state.settings
        self._store_id = state.store_id
        self._cloud = cloud
        self.is_complete = False
        """Whether this process has compared all volumes with the records."""
        self._foreign: dict[tuple[str, str], str] = {}
        """Volume ids of homes that another store of this hub made, by tags of user and server, as
        of the last comparison."""
        self._payer_failures: Counter[str] = Counter()
        self._list_and_compare = SharedCall(self._refresh)

    async def refresh(self) -> None:
        """List EC2's volumes and compare them with the records. Raises `CloudError`, `StoreError`.

        A volume of this store that its record does not name yet (a crash between its creation
        and the record) is recorded; one without any record is remembered for its user. One of
        another store is never touched, but remembered too: its user must not silently get an
        empty home instead. Those who ask at the same time share a listing.
        """
        await self._list_and_compare()

    async def _refresh(self) -> None:
        await self.compare(await self._cloud.list_volumes(self._settings.hub))

    async def compare(self, volumes: Sequence[Volume]) -> None:
        """The same with this complete listing. Raises `CloudError`, `StoreError`."""
        by_home: dict[str, list[Volume]] = {}
        foreign: dict[tuple[str, str], str] = {}
        for volume in volumes:
            home_id, owner = volume.tags.get(HOME), _owner_tags(volume.tags)
            if not home_id or volume.state in UNUSABLE_STATES:
                continue
            if volume.tags.get(STORE) == self._store_id:
                by_home.setdefault(home_id, []).append(volume)
            else:
                foreign[owner] = volume.volume_id
        self._foreign = foreign
        self._records.free = {each.volume_id for each in volumes if each.state == "available"}
        listed = {volume.volume_id for volume in volumes}
        for home in self._records.live():
            await self._compare_one(home.home_id, by_home.pop(home.home_id, []), listed)
        newest = {home_id: _newest(found) for home_id, found in by_home.items()}
        self._records.remember_found(newest)
        self.is_complete = True

    async def _compare_one(self, home_id: str, found: Sequence[Volume], listed: set[str]) -> None:
        home = self._records.find(home_id)
        if home is None:
            return
        await self._follow_tags(home, found)
        if home.volume_id is None:
            if found:
                await self._take_up(home, _newest(found))
            elif (
                home.zone is not None
                and not home.is_copy
                and self._clock.now() - home.created_at > LISTING_GRACE
            ):
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
        self._foreign.pop(_owner_tags(self._records.found_by(home)), None)
        await self._records.save(home)

    async def _follow_tags(self, home: Home, found: Sequence[Volume]) -> None:
        """Tag the volumes of a home that was renamed as its record says: they are found by that
        where the store is lost. A failure is retried at the next comparison."""
        owner = _owner_tags(self._records.found_by(home))
        differ = [each.volume_id for each in found if _owner_tags(each.tags) != owner]
        if not differ:
            return
        try:
            await self._cloud.tag(differ, self._records.owner_tags(home))
        except CloudError as error:
            log.warning("Tagging %s for %r: %s", ", ".join(differ), home.server, error)

    async def tag_payers(self, volumes: Sequence[Volume]) -> None:
        """Tag the homes of this listing whose payer is another than their tag says, or that have
        none: with one call for each payer, `PAYERS_TAGGED` at most. The next comparison tags
        the rest, and retries what failed after it."""
        homes = {home.home_id: home for home in self._records.live()}
        payers = self._records.payers(homes.values())
        differ: defaultdict[str, list[str]] = defaultdict(list)
        for volume in volumes:
            home = homes.get(volume.tags.get(HOME, ""))
            is_ours = volume.tags.get(STORE) == self._store_id
            if home is None or not is_ours or volume.state in UNUSABLE_STATES:
                continue
            payer = tag_value(self._accounts.scope(payers[home.user]))
            if volume.tags.get(PAYER) != payer:
                differ[payer].append(volume.volume_id)
        failures = self._payer_failures
        for payer in sorted(differ, key=failures.__getitem__)[:PAYERS_TAGGED]:
            try:
                await self._cloud.tag(differ[payer], {PAYER: payer})
            except CloudError as error:
                log.warning("Tagging %d homes of %s: %s", len(differ[payer]), payer, error)
                failures[payer] += 1
                if error.retryable:
                    return
            else:
                failures.pop(payer, None)

    def refuse_foreign(self, user: str, server: str) -> None:
        """Raises `CloudError` `ForeignHome` if another store made a home for this server."""
        foreign = self._foreign.get((tag_value(self._accounts.name(user)), tag_value(server)))
        if foreign is not None:
            message = _foreign_message(foreign, self._store_id)
            raise CloudError("ForeignHome", message, retryable=False)


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
