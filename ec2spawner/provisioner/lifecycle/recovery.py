"""Servers that outlive their hub, or the hub's store.

After a restart JupyterHub asks for each server it believes to run. A lease that the store holds
is taken up; one that a lost store does not hold is rebuilt from what JupyterHub saved and the
instance's tags. Leases that nobody asks for are ended, but never many at once: that would rather
be our own mistake (the brake).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ...core.tags import HUB
from ...wire import IdlePolicy, Stop
from ..homes.volumes import HomeVolumes
from ..model.cloud.instance import Instance
from ..model.cloud.launch import LaunchSpec
from ..model.launch_key import launch_key_of
from ..model.leases.lease import Home, Lease, LeaseState
from ..offers.prices import PriceCache
from ..state.state import State

log = logging.getLogger(__name__)


class SavedServer(BaseModel):
    """What JupyterHub stores of a running server: enough to continue without our store.

    Holds no secret in the clear: the token is hashed, the start sealed.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    lease_id: str
    instance_id: str
    url: str
    token_sha256: str
    sealed_start: str
    profile: str
    profile_name: str
    idle: IdlePolicy
    ready_at: AwareDatetime
    home_kind: str = "none"
    home_id: str = ""
    home_gib: int = 0
    volume_id: str | None = None
    zone: str | None = None


def saved(lease: Lease, home: Home | None) -> SavedServer:
    """The part of a ready lease that JupyterHub shall keep."""
    assert lease.instance_id is not None
    assert lease.ready_at is not None
    return SavedServer(
        lease_id=lease.lease_id,
        instance_id=lease.instance_id,
        url=lease.url,
        token_sha256=lease.token_sha256,
        sealed_start=lease.sealed_start,
        profile=lease.profile,
        profile_name=lease.profile_name,
        idle=lease.idle,
        ready_at=lease.ready_at,
        home_kind=lease.home_kind,
        home_gib=lease.home_gib,
        home_id=home.home_id if home else "",
        volume_id=home.volume_id if home else None,
        zone=home.zone if home else None,
    )


@dataclass(slots=True)
class Recovery:
    """Connects the leases of an earlier process with the servers that JupyterHub knows."""

    state: State
    volumes: HomeVolumes
    prices: PriceCache
    _orphans: set[str] = field(default_factory=set)
    """Leases of the store for which JupyterHub has not asked since this process began."""

    def load(self, leases: Sequence[Lease]) -> None:
        """These are open in the store: JupyterHub is expected to ask for their servers."""
        # JupyterHub knows servers only: a worker follows its server, and a run its number.
        self._orphans = {lease.lease_id for lease in leases if lease.is_server}

    def take_up(self, user: str, server: str, lease_id: str) -> Lease | None:
        """The stored lease of a server that JupyterHub asks for, by id or else by name."""
        lease = self.state.leases.get(lease_id) or self.state.leases.of_server(user, server)
        if lease is not None:
            self._orphans.discard(lease.lease_id)
        return lease

    async def rebuild(self, user: str, server: str, saved: SavedServer) -> Lease | None:
        """A lease that the store lost, from what JupyterHub saved and the instance's tags.

        None when the instance is not there. The instance (by its `Tagging`) and the home become
        this store's: JupyterHub's own record proves that they are ours. Raises `CloudError`.
        """
        instance = self.state.instances.listed.get(saved.instance_id)
        if instance is None or self.state.instances.is_gone(saved.instance_id):
            return None
        if instance.tags.get(HUB) != self.state.settings.hub:
            return None
        log.warning("Rebuilding %s of %r from tags: the store lost it", saved.lease_id, user)
        await self._restore_home(user, server, saved)
        lease = self._rebuilt(user, server, saved, instance)
        self.state.leases.contact(lease.lease_id).heard_at = self.state.clock.uptime()
        await self.state.leases.add(lease)
        return lease

    async def _restore_home(self, user: str, server: str, saved: SavedServer) -> None:
        if saved.volume_id is None:
            return
        home = Home(
            home_id=saved.home_id,
            user=user,
            server=server,
            kind=saved.home_kind,
            size_gib=saved.home_gib,
            created_at=self.state.clock.now(),
            volume_id=saved.volume_id,
            zone=saved.zone,
        )
        await self.volumes.listing.restore(home)

    def _rebuilt(self, user: str, server: str, saved: SavedServer, instance: Instance) -> Lease:
        spec = LaunchSpec(
            instance_types=(instance.instance_type,),
            subnets=self.state.settings.subnets,
            image_id="",
            markets=(instance.market,),
            disk_gib=0,
        )
        return Lease(
            lease_id=saved.lease_id,
            user=user,
            server=server,
            profile=saved.profile,
            profile_name=saved.profile_name,
            spec=spec,
            launch_key=launch_key_of(spec),
            home_kind=saved.home_kind,
            home_gib=saved.home_gib,
            idle=saved.idle,
            state=LeaseState.READY,
            requested_at=instance.launched_at,
            sealed_start=saved.sealed_start,
            instance_id=instance.instance_id,
            token_sha256=saved.token_sha256,
            url=saved.url,
            assigned_at=instance.launched_at,
            ready_at=saved.ready_at,
            segments=(self.prices.segment(instance, instance.launched_at),),
        )

    # --- what nobody asks for ---

    async def reconcile(self, now: datetime) -> None:
        """End the leases that JupyterHub has not asked for since it began, once it had time to."""
        for lease, stop in self._unclaimed():
            if lease.lease_id in self._orphans:  # still: while others ended, it may have asked
                await self.state.end(lease.lease_id, stop)

    def _unclaimed(self) -> list[tuple[Lease, Stop]]:
        if not self._orphans or self.state.is_in_recovery_grace():
            return []
        stop = Stop(reason="hub", message="The hub no longer knew this server")
        starting = self._orphans_of(LeaseState.WAITING, LeaseState.STARTING)
        running = self.state.admit_ends(
            self._orphans_of(LeaseState.READY), "JupyterHub does not know them"
        )
        return [(lease, stop) for lease in [*starting, *running]]

    def _orphans_of(self, *states: LeaseState) -> list[Lease]:
        return [x for x in self.state.leases.open(*states) if x.lease_id in self._orphans]
