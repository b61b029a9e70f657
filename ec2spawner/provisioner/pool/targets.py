"""How many instances the pool should have now, and of which spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ...core.instances.matching import balance
from ...core.ledger.cost_rows import HUB
from ...core.limits.standing import standings
from ...core.names import tag_value
from ...core.pool.forecast import Forecast, forecast
from ...core.pool.rules import Auto
from ...core.pool.stopped import Stopped
from ...core.pool.targets import Conditions, PoolTarget, Reason, ReasonCode, targets
from ...core.pool.zones import ANY, by_zone
from ...core.tags import POOL
from ..instances.demand import need_of_place
from ..instances.pool_stops import stopped_in_pool
from ..instances.supply import supply_of
from ..instances.taken_ahead import taken_ahead
from ..instances.unleased import unleased
from ..model.cloud.instance import Instance
from ..model.cloud.launch import LaunchSpec
from ..model.leases.lease import LeaseState
from ..offers.disks import snapshots_of
from ..offers.market import MarketData
from ..state.pool import Group, Place
from ..state.state import State

USUAL_BOOT: Final = 180.0
"""Seconds from the purchase of an instance to its claim, where none has been measured: usual boots
take a minute or two, and a pool that is ready a minute early costs less than one that is late."""

LONGEST_HOLD: Final = 300.0
"""Seconds after the hub's start for which instances without a place are kept, while it is unknown
what places want. That takes seconds, where EC2 answers; what is kept longer would cost money and
serve nobody."""


@dataclass(slots=True)
class PoolTargets:
    """Sets targets and places, before the pass takes stock."""

    state: State
    market: MarketData

    async def reconcile(self, now: datetime) -> None:
        """Never raises."""
        pool, rules = self.state.pool, self.state.settings.pool
        is_configured = bool(rules.rules or pool.overrides)
        pool.holds_surplus = is_configured and pool.specs is None and self._has_just_started()
        if not is_configured:
            pool.targets = pool.places = ()
            pool.unwanted_stopped = frozenset(
                kept.instance_id for kept, _ in stopped_in_pool(self.state)
            )
            return
        own = {each.instance_id: each for each in unleased(self.state) if pool.is_of_pool(each)}
        at_rest = {kept.instance_id: x for kept, x in stopped_in_pool(self.state)}
        prices = {each: self._usd_per_hour(x) for each, x in {**own, **at_rest}.items()}
        pool.note_prices({each: usd for each, usd in prices.items() if usd is not None})
        self._measure_boots(own)
        conditions = self._conditions(own, at_rest, now)
        found = targets(rules, conditions, now)
        if self._is_limit_reached():
            found = tuple(_without_compute(each, conditions) for each in found)
        pool.targets = tuple(self._held(each, own) for each in found)
        running = tuple(place for each in pool.targets for place in self._places(each))
        pool.places = (*running, *self._to_prepare(at_rest))

    def _has_just_started(self) -> bool:
        loaded_at = self.state.loaded_at
        return loaded_at is None or self.state.clock.uptime() - loaded_at < LONGEST_HOLD

    # --- what targets depend on ---

    def _conditions(
        self, own: Mapping[str, Instance], at_rest: Mapping[str, Instance], now: datetime
    ) -> Conditions:
        pool, rules = self.state.pool, self.state.settings.pool
        groups = {Group(each.profile, each.market) for each in rules.rules}
        groups |= {Group(each.profile, each.market) for each in pool.overrides}
        leads = {group.profile: self._boot_seconds(group.profile) for group in groups}
        automatic = {each.profile for each in rules.rules if isinstance(each.running, Auto)}
        return Conditions(
            leads=leads,
            forecasts={each: self._forecast(each, leads[each], now) for each in automatic},
            overrides=pool.overrides,
            prices={group: self._price(group, own) for group in groups},
            disk_prices={group: self._disk_price(group) for group in groups},
            at_rest={group: _number_for(group, at_rest.values()) for group in groups},
        )

    def _forecast(self, profile: str, replacement: float, now: datetime) -> Forecast:
        pool = self.state.pool
        starting = (
            lease.requested_at
            for lease in self.state.leases.open(LeaseState.WAITING, LeaseState.STARTING)
            if lease.profile == profile and not lease.continues
        )
        starts = sorted([*(each.at for each in pool.starts.get(profile, ())), *starting])
        place = self.state.settings.time_zone
        return forecast(starts, pool.known_since or now, now, replacement, place)

    def _price(self, group: Group, own: Mapping[str, Instance]) -> float | None:
        """The highest of what waits, and of the best offer, with disk and address; None while a
        price is unknown."""
        spec = self._spec(group)
        if spec is None:
            return None
        paid = [self._usd_per_hour(each) for each in own.values() if is_for(each, group)]
        known = [usd for usd in (*paid, self._best_offer(spec)) if usd is not None]
        return max(known) + beside(spec, self.market) if known and None not in paid else None

    def _disk_price(self, group: Group) -> float | None:
        """Of a stopped instance; None while unknown."""
        spec = self._spec(group)
        if spec is None:
            return None
        return self.market.prices.disks_usd_per_hour(spec.disk_gib, snapshots_of(spec))

    def _best_offer(self, spec: LaunchSpec) -> float | None:
        marked = self.market.offers.marked(spec)
        is_open = [offer for offer, mark in marked if mark is None] or [x for x, _ in marked]
        priced = [x.usd_per_hour for x in is_open if x.usd_per_hour is not None]
        return min(priced, default=None)

    def _usd_per_hour(self, instance: Instance) -> float | None:
        """Of the instance alone: so leases compare it with their limit."""
        found = self.market.prices.price_of(instance)
        return found.usd_per_hour if found else None

    # --- boots ---

    def _measure_boots(self, own: Mapping[str, Instance]) -> None:
        """How long each took from its launch to its first claim, while it is known."""
        pool = self.state.pool
        measured: dict[str, float] = {}
        for instance_id, instance in own.items():
            binding = self.state.claims.binding(instance_id)
            if self.state.retained.holds(instance_id):
                continue  # it was launched, or started again, without a purchase
            if binding is not None and POOL in instance.tags:
                took = (binding.bound_at - instance.launched_at).total_seconds()
                profile = instance.tags[POOL]
                measured[profile] = max(measured.get(profile, 0.0), took)
        pool.boot_seconds |= measured

    def _boot_seconds(self, profile: str) -> float:
        return self.state.pool.boot_seconds.get(tag_value(profile), USUAL_BOOT)

    # --- places ---

    def _is_limit_reached(self) -> bool:
        """Whether a limit of the hub's spending is used up: no server could start, either."""
        bounds = self.state.settings.limits.of(HUB)
        if not bounds.days:
            return False
        spending = self.state.spending
        days = spending.by_day(HUB, self.state.leases)
        return any(
            each.kind.is_money and each.is_reached
            for each in standings(HUB, bounds, days, spending.today())
        )

    def _held(self, target: PoolTarget, own: Mapping[str, Instance]) -> PoolTarget:
        """A cap that has no price to compare with buys nothing, and ends nothing, either: after a
        restart of the hub prices are unknown for a moment."""
        if target.reasons[-1].code is not ReasonCode.PRICE_UNKNOWN:
            return target
        group = Group(target.profile, target.market)
        running = _number_for(group, own.values())
        at_rest = _number_for(group, (each for _, each in stopped_in_pool(self.state)))
        return replace(target, running=running, stopped=Stopped(at_rest))

    def _places(self, target: PoolTarget) -> Sequence[Place]:
        """Those that are to be filled: what waits for a user who is expected fills one, in its zone
        if there is one."""
        group, zones = Group(target.profile, target.market), self.state.zones
        places = list(self._by_zone(group, target.running))
        for kept, instance in taken_ahead(self.state):
            if places and Group(kept.profile, instance.market) == group:
                fitting = [each for each in places if instance.zone in zones.of(each.spec)]
                places.remove(min(fitting or places, key=lambda each: len(zones.of(each.spec))))
        return places

    def _by_zone(self, group: Group, number: int, *, is_to_stop: bool = False) -> Iterator[Place]:
        spec = self._spec(group)
        if spec is None:
            return
        kind = "stopped " if is_to_stop else ""
        for zone, in_zone in by_zone(number, self._homes(group.profile)).items():
            of_zone = replace(spec, subnets=self._subnets(spec, zone))
            for each in range(in_zone):
                place_id = f"{group.profile} {group.market} {zone} {kind}{each}"
                yield Place(place_id, group, of_zone, is_to_stop)

    def _to_prepare(self, at_rest: Mapping[str, Instance]) -> Iterator[Place]:
        """Of the places for stopped instances those that lack one: it runs until it is prepared.

        Sets which stopped instances have no place.
        """
        pool, found = self.state.pool, list[Place]()
        for target in pool.targets:
            group = Group(target.profile, target.market)
            found += self._by_zone(group, target.stopped.number, is_to_stop=True)
        needs = [need_of_place(self.state, place) for place in found]
        result = balance(needs, [supply_of(each) for each in at_rest.values()])
        unwanted = frozenset() if pool.holds_surplus else frozenset(result.surplus)
        pool.unwanted_stopped = unwanted - self._without_price(at_rest)
        room = {Group(each.profile, each.market): each.stopped.preparing for each in pool.targets}
        for place in found:
            if place.place_id in result.missing and room[place.group] > 0:
                room[place.group] -= 1
                yield place

    def _without_price(self, at_rest: Mapping[str, Instance]) -> frozenset[str]:
        """Ids of those whose places are not known, because a cap has no price to compare with."""
        unpriced = [
            Group(each.profile, each.market)
            for each in self.state.pool.targets
            if each.reasons[-1].code is ReasonCode.PRICE_UNKNOWN
        ]
        return frozenset(
            instance_id
            for instance_id, instance in at_rest.items()
            if any(is_for(instance, group) for group in unpriced)
        )

    def _homes(self, profile: str) -> Mapping[str, int]:
        """By zone, the homes of who has started this profile lately."""
        if not self.state.pool.homes_bind:
            return {}
        servers = {(each.user, each.server) for each in self.state.pool.starts.get(profile, ())}
        homes = (self.state.homes.of(*each) for each in servers)
        here = set(self.state.zones.all())
        return Counter(home.zone if home and home.zone in here else ANY for home in homes)

    def _subnets(self, spec: LaunchSpec, zone: str) -> tuple[str, ...]:
        zones = self.state.zones.by_subnet
        return tuple(each for each in spec.subnets if zone in (ANY, zones.get(each)))

    def _spec(self, group: Group) -> LaunchSpec | None:
        spec = (self.state.pool.specs or {}).get(group.profile)
        return None if spec is None else replace(spec, markets=(group.market,))


def beside(spec: LaunchSpec, market: MarketData) -> float:
    """What comes beside an instance of this spec, in USD/hour."""
    return market.prices.beside_spec(spec).usd_per_hour


def is_for(instance: Instance, group: Group) -> bool:
    """Whether it was bought for this group."""
    return instance.market is group.market and instance.tags.get(POOL) == tag_value(group.profile)


def _number_for(group: Group, instances: Iterable[Instance]) -> int:
    return sum(is_for(each, group) for each in instances)


def _without_compute(target: PoolTarget, conditions: Conditions) -> PoolTarget:
    """Nothing runs. What is stopped stays: its disks cost little, and it would be bought and booted
    again when the limit's next day begins."""
    at_rest = conditions.at_rest.get((target.profile, target.market), 0)
    number = min(target.stopped.number, at_rest)
    stopped_reasons = target.stopped_reasons
    if number < target.stopped.number:
        stopped_reasons = (*stopped_reasons, Reason(ReasonCode.LIMIT_REACHED, number))
    return replace(
        target,
        running=0,
        reasons=(*target.reasons, Reason(ReasonCode.LIMIT_REACHED, 0)),
        stopped=Stopped(number),
        stopped_reasons=stopped_reasons,
    )
