"""Which leases wait for an instance, and which instance serves them. Reads the state only."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import UTC, datetime
from typing import Final

from ...core.instances.matching import Need, Shape, Supply, fits, lease_for
from ...core.instances.retention_rules import CLAIM_SILENCE, Kept, is_of_a_later_boot, may_take
from ...core.tags import LEASE, SERVER
from ..model.cloud.instance import GONE, Instance, InstanceState
from ..model.launch_key import base_key_of, fit_key_of, unlimited_key_of
from ..model.leases.lease import Lease, LeaseState
from ..state.pool import Place
from ..state.state import State
from .supply import supply_of

EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Places of the pool wait equally long."""

AHEAD_SILENCE: Final = 60.0
"""Seconds awake after which a start does not wait for an instance that is kept ahead: another one
of the pool may be there. Claims are repeated at least every 55 s."""

RUNNING: Final = frozenset({InstanceState.PENDING, InstanceState.RUNNING})


def needs(state: State) -> list[Need]:
    """Of the leases that wait for any instance that fits, and not for one retained for them."""
    with_retained = _will_have_retained(state)
    return [
        need_of(state, lease)
        for lease in state.leases.open(LeaseState.WAITING)
        if lease.lease_id not in state.judged
        and lease.lease_id not in state.lost
        and lease.lease_id not in with_retained
        and not _waits_for_its_home(state, lease)
        and not _waits_for_its_groups(state, lease)
    ]


def shapes_wanted(state: State) -> Set[Shape]:
    """What starts wait for: many of them for the same."""
    return {need.shape for need in needs(state)}


def need_of(state: State, lease: Lease) -> Need:
    """What a waiting lease needs of an instance."""
    return Need(
        lease_id=lease.lease_id,
        base_key=base_key_of(lease.spec),
        instance_types=frozenset(lease.spec.instance_types),
        zones=state.zones.of(lease.spec),
        markets=frozenset(lease.spec.markets),
        requested_at=lease.requested_at,
        priced_key=unlimited_key_of(lease.spec),
        usd_per_hour=lease.spec.max_usd_per_hour,
    )


def places(state: State) -> list[Need]:
    """Of the warm pool, as needs that come after those of all leases."""
    return [need_of_place(state, place) for place in state.pool.places]


def need_of_place(state: State, place: Place) -> Need:
    """What a place of the pool needs of an instance."""
    return Need(
        lease_id=place.place_id,
        base_key=base_key_of(place.spec),
        instance_types=frozenset(place.spec.instance_types),
        zones=state.zones.of(place.spec),
        markets=frozenset(place.spec.markets),
        requested_at=EPOCH,
        is_place=True,
    )


def _waits_for_its_home(state: State, lease: Lease) -> bool:
    """An instance would only cost money while the files are copied."""
    if lease.home_kind != "ebs":
        return False
    user, server = lease.user, lease.server
    return state.homes.is_moving(user, server) or state.homes.is_being_copied(user, server)


def _waits_for_its_groups(state: State, lease: Lease) -> bool:
    """A worker without the security group of its cluster would reach no other node, and EC2 refuses
    a launch into a placement group that does not exist."""
    if not lease.head:
        return False
    head = state.leases.get(lease.head)
    if head is None or head.cluster is None:
        return True
    return not head.cluster.has_groups_of(lease.spec)


def _will_have_retained(state: State) -> Set[str]:
    """Ids of the waiting leases that will have a retained instance: none is launched for them.

    Each retained instance is compared with the leases of its server only: many may wait.
    """
    waiting: dict[tuple[str, str], list[Lease]] = {}
    for lease in state.leases.open(LeaseState.WAITING):
        waiting.setdefault((lease.user, lease.server), []).append(lease)
    takers = (
        _taker_among(state, kept, waiting.get((kept.user, kept.server), ()))
        for kept in state.retained.of_users()
    )
    return {lease.lease_id for lease in takers if lease is not None}


