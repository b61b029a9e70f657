"""Options about what is bought, beside the markets in which profiles buy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ... import data
from ...core.profiles.profiles import resolve
from ...wire import Market
from ..entries.discounts import DiscountConfig
from ..entries.profile import Profile
from ..entries.sleep import InterruptionConfig
from ..options import Options
from ..problem import Problem
from .places import buys, numbered, of_profile

_STOP_FIX = (
    'write "terminate" or {"linger": "10m"}, or let a profile buy on demand, as "spot-first" does'
)


def purchase_problems(options: Options, now: datetime) -> Iterator[Problem]:
    """Find options without effect in the markets of the profiles."""
    yield from _stops_of_spot_instances(options)
    yield from _interruptions_on_demand(options)
    yield from _more_expensive_than_agreed(options)
    yield from _spot_services(options)
    yield from _discounts(options, now)
    yield from _reservations(options)


def _stops_of_spot_instances(options: Options) -> Iterator[Problem]:
    why = "AWS stops and starts on-demand instances only, and"
    following = [each for each in options.profiles if each.after_stop is None]
    if options.after_stop.stop and following and not _any(following, Market.ON_DEMAND):
        what = f'{why} no profile without its own "after_stop" has an on-demand "market"'
        yield Problem("c.EC2Spawner.after_stop.stop", what, _STOP_FIX)
    if options.after_stop.stop is None and "per_user" in options.after_stop.model_fields_set:
        yield _stops_nothing("c.EC2Spawner.after_stop.per_user")
    for index, profile in numbered(options):
        after = profile.after_stop
        if after is None:
            continue
        if after.stop and Market.ON_DEMAND not in profile.every_market:
            what = f'{why} the profile\'s "market" is "{profile.market}"'
            yield Problem(of_profile(index, profile, "after_stop.stop"), what, _STOP_FIX)
        if after.stop is None and "per_user" in after.model_fields_set:
            yield _stops_nothing(of_profile(index, profile, "after_stop.per_user"))


def _stops_nothing(option: str) -> Problem:
    return Problem(option, 'counts stopped instances, and there is no "stop"', 'add "stop": "7d"')


def _interruptions_on_demand(options: Options) -> Iterator[Problem]:
    """Capacity Blocks end as if they were interrupted."""
    if options.capacity_reservations.blocks:
        return
    why = 'AWS interrupts spot instances only, and "market" of'
    fix = 'leave it out, or let a profile buy spot, as "market": "spot-first" does'
    following = [each for each in options.profiles if each.interruption is None]
    is_written = options.interruption != InterruptionConfig()
    if is_written and following and not _any(following, Market.SPOT):
        yield Problem("c.EC2Spawner.interruption", f"{why} no profile that follows it is spot", fix)
    for index, profile in numbered(options):
        if profile.interruption and Market.SPOT not in profile.every_market:
            where = of_profile(index, profile, "interruption")
            yield Problem(where, f"{why} this profile is on-demand", fix)


def _more_expensive_than_agreed(options: Options) -> Iterator[Problem]:
    why = 'the next instance is of a "market" that the profile allows, and'
    fix = 'write "then": "resume", or let a profile buy on demand, as "market": "spot-first" does'
    following = [each for each in options.profiles if each.interruption is None]
    written = options.interruption.then == "resume-on-demand"
    if written and following and not _any(following, Market.ON_DEMAND):
        what = f"is the same as resume here: {why} no profile that follows it allows on-demand"
        yield Problem("c.EC2Spawner.interruption.then", what, fix)
    for index, profile in numbered(options):
        own = profile.interruption
        if own is None or own.then != "resume-on-demand":
            continue
        if Market.ON_DEMAND not in profile.every_market:
            what = f"is the same as resume here: {why} this one does not allow on-demand"
            yield Problem(of_profile(index, profile, "interruption.then"), what, fix)


def _spot_services(options: Options) -> Iterator[Problem]:
    if buys(options, Market.SPOT):
        return
    fix = 'leave it out, or let a profile buy spot, as "market": "spot-first" does'
    for name, what in (
        ("interruption_queue", "receives warnings of spot interruptions"),
        ("rehearsal_role", "interrupts spot servers"),
    ):
        if getattr(options, name):
            where = f"c.EC2Spawner.{name}"
            yield Problem(where, f'{what}, and no profile has a spot "market"', fix)


# --- what is paid in advance -------------------------------------------------------------------


def _discounts(options: Options, now: datetime) -> Iterator[Problem]:
    for index, entry in enumerate(options.discounts):
        where = f"c.EC2Spawner.discounts[{index}]"
        if entry.discount().has_expired(now):
            yield Problem(
                f"{where}.until",
                f"{entry.until} is over, so the discount of {entry.instance_type} no longer counts",
                "remove the discount, or write its new last day and price",
            )
        elif entry.count and options.profiles and not _is_bought(entry, options):
            yield Problem(
                f"{where}.instance_type",
                f"no profile of profile_list buys {entry.instance_type} on demand, so no server "
                "gets this price",
                f'let a profile with an on-demand "market" have {entry.instance_type}, or remove '
                "the discount",
            )


def _is_bought(entry: DiscountConfig, options: Options) -> bool:
    return any(
        Market.ON_DEMAND in each.every_market and _may_have(each, entry.instance_type, options)
        for each in options.profiles
    )


def _may_have(profile: Profile, instance_type: str, options: Options) -> bool:
    """Whatever the type costs beside others; one that is not bundled may be what is described."""
    kind = data.instance_types().get(instance_type)
    if profile.instance_types or kind is None:
        return instance_type in profile.instance_types or not profile.instance_types
    return bool(resolve(profile, {kind.name: kind}, options.architecture))


def _reservations(options: Options) -> Iterator[Problem]:
    written, where = options.capacity_reservations, "c.EC2Spawner.capacity_reservations"
    if not written.choice().is_any:
        if "before_spot" in written.model_fields_set:
            what = 'orders places of reservations, and there are no "ids", "tags" or "blocks"'
            fix = 'add "ids": ["cr-0a1b2c3d4e5f60718"], or leave it out'
            yield Problem(f"{where}.before_spot", what, fix)
        return
    buyers = [each for each in options.profiles if Market.ON_DEMAND in each.every_market]
    others = options.warm_pool or options.runs.at_once or options.clusters.max_workers
    if buyers and not others and all(options.after_stop_of(x).then == "stop" for x in buyers):
        yield Problem(
            where,
            'no server runs in a reservation: c.EC2Spawner.after_stop is "stop" for each profile '
            "that buys on demand, and instances that are kept stopped are bought outside of them",
            'give the profile that shall use them "after_stop": "terminate"',
        )


def _any(profiles: list[Profile], market: Market) -> bool:
    return any(market in each.every_market for each in profiles)
