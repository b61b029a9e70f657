"""Instances that cost money and that no lease holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from ...core.instances.retention_rules import Kept
from ...core.ledger.segments import Segment
from ...wire import Market
from ..model.cloud.instance import GONE, Instance
from ..model.leases.costs import scopes_of_kept
from ..model.leases.lease import LeaseState
from ..offers.discount_coverage import BILLED
from ..offers.prices import PriceCache
from ..state.state import State
from .inventory import is_ours


def unleased(state: State) -> Iterator[Instance]:
    """Those of this store that run, also if they boot for a lease that has no instance yet."""
    return (x for x in _existing(state) if x.state in BILLED and is_ours(state, x))


def foreign(state: State) -> Iterator[Instance]:
    """Those that exist, running or stopped, with this hub's tag, but another store's id or copied
    tags: the hub leaves them alone, and neither limits nor the ledger count them.

    A lost store's servers that this store has taken over are not among them: leases hold them.
    """
    return (each for each in _existing(state) if not is_ours(state, each))


def _existing(state: State) -> Iterator[Instance]:
    held = _held(state)
    listed = state.instances.listed.values()
    return (each for each in listed if each.state not in GONE and each.instance_id not in held)


def unleased_segments(state: State, prices: PriceCache, now: datetime) -> Iterator[Segment]:
    """What runs without a lease, and the disks of what is kept stopped, at the prices of `now`."""
    yield from (prices.segment(each, now) for each in unleased(state))
    yield from (_disks(each, state, prices, now) for each in _stopped(state))


def retained_segments(
    state: State,
    prices: PriceCache,
    now: datetime,
    scope: str,
    without: Collection[tuple[str, str]] = (),
) -> Iterator[Segment]:
    """What runs without a lease and counts in this scope of a user or payer, at the prices of
    `now`: kept instances, but for those of the servers (user, name) `without`."""
    for kept in state.retained.all():
        instance = state.instances.listed.get(kept.instance_id)
        if instance is None or instance.state not in BILLED or scope not in scopes_of_kept(kept):
            continue
        is_held = state.leases.of_instance(kept.instance_id) is not None
        if not is_held and (kept.user, kept.server) not in without:
            yield prices.segment(instance, now)


def retained_segment(kept: Kept, state: State, prices: PriceCache, now: datetime) -> Segment | None:
    """What is kept for its user, at the prices of `now`: of a stopped one its disks. None where
    one that runs is not listed."""
    instance = state.instances.listed.get(kept.instance_id)
    if instance is not None and instance.state in BILLED:
        return prices.segment(instance, now)
    return _disks(kept, state, prices, now) if kept.then == "stop" else None


def segments_beside_starts(
    state: State, prices: PriceCache, now: datetime, user: str = "", server: str = ""
) -> Iterator[Segment]:
    """The same, without what belongs to a start: that has reserved its price.

    What boots is some start's unless it is surplus or the pool's: also a stopped instance of the
    pool that was started again. What is kept for a server that starts is taken or released by it:
    that of the waiting leases, and of `server` of `user`, where it starts.
    """
    stock = state.stock
    beside = (*stock.surplus, *stock.dead, *stock.unknown, *stock.in_places)
    useless = {*(each.instance_id for each in beside), *state.pool_starts.unwanted}
    starting = servers_that_start(state, user, server)

    def is_of_start(kept: Kept) -> bool:
        if kept.is_of_pool:
            return kept.asked_at is not None and kept.instance_id not in useless
        return (kept.user, kept.server) in starting

    for each in unleased(state):
        kept = state.retained.get(each.instance_id)
        if each.instance_id in useless if kept is None else not is_of_start(kept):
            yield prices.segment(each, now)
    for kept in _stopped(state):
        # One of the pool may be stopped still although it was asked for: EC2 has refused that.
        if kept.is_of_pool or not is_of_start(kept):
            yield _disks(kept, state, prices, now)


def servers_that_start(state: State, user: str, server: str) -> set[tuple[str, str]]:
    """User and name of all servers that wait for an instance, and of the given one."""
    waiting = {(each.user, each.server) for each in state.leases.open(LeaseState.WAITING)}
    return {*waiting, (user, server)}


def _held(state: State) -> set[str | None]:
    return {lease.instance_id for lease in state.leases.open()}


def _stopped(state: State) -> Iterator[Kept]:
    """What is kept for its user, or in the warm pool, and does not run."""
    held, listed = _held(state), state.instances.listed
    for kept in state.retained.all():
        instance = listed.get(kept.instance_id)
        is_stopped = instance is None or instance.state not in BILLED | GONE
        if kept.then == "stop" and is_stopped and kept.instance_id not in held:
            yield kept


def _disks(kept: Kept, state: State, prices: PriceCache, now: datetime) -> Segment:
    """Of a stopped instance only its disks cost: EC2 takes its public address away. Their price is
    that of now, or as it was known last."""
    instance = state.instances.listed.get(kept.instance_id)
    usd = prices.segment(instance, now).disk_usd_per_month if instance else None
    usd = kept.disk_usd_per_month if usd is None else usd
    return Segment(kept.instance_id, Market.ON_DEMAND, 0.0, kept.kept_at, disk_usd_per_month=usd)
