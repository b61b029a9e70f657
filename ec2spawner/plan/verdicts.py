"""Whether a region, an account and a hub have room for a class. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import Final

from ..check.repairs.plan import more_vcpus
from ..check.verdicts.account import PAID_PLAN
from ..check.verdicts.profiles import Room, room
from ..core.ec2_api_limits import charges
from ..core.offers.quotas import listed_quota
from ..wire import Market
from .costs import Price
from .facts import Facts, Source, Wanted

GOOD_SCORE: Final = 7
"""Of 10. EC2 gives no probabilities; its guide calls 10 highly likely and 1 unlikely, November
2026."""

MIN_SCORED_TYPES: Final = 3
"""With fewer, EC2's score is always low (`InstanceTypes` of GetSpotPlacementScores, EC2 API
reference, November 2026)."""


class State(StrEnum):
    """Whether something is enough."""

    OK = "ok"
    SHORT = "short"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the plan."""

    name: str
    state: State
    said: str
    fix: str = ""
    """What to do; never empty where it is short."""
    enough_for: int | None = None
    """Users; None where that is unknown or not counted."""


def verdicts(
    facts: Facts, wanted: Wanted, prices: tuple[Price, ...], now: datetime
) -> list[Verdict]:
    """In the order in which they stop a class: limits of the hub, the region and the account."""
    return [
        *_servers(facts, wanted),
        *_rate(facts, wanted, prices),
        _zones(facts, wanted),
        *_plan(facts),
        *_quotas(facts, wanted),
        _addresses(facts, wanted),
        *_reserved(facts, wanted, now),
        *_capacity(facts, wanted, now),
        launch_calls(facts, wanted),
    ]


def is_enough(found: list[Verdict]) -> bool | None:
    """Whether all is there; None where nothing is short and something is unknown."""
    states = {each.state for each in found}
    return False if State.SHORT in states else None if State.UNKNOWN in states else True


# --- the hub ---


def _servers(facts: Facts, wanted: Wanted) -> Iterator[Verdict]:
    limits = {
        "c.JupyterHub.active_server_limit": facts.max_servers or None,
        'c.EC2Spawner.limits["hub"]["servers"]': facts.hub_bounds.servers,
    }
    for option, limit in limits.items():
        if limit is None:
            continue
        said = f"{option} is {limit}, for servers of all profiles"
        state = State.OK if limit >= wanted.users else State.SHORT
        yield Verdict("servers", state, said, _unless(state, f"set it to {wanted.users}"), limit)


def _rate(facts: Facts, wanted: Wanted, prices: tuple[Price, ...]) -> Iterator[Verdict]:
    limit = facts.hub_bounds.usd_per_hour
    if limit is None:
        return
    said = f'c.EC2Spawner.limits["hub"]["usd_per_hour"] is {limit:g}'
    if not prices:
        yield Verdict("usd_per_hour", State.UNKNOWN, f"{said}, and no price is known")
        return
    most = max(price.usd_per_hour_elsewhere for price in prices)
    needed = most * wanted.users
    state = State.OK if limit >= needed else State.SHORT
    said = f"{said}; {wanted.users} servers cost up to {needed:.2f} USD/hour"
    fix = _unless(state, f"set it to {ceil(needed)}")
    yield Verdict("usd_per_hour", state, said, fix, int(limit / most) if most else None)


# --- the account ---


def _plan(facts: Facts) -> Iterator[Verdict]:
    """Nothing to say unless the account's plan has none of the types."""
    if not facts.types or facts.free_plan_has is None:
        return
    if facts.free_plan_has.isdisjoint(kind.name for kind in facts.types):
        has = ", ".join(sorted(facts.free_plan_has))
        said = f"the account is on AWS's free plan, which launches only {has}"
        yield Verdict("account plan", State.SHORT, said, PAID_PLAN, 0)


