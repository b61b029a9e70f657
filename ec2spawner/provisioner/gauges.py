"""Figures of the provisioner, computed from memory when they are requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Literal

from ..core.alarms.disk_rules import lacks_inodes, lacks_space
from ..core.ledger.charges import Rate, rate
from ..core.ledger.cost_rows import Purpose
from ..core.ledger.segments import Segment
from ..core.offers.launch_errors import ErrorClass
from ..wire import DiskUse, Market
from .instances.unleased import unleased_segments
from .model.leases.lease import OPEN, LeaseState
from .offers.market import MarketData
from .pool.standing import WarmPool
from .reports.gpu_time import gpus_by_purpose
from .reports.purpose import purpose_now
from .state.state import State

Account = Literal["leases", "overhead"]
"""Whether a lease pays. A lease pays for overhead too: its start and its stop."""

DISK_KINDS = ("home", "system", "scratch")
"""Kinds of disks that can be written."""

PoolState = Literal["target", "waiting", "booting", "stopped_target", "stopped"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Money in USD, times in seconds."""

    instances: Mapping[tuple[str, str, str], int]
    """By state, market and instance type."""
    leases: Mapping[LeaseState, int]
    """Open ones, by state."""
    longest_wait: float
    """Of the starts that are not ready; 0 if there are none."""
    gpus: Mapping[Purpose, float]
    """Of running instances."""
    usd_per_hour: Mapping[tuple[Account, Purpose], float]
    """Of running instances, and of the disks of stopped ones that are retained, as far as prices
    are known."""
    unknown_prices: int
    """Of these instances, their disks and addresses: those that are in no sum."""
    leases_usd: float
    """Since this process began."""
    overhead_usd: float
    pool: Mapping[tuple[str, str, PoolState], int]
    """Instances of the warm pool by profile and market: how many shall wait, wait, or boot, and
    shall wait stopped or do so."""
    nearly_full_disks: Mapping[tuple[str, str], int]
    """Number of nearly full disks of running servers, by kind and by what they lack."""
    sold_out: Mapping[ErrorClass, int]
    """Marks that hold: of an offer, a quota, a subnet, a type in a zone."""
    undelivered_alarms: Mapping[str, float]
    """By destination, the age of the oldest alarm that it has not confirmed; 0 without any."""
    pass_age: float | None
    """Since the last pass that succeeded; None before the first."""
    listing_age: float | None
    """Since the last complete listing of instances."""


def figures(
    state: State,
    market: MarketData,
    undelivered: Mapping[str, datetime | None],
    passed_at: float | None,
) -> Figures:
    """All of them, now. `undelivered` is when the oldest alarm was raised that a destination has
    not confirmed, `passed_at` the uptime of the last pass that succeeded, in seconds."""
    now, uptime = state.clock.now(), state.clock.uptime()
    leases = list(state.leases.open())
    listed = state.instances.listed
    paid = [
        (purpose_now(state, lease), rate(lease.segments[-1], now))
        for lease in leases
        if _is_paid(lease.segments)
    ]
    overhead = [rate(each, now) for each in unleased_segments(state, market.prices, now)]
    start_timeouts = [lease for lease in leases if lease.state in _UNREADY]
    waits = [(now - lease.requested_at).total_seconds() for lease in start_timeouts]
    marks = market.offers.sold_out.all(now)
    return Figures(
        instances=Counter(
            (each.state.value, Market(each.market).value, each.instance_type)
            for each in listed.values()
        ),
        leases=dict.fromkeys(OPEN, 0) | Counter(lease.state for lease in leases),
        longest_wait=max([0.0, *waits]),
        gpus=gpus_by_purpose(state, market.catalogue.types),
        usd_per_hour=_usd_per_hour(paid, overhead),
        unknown_prices=sum(
            len(each.unknown_prices_of) for each in [*(each for _, each in paid), *overhead]
        ),
        leases_usd=state.spending.since_begin(state.leases),
        overhead_usd=state.spending.overhead_usd,
        pool=_pool(WarmPool(state, market)),
        nearly_full_disks=_nearly_full_disks(
            disk for lease in leases for disk in state.leases.contact(lease.lease_id).disks
        ),
        sold_out=Counter(mark.error_class for _, mark in marks),
        undelivered_alarms={
            name: max((now - raised_at).total_seconds(), 0.0) if raised_at else 0.0
            for name, raised_at in undelivered.items()
        },
        pass_age=_age(passed_at, uptime),
        listing_age=_age(state.instances.listed_at, uptime),
    )


def _nearly_full_disks(disks: Iterable[DiskUse]) -> Mapping[tuple[str, str], int]:
    found = dict.fromkeys(product(DISK_KINDS, ("space", "inodes")), 0)
    for disk in disks:
        if disk.kind in DISK_KINDS:
            found[disk.kind, "space"] += lacks_space(disk)
            found[disk.kind, "inodes"] += lacks_inodes(disk)
    return found


def _usd_per_hour(
    paid: Iterable[tuple[Purpose, Rate]], overhead: Iterable[Rate]
) -> Mapping[tuple[Account, Purpose], float]:
    """Sums of the prices that are known."""
    found: dict[tuple[Account, Purpose], float] = {("leases", each): 0.0 for each in Purpose}
    for purpose, each in paid:
        found["leases", purpose] += each.known_usd_per_hour or 0.0
    found["overhead", Purpose.OVERHEAD] = sum(each.known_usd_per_hour or 0.0 for each in overhead)
    return found


def _pool(pool: WarmPool) -> Mapping[tuple[str, str, PoolState], int]:
    found: dict[tuple[str, str, PoolState], int] = {}
    for each in pool.standings():
        profile, market = each.target.profile, each.target.market.value
        found[profile, market, "target"] = each.target.running
        found[profile, market, "waiting"] = each.waiting
        found[profile, market, "booting"] = each.booting
        if each.target.stopped.number or each.stopped:
            found[profile, market, "stopped_target"] = each.target.stopped.number
            found[profile, market, "stopped"] = len(each.startable)
    return found


_UNREADY = frozenset({LeaseState.WAITING, LeaseState.STARTING})


def _is_paid(segments: Sequence[Segment]) -> bool:
    return bool(segments) and segments[-1].end is None


def _age(at: float | None, uptime: float) -> float | None:
    return None if at is None else max(uptime - at, 0.0)
