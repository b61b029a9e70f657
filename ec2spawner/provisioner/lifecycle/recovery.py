"""Servers that outlive their hub, or the hub's store.

After a restart JupyterHub asks for each server it believes to run. A lease that the store holds
is taken up; one that a lost store does not hold is rebuilt from what JupyterHub saved and the
instance's tags. Leases that nobody asks for are ended, but never many at once: that would rather
be our own mistake (the brake).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ...core.tags import HUB
from ...wire import IdlePolicy, Stop
from ..homes.volumes import Homes
from ..model.cloud import Instance, LaunchSpec
from ..model.launch_key import launch_key_of
from ..model.lease import Home, Lease, LeaseState
from ..model.settings import Settings
from ..offers.prices import PriceCache
from ..runtime.uptime_clock import UptimeClock
from ..state.instance_cache import InstanceCache
from ..state.lease_registry import LeaseRegistry

log = logging.getLogger(__name__)

BRAKE_COUNT = 3
BRAKE_SHARE = 0.2
BRAKE_WINDOW = 600.0
"""Seconds awake. More than max(3, 20 %) of the running servers are never ended by our own
conclusion within the window: a pass that would do so ends none and alerts. A window, because what
fails at once (a network) is noticed one by one."""

ALERT_INTERVAL = 300.0

T = TypeVar("T")


class SavedServer(BaseModel):
    """What JupyterHub keeps of a running server: enough to go on without our store.

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
    registry: LeaseRegistry
    instance_cache: InstanceCache
    homes: Homes
    prices: PriceCache
    settings: Settings
    now: Callable[[], datetime]
    uptime: UptimeClock
    _orphans: set[str] = field(default_factory=set)
    """Leases of the store for which JupyterHub has not asked since this process began."""
    _loaded_at: float | None = None
    """In seconds awake, as all that follow: no clock that is set makes a massacre."""
    _alerted_at: float | None = None
    _ended_at: list[float] = field(default_factory=list)
    """When the brake let an end pass, within the window."""

    def load(self, leases: Sequence[Lease]) -> None:
        self._loaded_at = self.uptime()
        self._orphans = {lease.lease_id for lease in leases}
        for lease in leases:
            self.registry.contact(lease.lease_id).heard_at = self.uptime()

    def take_up(self, user: str, server: str, lease_id: str) -> Lease | None:
        """The stored lease of a server that JupyterHub asks for, by id or else by name."""
        lease = self.registry.get(lease_id) or self.registry.of_server(user, server)
        if lease is not None:
            self._orphans.discard(lease.lease_id)
        return lease

    async def rebuild(self, user: str, server: str, saved: SavedServer) -> Lease | None:
        """A lease that the store lost, from what JupyterHub saved and the instance's tags.

        None when the instance is not there. The instance (by its `Tagging`) and the home become
        this store's: JupyterHub's own record proves that they are ours. Raises `CloudError`.
        """
        instance = self.instance_cache.instances.get(saved.instance_id)
        if instance is None or self.instance_cache.is_gone(saved.instance_id):
            return None
        if instance.tags.get(HUB) != self.settings.hub:
            return None
        log.warning("Rebuilding %s of %r from tags: the store lost it", saved.lease_id, user)
        await self._restore_home(user, server, saved)
        lease = self._rebuilt(user, server, saved, instance)
        self.registry.contact(lease.lease_id).heard_at = self.uptime()
        await self.registry.add(lease)
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
            created_at=self.now(),
            volume_id=saved.volume_id,
            zone=saved.zone,
        )
        await self.homes.restore(home)

    def _rebuilt(self, user: str, server: str, saved: SavedServer, instance: Instance) -> Lease:
        spec = LaunchSpec(
            instance_types=(instance.instance_type,),
            subnets=self.settings.subnets,
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

    def unclaimed(self) -> list[tuple[Lease, Stop]]:
        """Leases that JupyterHub has not asked for since it began, once it had time to."""
        if not self._orphans or self._is_in_grace():
            return []
        stop = Stop(reason="hub", message="The hub no longer knew this server")
        starting = [
            (lease, stop)
            for lease in self.registry.open(LeaseState.WAITING, LeaseState.STARTING)
            if lease.lease_id in self._orphans
        ]
        running = [
            (lease, stop)
            for lease in self.registry.open(LeaseState.READY)
            if lease.lease_id in self._orphans
        ]
        return [*starting, *self.braked(running, "JupyterHub does not know them")]

    def is_unclaimed(self, lease_id: str) -> bool:
        """Whether JupyterHub has still not asked for it."""
        return lease_id in self._orphans

    def unknown(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """Of the instances whose lease the store does not hold, those that shall end.

        After a store was lost or restored, JupyterHub asks for the servers on them first.
        """
        if self._is_in_grace():
            return []
        return self.braked(instances, "the store does not hold their leases")

    def _is_in_grace(self) -> bool:
        """Whether JupyterHub may still ask for what it knows."""
        loaded_at = self._loaded_at
        return loaded_at is None or self.uptime() - loaded_at < self.settings.recovery_grace

    def braked(self, ends: Sequence[T], why: str) -> Sequence[T]:
        """The same, or nothing where that would be a massacre. `why` is for the admin."""
        if not ends:
            return ends
        now = self.uptime()
        self._ended_at = [at for at in self._ended_at if now - at < BRAKE_WINDOW]
        lately = len(self._ended_at)
        running = sum(1 for _ in self.registry.open(LeaseState.READY))
        if len(ends) + lately <= max(BRAKE_COUNT, BRAKE_SHARE * (running + lately)):
            self._ended_at += [now] * len(ends)
            return ends
        if self._alerted_at is not None and now - self._alerted_at < ALERT_INTERVAL:
            return []
        self._alerted_at = now
        log.critical(
            "BRAKE: %d servers would be ended after %d lately, %d are running: %s. None is "
            "ended. Look at the region, the hub's tag and the network before you restart the hub.",
            len(ends),
            lately,
            running,
            why,
        )
        return []
