"""What can still take a lease: instances, launched ones not listed yet, and launch calls."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.instances.matching import Supply, balance
from ...core.instances.retention_rules import CLAIM_SILENCE
from ...core.tags import INTENT, LEASE, POOL, STORE
from ..model.cloud.instance import GONE, Instance, InstanceState
from ..state.instances.launches import Round
from ..state.instances.stock import Stock
from ..state.state import State
from .demand import needs, places, was_kept_ahead
from .pool_stops import SLOW_BOOT, called_at, started_of_pool
from .supply import supply_of, supply_of_expected


@dataclass(slots=True)
class Inventory:
    """Takes stock once in each pass, for everything that comes after it."""

    state: State

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`."""
        launches, instances = self.state.launches, self.state.instances
        while tokens := launches.unknown_tokens(instances.listed.values()):
            await launches.load_intents(tokens)
        self.state.stock = stock = take_stock(self.state)
        self.state.offered = frozenset(supply.supply_id for supply in stock.supplies)
        self.state.pool.note_filled(stock.in_places, instances.listed.keys())
        surplus = {instance.instance_id for instance in stock.surplus}
        for instance_id in self.state.offered & instances.listed.keys() - surplus:
            self.state.claims.wake(instance_id)


def take_stock(state: State, without: Collection[Round] = ()) -> Stock:
    """All our instances without a lease, compared with the leases that wait and the pool's places.

    Launches of the rounds in `without` do not count as supply.
    """
    supplies: list[Supply] = []
    dead: list[Instance] = []
    unknown: list[Instance] = []
    silent: list[Instance] = []
    served = state.leases.served
    alive = {
        each: instance
        for each, instance in state.instances.listed.items()
        if instance.state not in GONE
    }
    leased = {lease.instance_id for lease in state.leases.open()}
    leased |= {each for each in alive if state.retained.holds(each)}
    for instance in alive.values():
        if not is_ours(state, instance) or instance.instance_id in leased:
            continue
        if _is_of_unknown_lease(state, instance):
            unknown.append(instance)
        elif instance.instance_id in served or _is_dead(state, instance):
            dead.append(instance)
        elif _never_spoke(state, instance):
            silent.append(instance)
        else:
            supplies.append(_supply(state, instance))
    supplies += [_supply(state, instance) for instance in started_of_pool(state)]
    # First, so that an instance whose agent waits is not surplus beside one that still boots.
    supplies.sort(key=lambda supply: supply.supply_id not in state.claims.waiting)
    # One that ended before a pass saw it is not seen: it counts until a start has been judged by
    # it. Else another would be bought at once, and the next one after it.
    seen = {*alive, *leased, *served, *state.claims.unwanted, *state.retained.instance_ids}
    supplies += [
        supply_of_expected(expected, state.zones)
        for instance_id, expected in state.launches.expected.items()
        if instance_id not in seen
    ]
    # Last, so that a booted instance is not surplus because of a launch call that may fail.
    supplies += state.launches.outstanding(without)
    of_pool = places(state)
    result = balance([*needs(state), *of_pool], supplies)
    place_ids = {place.lease_id for place in of_pool}
    return Stock(
        supplies=tuple(supplies),
        dead=(*dead, *silent),
        unknown=tuple(unknown),
        silent=tuple(silent),
        missing=frozenset(result.missing) - place_ids,
        surplus=tuple(
            alive[each] for each in result.surplus if each in alive and not state.pool.holds_surplus
        ),
        missing_places=frozenset(result.missing) & place_ids,
        in_places=tuple(alive[each] for each in result.in_places if each in alive),
    )


def _supply(state: State, instance: Instance) -> Supply:
    supply = supply_of(instance, state.pool.usd_per_hour(instance.instance_id))
    is_slow = (
        POOL in instance.tags
        and called_at(state, instance.instance_id) is None
        and _booting_seconds(state, instance.instance_id) > SLOW_BOOT
    )
    return replace(supply, is_place=True) if is_slow else supply


def _booting_seconds(state: State, instance_id: str) -> float:
    if state.retained.holds(instance_id):
        return state.pool_starts.boot_seconds(instance_id)
    return state.instances.seen_seconds(instance_id)


def have_instance(state: State) -> Set[str]:
    """Ids of the waiting leases whose instance boots: launched, or started again for them.

    A launch call that EC2 has not answered is no instance.
    """
    waiting = needs(state)
    booting = [x for x in take_stock(state).supplies if state.knows_instance(x.supply_id)]
    missing = set(balance(waiting, booting).missing)
    restarted = {kept.started_for for kept in state.retained.of_users()}
    return {need.lease_id for need in waiting if need.lease_id not in missing} | restarted


def is_ours(state: State, instance: Instance) -> bool:
    """Whether an instance without a lease is this store's: retained, or it carries the store's id
    and its tags are not copied from another instance.

    The store's own record of a retained one counts, whatever its tags say by now.
    """
    if state.retained.holds(instance.instance_id):
        return True
    return instance.tags.get(STORE) == state.store_id and not state.launches.is_copy(
        instance.tags.get(INTENT, ""), instance.instance_id
    )


def _is_of_unknown_lease(state: State, instance: Instance) -> bool:
    """By its tags it serves, or is kept for, a server that this store does not know to be its."""
    if instance.instance_id in state.claims.unwanted:
        return False
    if LEASE not in instance.tags:
        return was_kept_ahead(instance) and instance.instance_id not in state.leases.served
    return not state.leases.knows(instance.tags[LEASE])


def _is_dead(state: State, instance: Instance) -> bool:
    """Used, stopped, of a failed launch call, about to end by AWS, or silent."""
    instance_id = instance.instance_id
    if instance_id in state.claims.unwanted or LEASE in instance.tags:
        return True
    if instance.state not in {InstanceState.PENDING, InstanceState.RUNNING}:
        return True
    if state.launches.is_failed(instance.tags.get(INTENT, "")):
        return True
    if state.departures.is_closing(instance, state.clock.now()):
        return True
    if state.claims.is_bound(instance_id):
        return state.claims.silent_seconds(instance_id) > CLAIM_SILENCE
    return False


def _never_spoke(state: State, instance: Instance) -> bool:
    """Its agent has not called in time, by the uptime of this hub: no clock that is set counts."""
    if state.claims.is_bound(instance.instance_id):
        return False
    return state.instances.seen_seconds(instance.instance_id) > state.settings.boot_timeout
