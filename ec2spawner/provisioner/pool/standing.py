"""The pool as the hub sees it: how it stands, what starts may want of it, what an admin sets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from ...core.instances.matching import Shape, fits
from ...core.instances.retention_rules import Kept
from ...core.ledger.charges import Rate, rate
from ...core.pool.targets import Override, PoolTarget
from ...wire import Market
from ..instances.demand import places
from ..instances.pool_stops import called_at, stopped_in_pool
from ..instances.supply import supply_of
from ..instances.taken_ahead import taken_ahead
from ..instances.unleased import retained_segment
from ..model.cloud.instance import Instance, InstanceState
from ..model.cloud.launch import LaunchSpec
from ..model.pool_override import SetByHand
from ..offers.market import MarketData
from ..state.pool import Failure, Filled, Group
from ..state.state import State
from .targets import is_for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Member:
    """An instance that fills a place."""

    instance: Instance
    is_waiting: bool
    """It has booted, and its agent has called: a start gets it at once."""
    waiting_since: datetime | None
    """UTC; None while it boots."""
    rate: Rate


@dataclass(frozen=True, slots=True)
class StoppedMember:
    """An instance that waits stopped, or is being stopped."""

    kept: Kept
    instance: Instance
    rate: Rate
    """Of its disks, once it is stopped."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One profile and market of the pool."""

    target: PoolTarget
    members: tuple[Member, ...]
    by_hand: SetByHand | None
    """What an admin has set, while it holds."""
    failure: Failure | None
    """Why instances are missing; None where none is, and before the first failure."""
    retry_seconds: float
    """Until more is bought after the failure."""
    problem: str
    """Why the hub cannot say what an instance of this profile would be; empty if it can."""
    stopped: tuple[StoppedMember, ...] = ()
    """Also those that are being stopped; the longest wait first."""
    ahead: tuple[Member, ...] = ()
    """Those that wait for a user who is expected, the longest wait first."""

    @property
    def waiting(self) -> int:
        """Instances that a start gets at once."""
        return sum(each.is_waiting for each in self.members)

    @property
    def booting(self) -> int:
        """Instances that are not up yet."""
        return len(self.members) - self.waiting

    @property
    def startable(self) -> tuple[StoppedMember, ...]:
        """Those that EC2 lists as stopped: a start can have one."""
        return tuple(x for x in self.stopped if x.instance.state is InstanceState.STOPPED)

    @property
    def missing(self) -> int:
        """Places without an instance, those for stopped ones included."""
        places = self.target.running + self.target.stopped.number
        filled = len(self.members) + len(self.ahead) + len(self.stopped)
        return max(places - filled, 0)

    @property
    def usd_per_hour(self) -> float:
        """Of its instances, disks and addresses, as far as prices are known."""
        running = (*self.members, *self.ahead)
        rates = (*(each.rate for each in running), *(each.rate for each in self.stopped))
        return sum(each.known_usd_per_hour or 0.0 for each in rates)


