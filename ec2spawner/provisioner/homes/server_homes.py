"""The homes of servers as hub and pages use them: read, move, replace, rename, delete."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.cloud.volume import VolumeSnapshot
from ..model.leases.home_change import HomeChange
from ..model.leases.lease import Home, Lease
from ..state.state import State
from . import placement
from .server_copies import ServerCopies
from .volumes import HomeVolumes
from .zone_migration import ZoneMigrations, moved


@dataclass(frozen=True, slots=True)
class ServerHomes:
    """A home belongs to a user and a server name."""

    state: State
    volumes: HomeVolumes
    migrations: ZoneMigrations
    copies: ServerCopies

    # --- reading ---

    def of(self, user: str, server: str) -> Home | None:
        """The home of a server, as recorded or as a volume's tags say."""
        return self.state.homes.of(user, server)

    def for_lease(self, lease: Lease) -> Home | None:
        """The home that a lease uses; None where it keeps no files."""
        return self.state.homes.for_lease(lease)

    def newest_snapshot(self, home: Home) -> VolumeSnapshot | None:
        """Its newest complete snapshot, as the last listing showed it."""
        return self.state.homes.newest.get(home.home_id)

    def lasting(self, user: str, server: str) -> Home | None:
        """The home of a server if its files stay; None if there is none, or a temporary one, which
        an ordinary start gives up."""
        home = self.of(user, server)
        return None if home is not None and home.is_temporary else home

    def copy_source(self, user: str) -> Home | None:
        """What the homes of a user's other servers begin as a copy of, where the hub copies them;
        None if there is nothing to copy."""
        return self.state.homes.copy_source(user)

    def is_gone(self, home: Home) -> bool:
        """Whether its volume was found deleted when it was wanted."""
        return home.home_id in self.state.homes.gone

    def is_moving(self, user: str, server: str) -> bool:
        """Whether its files are still being moved to another zone."""
        return self.state.homes.is_moving(user, server)

    def is_being_copied(self, user: str, server: str) -> bool:
        """Whether its volume is yet to be made, as a copy of another home's."""
        return self.state.homes.is_being_copied(user, server)

    def percent_moved(self, move_id: str) -> int:
        """How much of a move's snapshot is copied, as of the last listing, in percent 0–100."""
        return self.migrations.percent(move_id)

    def subnets_for(self, user: str, server: str, *, home_kind: str = "ebs") -> tuple[str, ...]:
        """The subnets that the server's home allows: all, or those of the home's zone."""
        return placement.subnets_for(self.state, user, server, home_kind=home_kind)

    def subnets_of(self, home: Home | None) -> tuple[str, ...]:
        """The subnets for a home as a start will have it; a temporary one is given up."""
        zone = None if home is None or home.is_temporary else home.next_zone
        return placement.subnets_in(self.state, zone)

    def zones_for(self, user: str, server: str, *, home_kind: str = "ebs") -> frozenset[str]:
        """The zones that the server's home allows, of those that have a configured subnet."""
        return placement.zones_for(self.state, user, server, home_kind=home_kind)

    # --- what a start changes, once it is admitted ---

    def plan_move(self, home: Home, zone: str) -> HomeChange:
        """Begin to move it to another zone."""
        message = f"{home.volume_id} of {home.user!r} moves from {home.zone} to {zone}"
        return HomeChange(home, moved(home, zone), log_message=message)

    async def plan_copy(self, user: str, server: str, size_gib: int) -> HomeChange:
        """Let a server's first home begin as a copy of the default server's, and that of a run as
        a copy of its own server's, if that has one.

        Raises `CloudError` and `StoreError`.
        """
        return await self.copies.plan(user, server, size_gib)

    async def plan_replacement(self, home: Home, snapshot_id: str) -> HomeChange:
        """Let the start make a new volume, from a snapshot or, without one, empty.

        Raises `CloudError`, with code `HomeExists` while the volume is there, and `StoreError`.
        """
        return await self.volumes.plan_replacement(home, snapshot_id)

    def plan_deletion(self, home: Home) -> HomeChange:
        """Delete a home that was not made yet: the server begins with an empty one."""
        message = f"no copy of {home.made_from} is made for {home.user!r}"
        return HomeChange(home, None, forgets_session=True, log_message=message)

    # --- changing ---

    async def delete(self, home: Home) -> None:
        """Delete it for good, in the background: volume, snapshots and record.

        What sleeps in it goes with it. Raises `StoreError`.
        """
        await self.state.homes.leave(home)
        await self.state.sleeping.forget(home.user, home.server, self.state.clock.now())
        self.state.wake()

    async def rename(self, home: Home, server: str) -> None:
        """Rename its server. Raises `StoreError`, and then the home has its old name."""
        await self.state.homes.rename(home, server)
        await self.state.sleeping.rename(home.user, home.server, server)

    async def list_volumes(self) -> None:
        """Compare EC2's volumes and their tags with the records. Raises `CloudError`,
        `StoreError`."""
        await self.volumes.listing.refresh()
