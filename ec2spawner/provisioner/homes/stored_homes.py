"""The volumes and snapshots of homes that are billed, and whose they are. Pure.

A scan of a thousand homes with their snapshots takes tens of milliseconds: not for the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ...core.ledger.cost_rows import HUB, Resource, user_payer
from ...core.ledger.storage.held import MIB, Owner, Stored
from ...core.tags import HOME, SERVER, STORE, USER
from ..model.cloud.volume import Volume, VolumeSnapshot
from ..model.leases.lease import Home

GONE_STATES: Final = frozenset({"deleting", "deleted"})

Tags = Mapping[str, str]

OF_HUB: Final = Owner("", "", HUB)
"""Of what belongs to no user of this hub."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Whose homes are."""

    store_id: str
    recorded: Mapping[str, Home]
    """By id of the home."""
    tagged: Mapping[str, str]
    """Tag -> its user, of homes without a record."""
    payers: Mapping[str, str]
    """User -> default payer, of those who have another one than themselves."""

    def of(self, tags: Tags) -> Owner:
        """As recorded; without a record, the user of the hub to whom the tag belongs. The hub pays
        where there is none, and for what another store of it made: that is nobody's until it is
        handed over."""
        home, is_ours = self.recorded.get(tags[HOME]), tags.get(STORE) == self.store_id
        user = self.tagged.get(tags.get(USER, "")) if is_ours else None
        user = home.user if home else user
        if user is None:
            return OF_HUB
        server = home.server if home else tags.get(SERVER, "")
        return Owner(user, server, self.payers.get(user) or user_payer(user))


def tags_without_record(
    volumes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot], recorded: Mapping[str, Home]
) -> set[str]:
    """The tags of users whose homes have no record."""
    tags = [*(each.tags for each in volumes), *(each.tags for each in snapshots)]
    homes = [each for each in tags if HOME in each]
    return {each[USER] for each in homes if each[HOME] not in recorded and USER in each}


def stored_homes(
    volumes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot], owners: Owners
) -> Iterator[Stored]:
    """What is billed."""
    for volume in volumes:
        if HOME in volume.tags and volume.state not in GONE_STATES:
            yield Stored(
                resource_id=volume.volume_id,
                home_id=volume.tags[HOME],
                resource=Resource.HOME,
                mib=volume.size_gib * MIB,
                created_at=volume.created_at or datetime.min.replace(tzinfo=UTC),
                owner=owners.of(volume.tags),
                volume_type=volume.volume_type,
                zone=volume.zone,
            )
    for copy in snapshots:
        if HOME in copy.tags:
            yield Stored(
                resource_id=copy.snapshot_id,
                home_id=copy.tags[HOME],
                resource=Resource.SNAPSHOT,
                mib=_mib(copy),
                created_at=copy.started_at,
                owner=owners.of(copy.tags),
            )


def _mib(copy: VolumeSnapshot) -> int:
    """The blocks that a snapshot refers to. EC2 states them once it is complete; where it does not,
    they are at most the volume's."""
    if copy.state == "pending":
        return 0
    return round((copy.size_gib if copy.stored_gib is None else copy.stored_gib) * MIB)