@dataclass(frozen=True, slots=True)
class WarmPool:
    """Reads the state; what is set by hand is stored before it holds."""

    state: State
    market: MarketData

    @property
    def profiles(self) -> frozenset[str]:
        """Slugs of those that rules or admins name: the hub says what their instances would be."""
        state = self.state
        by_hand = {each.profile for each in state.pool.overrides}
        return frozenset({each.profile for each in state.settings.pool.rules} | by_hand)

    def set_specs(
        self,
        specs: Mapping[str, LaunchSpec],
        problems: Mapping[str, str],
        *,
        homes_bind: bool,
    ) -> None:
        """By profile, what a start with default choices would launch now, or why nothing.

        `homes_bind`: whether a home binds its servers to its zone.
        """
        pool = self.state.pool
        if (pool.specs, pool.problems, pool.homes_bind) != (specs, problems, homes_bind):
            pool.specs, pool.problems, pool.homes_bind = specs, problems, homes_bind
            self.state.wake()

    def standings(self) -> tuple[Standing, ...]:
        """Of all profiles and markets that have a target, as of the last pass."""
        pool, now = self.state.pool, self.state.clock.now()
        return tuple(
            Standing(
                target=target,
                members=tuple(self._members(group, now)),
                by_hand=pool.by_hand(group),
                failure=failure,
                retry_seconds=self._seconds_until_retry(failure),
                problem=pool.problems.get(target.profile, ""),
                stopped=tuple(each for of_it, each in self.stopped() if of_it == group),
                ahead=tuple(
                    self._member(each, now)
                    for kept, each in taken_ahead(self.state)
                    if Group(kept.profile, each.market) == group
                ),
            )
            for target in pool.targets
            for group in [Group(target.profile, target.market)]
            for failure in [self._failure(target)]
        )

    def _failure(self, target: PoolTarget) -> Failure | None:
        holds = self.state.pool_starts.holds
        found = self.state.pool.failures.get(Group(target.profile, target.market))
        return found or (holds.failure(target.profile) if target.stopped.number else None)

    def _seconds_until_retry(self, failure: Failure | None) -> float:
        return max(failure.again_at - self.state.clock.uptime(), 0.0) if failure else 0.0

    def is_ready(self, profile: str, markets: Collection[Market], zones: Collection[str]) -> bool:
        """Whether an instance waits that a start in these markets and zones gets at once."""
        return any(
            instance.zone in zones and called_at(self.state, instance.instance_id) is not None
            for market in markets
            for instance in self._unleased(Group(profile, market))
        )

    def members(self) -> Iterator[tuple[Group, Member]]:
        """All instances that fill places."""
        now = self.state.clock.now()
        for group in filled_places(self.state):
            yield from ((group, each) for each in self._members(group, now))

    def stopped(self) -> Iterator[tuple[Group, StoppedMember]]:
        """All instances that wait stopped, the longest wait first."""
        now = self.state.clock.now()
        for kept, instance in stopped_in_pool(self.state):
            segment = retained_segment(kept, self.state, self.market.prices, now)
            if segment is not None:
                group = Group(kept.profile, instance.market)
                yield group, StoppedMember(kept, instance, rate(segment, now))

    def _members(self, group: Group, now: datetime) -> Iterator[Member]:
        return (self._member(each, now) for each in self._unleased(group))

    def _unleased(self, group: Group) -> Iterator[Instance]:
        """Instances in places of the group that, since the last pass, no start has taken and none
        is expected to take."""
        leases, retained = self.state.leases, self.state.retained
        for each in filled_places(self.state).get(group, ()):
            kept = retained.get(each.instance_id)
            is_taken = leases.of_instance(each.instance_id) is not None
            if not is_taken and (kept is None or kept.is_of_pool):
                yield each

    def _member(self, instance: Instance, now: datetime) -> Member:
        since = called_at(self.state, instance.instance_id)
        return Member(
            instance=instance,
            is_waiting=since is not None,
            waiting_since=since,
            rate=rate(self.market.prices.segment(instance, now), now),
        )

    async def specs_wanted(self, timeout: float) -> None:
        """Return when `set_specs` is to be called again, after `timeout` seconds at the latest."""
        wanted = self.state.pool.specs_wanted
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await wanted.wait()
        wanted.clear()

    # --- set by hand ---

    async def set_by_hand(self, override: Override, by: str) -> None:
        """Let this number hold instead of the rules', until its end. `by` is who sets it. Raises
        `StoreError`."""
        log.info(
            "%s sets the pool of %s, %s, to %d running and %s stopped until %s",
            by,
            override.profile,
            override.market,
            override.running,
            "as configured" if override.stopped is None else override.stopped,
            override.until.isoformat(timespec="minutes"),
        )
        await self.state.pool.set_by_hand(override, by)
        self.state.wake()

    async def clear(self, profile: str, by: str) -> bool:
        """Let the rules hold again; False where nothing was set. Raises `StoreError`."""
        log.info("%s lets the rules hold for the pool of %s", by, profile)
        had_any = await self.state.pool.clear(profile)
        self.state.wake()
        return had_any


def filled_places(state: State) -> Mapping[Group, Sequence[Instance]]:
    """The instances in places by their group, as of the last pass: also those that a start has
    taken since. Derived again only once a pass has changed either."""
    in_places, places_ = state.stock.in_places, state.pool.places
    known = state.pool.filled
    if known.in_places is not in_places or known.places is not places_:
        known = state.pool.filled = Filled(in_places, places_, _by_group(state))
    return known.by_group


def _by_group(state: State) -> Mapping[Group, Sequence[Instance]]:
    """For the group that it was bought for, where a place of that wants it, or else for the first
    that does. Many places and many instances have the same shape: each pair is compared once."""
    groups = {place.place_id: place.group for place in state.pool.places}
    wanted = list(dict.fromkeys((need.shape, groups[need.lease_id]) for need in places(state)))
    fitting: dict[Shape, list[Group]] = {}
    found: dict[Group, list[Instance]] = {}
    for instance in state.stock.in_places:
        shape = supply_of(instance).shape
        if shape not in fitting:
            fitting[shape] = [group for need, group in wanted if fits(need, shape)]
        own = [group for group in fitting[shape] if is_for(instance, group)]
        if group := next(iter([*own, *fitting[shape]]), None):
            found.setdefault(group, []).append(instance)
    return found