def _quotas(facts: Facts, wanted: Wanted) -> Iterator[Verdict]:
    """One line for each market. A profile that buys in two is short where both together are, which
    is unknown where one of them is not listed."""
    if reason := facts.unread.get(Source.QUOTAS):
        fix = "give the hub's role servicequotas:ListServiceQuotas, or look in the console"
        yield Verdict("vCPU quota", State.UNKNOWN, f"quotas cannot be read: {reason}", fix)
        return
    if not facts.types:
        return
    found = {market: room(market, facts.types, facts.quotas) for market in wanted.profile.markets}
    places = {market: _left(each, market, facts) for market, each in found.items() if each}
    suffices = sum(places.values()) >= wanted.users
    unlisted = [market for market, each in found.items() if each is None]
    lacking = State.UNKNOWN if unlisted else State.SHORT
    for market, each in found.items():
        name = f"{market} vCPU quota"
        if each is None:
            said = f"Service Quotas lists none for {facts.types[0].name}"
            yield Verdict(name, State.UNKNOWN, said, "look for it in the console")
            continue
        state = State.OK if suffices else lacking
        said = _quota_words(each, places[market], market, facts)
        if state is State.UNKNOWN:
            said = f"{said}. What the {unlisted[0]} quota adds is unknown"
        fix = _unless(state, _ask_for(each, wanted.users, market, facts))
        yield Verdict(name, state, said, fix, places[market])


def _quota_words(found: Room, places: int, market: Market, facts: Facts) -> str:
    quota, kind = found.quota, found.kind
    said = f'"{quota.name}" ({quota.code}) is {quota.vcpus:g}'
    used = _used(found, market, facts)
    if used:
        said = f"{said}, of which this hub uses {used}"
    if Source.INSTANCES in facts.unread:
        said = f"{said}; what runs now could not be read"
    return f"{said}: room for {places} {kind.name} with {kind.vcpus} vCPUs, if nothing else runs"


def _ask_for(found: Room, users: int, market: Market, facts: Facts) -> str:
    vcpus = users * found.kind.vcpus + _used(found, market, facts)
    repair = more_vcpus(found.quota, vcpus, facts.region)
    return f"ask AWS for {vcpus}, days before: {repair.command}"


