"""What can still take a lease: promises, answers that no listing shows yet, and instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...core.instances.matching import Need, Supply, fits
from ...core.instances.retention import CLAIM_SILENCE
from ...core.tags import (
    INTENT,
    LAUNCH_KEY,
    LEASE,
    STORE,
)
from ..model.cloud import (
    GONE,
    Instance,
    InstanceState,
    LaunchSpec,
)
from ..model.launch_key import base_key_of, base_of
from ..model.settings import Settings
from ..runtime.uptime_clock import UptimeClock
from ..state.instance_cache import InstanceCache
from ..state.launches import Expected, Launches
from ..state.lease_registry import LeaseRegistry
from .claims import Claims


@dataclass(frozen=True, slots=True)
class Stock:
    """All of ours that is not a lease's."""

    supplies: tuple[Supply, ...]
    """What can still take a lease."""
    dead: tuple[Instance, ...]
    """Instances that never will."""
    unknown: tuple[Instance, ...]
    """Instances that serve a lease which this store does not hold: it may be an old copy."""
    silent: tuple[Instance, ...] = ()
    """Of the dead, those whose agent never called."""


@dataclass(slots=True)
class Inventory:
    registry: LeaseRegistry
    claims: Claims
    launches: Launches
    instance_cache: InstanceCache
    settings: Settings
    store_id: str
    zones_of: Callable[[LaunchSpec], frozenset[str]]
    uptime: UptimeClock
    is_kept: Callable[[str], bool]
    """Waits for its user: nobody else's, and no surplus."""
    _stock: Stock | None = field(default=None, init=False)
    """As the last pass computed it; None before the first."""
    _seen_at: dict[str, float] = field(default_factory=dict)
    """By instance id, in seconds awake: when this process first saw it listed."""

    def knows(self, instance_id: str) -> bool:
        """Whether a listing shows it, or a launch has been answered with it."""
        return instance_id in self.instance_cache.instances or instance_id in self.launches.expected

    def forget_old(self) -> None:
        """Drop what is known of instances that no listing shows."""
        here = self.instance_cache.instances
        self._seen_at = {each: at for each, at in self._seen_at.items() if each in here}

    def running(self) -> list[Instance]:
        """This store's instances in any state, also those that no listing shows yet."""
        listed = self.instance_cache.instances
        ours = [each for each in listed.values() if each.tags.get(STORE) == self.store_id]
        return ours + [
            _as_instance(expected)
            for instance_id, expected in self.launches.expected.items()
            if instance_id not in listed and expected.launched.instance_type
        ]

    def supplies(self) -> Sequence[Supply]:
        """What the last pass found to be able to take a lease, and that has none since."""
        stock = self._stock or self.take_stock()
        leased = {lease.instance_id for lease in self.registry.open()}
        return [supply for supply in stock.supplies if supply.supply_id not in leased]

    def wake_claim_for(self, need: Need) -> None:
        """Let one waiting claim that fits take a new lease at once, before the next pass."""
        for supply in self.supplies():
            if self.claims.is_waiting(supply.supply_id) and fits(need, supply):
                self.claims.wake(supply.supply_id)
                return

    def take_stock(self) -> Stock:
        """Compute the stock from the last listing and the launches: once for each pass."""
        supplies: list[Supply] = []
        dead: list[Instance] = []
        unknown: list[Instance] = []
        silent: list[Instance] = []
        leased = {lease.instance_id for lease in self.registry.open()}
        leased |= {each for each in self.instance_cache.instances if self.is_kept(each)}
        served = self.registry.served()
        for instance in self.instance_cache.instances.values():
            if not self._is_ours(instance) or instance.instance_id in leased:
                continue
            if self._is_of_unknown_lease(instance):
                unknown.append(instance)
            elif instance.instance_id in served or self._is_dead(instance):
                dead.append(instance)
            elif self._never_spoke(instance):
                silent.append(instance)
            else:
                supplies.append(supply_of(instance))
        # First, so that an instance whose agent waits is not surplus beside one that still boots.
        supplies.sort(key=lambda supply: supply.supply_id not in self.claims.waiting)
        seen = {*self.instance_cache.instances, *leased, *served}
        supplies += [
            self._supply_of_expected(expected)
            for instance_id, expected in self.launches.expected.items()
            if instance_id not in seen
        ]
        # Last, so that a booted instance is not given up for a promise that may be broken.
        supplies += self.launches.outstanding()
        self._stock = Stock(tuple(supplies), (*dead, *silent), tuple(unknown), tuple(silent))
        return self._stock

    def _is_ours(self, instance: Instance) -> bool:
        """Carries our store's id and is not somebody's copy of our tags."""
        return (
            instance.tags.get(STORE) == self.store_id
            and instance.state not in GONE
            and not self.launches.is_copy(instance.tags.get(INTENT, ""), instance.instance_id)
        )

    def _is_of_unknown_lease(self, instance: Instance) -> bool:
        return (
            LEASE in instance.tags
            and instance.instance_id not in self.claims.unwanted
            and not self.registry.knows(instance.tags[LEASE])
        )

    def _is_dead(self, instance: Instance) -> bool:
        """Used, stopped, of a call given up, or fallen silent."""
        instance_id = instance.instance_id
        if instance_id in self.claims.unwanted or LEASE in instance.tags:
            return True
        if instance.state not in {InstanceState.PENDING, InstanceState.RUNNING}:
            return True
        if self.launches.is_failed(instance.tags.get(INTENT, "")):
            return True
        if self.claims.is_bound(instance_id):
            return self.claims.silent_seconds(instance_id) > CLAIM_SILENCE
        return False

    def _never_spoke(self, instance: Instance) -> bool:
        """Its agent has not phoned home in time: the hub's own, whatever the clocks say."""
        if self.claims.is_bound(instance.instance_id):
            return False
        now = self.uptime()
        seen_at = self._seen_at.setdefault(instance.instance_id, now)
        return now - seen_at > self.settings.boot_timeout

    def _supply_of_expected(self, expected: Expected) -> Supply:
        launched, spec = expected.launched, expected.intent.request.spec
        return Supply(
            supply_id=launched.instance_id,
            base_key=base_key_of(spec),
            instance_types=frozenset(
                {launched.instance_type} if launched.instance_type else spec.instance_types
            ),
            zones=frozenset({launched.zone}) if launched.zone else self.zones_of(spec),
            markets=frozenset({launched.market}),
        )


def _as_instance(expected: Expected) -> Instance:
    launched = expected.launched
    return Instance(
        instance_id=launched.instance_id,
        state=InstanceState.PENDING,
        instance_type=launched.instance_type,
        zone=launched.zone,
        market=launched.market,
        launched_at=expected.responded_at,
        tags=expected.intent.request.tags,
    )


def supply_of(instance: Instance) -> Supply:
    """An instance as supply: it is what it is."""
    return Supply(
        supply_id=instance.instance_id,
        base_key=base_of(instance.tags.get(LAUNCH_KEY, "")),
        instance_types=frozenset({instance.instance_type}),
        zones=frozenset({instance.zone}),
        markets=frozenset({instance.market}),
    )