def would_serve(state: State, instance: Instance, pending_time: datetime) -> Lease | None:
    """The waiting lease that would get this instance, which serves none now.

    `pending_time` is that of the identity document its agent claims with.
    """
    if state.departures.is_closing(instance, state.clock.now()):
        return None
    kept = state.retained.get(instance.instance_id)
    if kept is not None and not kept.is_of_pool:
        return _taker_after_boot(state, kept, pending_time)
    if kept is not None and not _is_started(kept, pending_time):
        return None  # it is being stopped, or its agent is of the boot before
    if has_served(state, instance) or was_kept_ahead(instance):
        return None
    free = supply_of(instance, state.pool.usd_per_hour(instance.instance_id))
    others = [s for s in _free_supplies(state) if s.supply_id != free.supply_id]
    need = lease_for(free, needs(state), others)
    return state.leases.get(need.lease_id) if need is not None else None


def wake_claims_for(state: State, lease: Lease) -> None:
    """Let one waiting claim that fits take a new lease at once, before the next pass."""
    need = need_of(state, lease)
    for retained in state.retained.of_server(lease.user, lease.server):
        state.claims.wake(retained.instance_id)
    listed, stocked = state.instances.listed, {x.supply_id for x in state.stock.supplies}
    # Instances that were listed since the last pass took stock can take it as well.
    fresh = [
        supply_of(listed[x], state.pool.usd_per_hour(x))
        for x in state.claims.waiting
        if x in listed.keys() - stocked
    ]
    for supply in [*_free_supplies(state), *fresh]:
        if state.claims.is_waiting(supply.supply_id) and fits(need, supply):
            state.claims.wake(supply.supply_id)
            return


def _free_supplies(state: State) -> list[Supply]:
    """Instances that the last pass found free, and that have been given to no lease and kept for no
    user since."""
    taken = {lease.instance_id for lease in state.leases.open()}
    taken |= {kept.instance_id for kept in state.retained.of_users()}
    return [supply for supply in state.stock.supplies if supply.supply_id not in taken]


def has_served(state: State, instance: Instance) -> bool:
    """Whether it has served a lease: it is never assigned to another user."""
    return LEASE in instance.tags or instance.instance_id in state.leases.served


def was_kept_ahead(instance: Instance) -> bool:
    """Whether a user's home may have been attached to it, and only a record says whose. Without it,
    such as after an older copy of the store was restored, no lease gets the instance."""
    return SERVER in instance.tags


# --- retained instances ---


def taker(state: State, kept: Kept) -> Lease | None:
    """The waiting lease that may have this retained instance as it is now."""
    waiting = state.leases.open(LeaseState.WAITING)
    of_server = [x for x in waiting if (x.user, x.server) == (kept.user, kept.server)]
    return _taker_among(state, kept, of_server)


def _taker_among(state: State, kept: Kept, of_server: Sequence[Lease]) -> Lease | None:
    """The same, of the waiting leases of its server."""
    if not of_server:
        return None
    instance = state.instances.listed.get(kept.instance_id)
    if instance is None or instance.state in GONE:
        return None
    if kept.instance_id in state.claims.unwanted or state.retained.is_withheld(kept):
        return None
    if kept.then == "linger" and instance.state not in RUNNING:
        return None
    if state.departures.is_closing(instance, state.clock.now()):
        return None
    if kept.is_ahead and has_served(state, instance):
        return None  # the write of this record seemed to have failed, and others have got it since
    longest = AHEAD_SILENCE if kept.is_ahead else CLAIM_SILENCE
    if silent_seconds(state, kept) > longest:
        return None
    machine = supply_of(instance)
    for lease in of_server:
        fit_key = fit_key_of(lease.spec, kept.then)
        if may_take(kept, machine, need_of(state, lease), lease.user, lease.server, fit_key):
            return lease
    return None


def _taker_after_boot(state: State, kept: Kept, pending_time: datetime) -> Lease | None:
    """The lease that takes a retained instance whose agent claims."""
    lease = taker(state, kept)
    if lease is None or kept.then != "stop":
        return lease
    if kept.started_for != lease.lease_id:
        return None  # running still, or again: it is being stopped
    return lease if is_of_a_later_boot(kept, pending_time) else None


def _is_started(kept: Kept, pending_time: datetime) -> bool:
    return kept.asked_at is not None and is_of_a_later_boot(kept, pending_time)


def silent_seconds(state: State, kept: Kept) -> float:
    """Uptime since the agent of a lingering instance called; 0 for a stopped one, without agent."""
    return state.claims.silent_seconds(kept.instance_id) if kept.then == "linger" else 0.0