def _left(found: Room, market: Market, facts: Facts) -> int:
    free = found.quota.vcpus - _used(found, market, facts)
    return max(int(free // found.kind.vcpus), 0)


def _used(found: Room, market: Market, facts: Facts) -> int:
    """vCPUs of the quota that this hub's instances use."""
    return sum(
        number * facts.running_types[name].vcpus
        for (bought, name), number in facts.running.items()
        if bought is market
        and name in facts.running_types
        and listed_quota(market, name, facts.quotas) == found.quota
    )


# --- the region ---


def _zones(facts: Facts, wanted: Wanted) -> Verdict:
    name = "zones"
    for source in (Source.SUBNETS, Source.TYPES):
        if reason := facts.unread.get(source):
            return Verdict(name, State.UNKNOWN, f"the {source} cannot be read: {reason}")
    if not facts.types:
        fix = "add subnets in other zones: `ec2spawner prices` shows which regions have it"
        said = f'no zone of the subnets offers what "{wanted.profile.display_name}" asks for'
        return Verdict(name, State.SHORT, said, fix, 0)
    zones = sorted(_offering(facts))
    kinds = ", ".join(kind.name for kind in facts.types[:3])
    more = f" and {len(facts.types) - 3} more types" if len(facts.types) > 3 else ""
    said = f"{kinds}{more} in {', '.join(zones)}"
    advice = "a subnet in each zone finds capacity more often" if len(zones) == 1 else ""
    return Verdict(name, State.OK, said, advice)


def _addresses(facts: Facts, wanted: Wanted) -> Verdict:
    """Each instance takes one, in a zone that offers the profile's types."""
    name = "free addresses"
    if reason := facts.unread.get(Source.SUBNETS):
        return Verdict(name, State.UNKNOWN, f"the subnets cannot be read: {reason}")
    zones = _offering(facts) or {subnet.zone for subnet in facts.subnets}
    usable = [subnet for subnet in facts.subnets if subnet.zone in zones]
    free = sum(subnet.free_addresses for subnet in usable)
    said = ", ".join(f"{subnet.zone} {subnet.free_addresses}" for subnet in usable)
    state = State.OK if free >= wanted.users else State.SHORT
    fix = _unless(state, "add larger subnets to c.EC2Spawner.subnets")
    return Verdict(name, state, f"{free} in all: {said}" if usable else "none", fix, free)


def _capacity(facts: Facts, wanted: Wanted, now: datetime) -> Iterator[Verdict]:
    """Only EC2 knows; it gives a score for spot and nothing for on-demand."""
    if Market.SPOT not in wanted.profile.markets or not facts.types:
        return
    name, score = "spot capacity", facts.placement_score
    if facts.reserved_places(wanted, now) >= wanted.users:
        yield Verdict(name, State.OK, "not needed: reserved capacity has a place for each user")
        return
    falls_back = Market.ON_DEMAND in wanted.profile.markets
    other = "; what spot lacks is bought on demand" if falls_back else ""
    if score is None:
        reason = facts.unread.get(Source.PLACEMENT_SCORE, "EC2 gives no placement score")
        fix = "allow ec2:GetSpotPlacementScores in a policy of its own"
        yield Verdict(name, State.UNKNOWN, f"{reason}{other}", fix)
        return
    said = f"EC2's placement score for {wanted.users} at once is {score} of 10{other}"
    if score >= GOOD_SCORE or falls_back:
        yield Verdict(name, State.OK, said)
        return
    if len(facts.types) < MIN_SCORED_TYPES:
        said = f"{said}, and always low with fewer than {MIN_SCORED_TYPES} instance types"
        fix = "accept more instance types, or let the profile buy on demand too"
        yield Verdict(name, State.UNKNOWN, said, fix)
        return
    fix = "let the profile buy on demand too, or accept more instance types"
    yield Verdict(name, State.SHORT, said, fix)


def _reserved(facts: Facts, wanted: Wanted, now: datetime) -> Iterator[Verdict]:
    """Places without an instance now. What they lack is bought elsewhere: that is no shortage."""
    name = "reserved capacity"
    if reason := facts.unread.get(Source.RESERVATIONS):
        fix = "give the hub's role ec2:DescribeCapacityReservations"
        yield Verdict(name, State.UNKNOWN, f"it cannot be read: {reason}", fix)
        return
    if not facts.reserved:
        return
    usable = facts.reserved_for(wanted, now)
    places = facts.reserved_places(wanted, now)
    if not usable:
        said = (
            "none of the reservations of c.EC2Spawner.capacity_reservations is for this profile "
            "until the class ends: by type, zone, market or end"
        )
        yield Verdict(name, State.OK, said, enough_for=0)
        return
    each = ", ".join(f"{x.available} {x.instance_type} in {x.zone}" for x in usable)
    rest = wanted.users - places
    more = f"; {rest} more have to find capacity elsewhere" if rest > 0 else ""
    homes = ", for users whose home is there" if facts.homes_in_zones else ""
    said = f"unused places now: {each}{homes}. They cost the same unused{more}"
    yield Verdict(name, State.OK, said, enough_for=places)


def _offering(facts: Facts) -> set[str]:
    return {zone for kind in facts.types for zone in facts.offered.get(kind.name, ())}


# --- EC2's rate limits ---


def launch_calls(facts: Facts, wanted: Wanted) -> Verdict:
    """How many calls the starts are, and what EC2 allows. The limits are of the account: what else
    calls EC2 uses the same buckets, so nothing is said of how long the hub's calls wait."""
    rate = charges("CreateFleet", {})[0].rate
    zones = len({subnet.zone for subnet in facts.subnets})
    together = (
        f"one launch call for each zone with homes, {max(zones, 1)} at most"
        if facts.homes_in_zones
        else "one launch call"
    )
    attached = ", and each attaches its home" if facts.homes_in_zones else ""
    allowed = f"{rate.burst} at once and {rate.per_second:g} a second after that"
    said = (
        f"{wanted.users} starts at once are {together}{attached}. If each comes alone, it is one "
        f"call each: EC2 allows an account {allowed}, and the hub's calls wait for their turn"
    )
    return Verdict("launch calls", State.OK, said)


# --- the warm pool ---


def pool_room(found: Sequence[Verdict], wanted: Wanted) -> int | None:
    """How many instances have quota and addresses beside what runs now, in the profile's first
    market, in which its pool buys; None where one of them is unknown."""
    names = (f"{wanted.profile.markets[0]} vCPU quota", "free addresses")
    by_name = {each.name: each.enough_for for each in found}
    counts = [count for name in names if (count := by_name.get(name)) is not None]
    return min(counts) if len(counts) == len(names) else None


def _unless(state: State, fix: str) -> str:
    return "" if state is State.OK else fix
