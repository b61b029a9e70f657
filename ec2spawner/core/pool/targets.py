"""How many instances should wait at an instant: schedule, forecast, overrides and caps. Pure.

- Two rules for one profile and market: the larger number counts. They describe one demand at
  different hours, and a sum would depend on how the hours overlap.
- A cap on all rules takes places from the last rule first: the order of the configuration says what
  matters more, and it does not change when two spot prices cross.
- A cap allows nothing at an unknown price: it would be no cap. It pays for places that run before
  those that are stopped: the former serve a start at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from ...wire import Market
from . import schedule
from .forecast import Forecast
from .rules import Auto, PoolRule, PoolRules
from .stopped import NONE, Prices, Stopped, within

Place = tuple[str, Market]
"""Of the pool: for which profile, and in which market."""


@dataclass(frozen=True, slots=True)
class Override:
    """A number that an admin has set by hand, instead of what the rules say, until an instant.

    Also for a profile that no rule names. Caps hold for it, too. Of several for one profile and
    market the last one counts.
    """

    profile: str
    market: Market
    running: int
    until: datetime
    """UTC; excluded."""
    stopped: int | None = None
    """How many wait stopped; None is what the rules say."""


class ReasonCode(StrEnum):
    """A step on the way to a number of places."""

    CONFIGURED = "configured"
    """The number of the configuration."""
    FORECAST = "forecast"
    """From earlier starts."""
    NO_HISTORY = "no-history"
    """No comparable day is known, so nothing was forecast."""
    OUTSIDE_HOURS = "outside-hours"
    """No rule is in force at this time."""
    OVERRIDDEN = "overridden"
    """An admin set it."""
    RAISED_TO_MIN = "raised-to-min"
    CUT_TO_MAX = "cut-to-max"
    CUT_TO_RULE_CAP = "cut-to-rule-cap"
    """`usd_per_hour` of the rule."""
    CUT_TO_TOTAL_CAP = "cut-to-total-cap"
    """`warm_pool_usd_per_hour`: what earlier rules leave of it."""
    PRICE_UNKNOWN = "price-unknown"
    """There is a cap, and no price to compare with it."""
    LIMIT_REACHED = "limit-reached"
    """A limit on the hub's spending is used up."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A step, and what it left."""

    code: ReasonCode
    running: int
    """Places after this step; of a step to stopped places, those."""
    usd_per_hour: float | None = None
    """The cap that cut."""
    until: datetime | None = None
    """End of an override, UTC."""


@dataclass(frozen=True, slots=True)
class PoolTarget:
    """How many instances should wait for a profile, and the steps to that number."""

    profile: str
    market: Market
    running: int
    reasons: tuple[Reason, ...]
    forecast: Forecast | None = None
    """What an `auto` rule rests on."""
    max_usd_per_hour: float | None = None
    """What a place may cost, in USD/hour, so that every cap holds even if all places cost so much.
    An offer above it, or of unknown price, is not bought for the pool. None is no cap."""
    stopped: Stopped = NONE
    """Places beside these whose instances are stopped."""
    stopped_reasons: tuple[Reason, ...] = ()
    """The steps to their number; empty where nothing asks for them."""

    @property
    def most_running(self) -> int:
        """Instances that may run for it at a time."""
        return self.running + self.stopped.preparing


@dataclass(frozen=True, slots=True)
class Conditions:
    """What targets depend on besides the rules."""

    leads: Mapping[str, float] = field(default_factory=dict)
    """By profile, the usual boot time of a fresh instance, in seconds; 0 for others."""
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    """By profile; needed where a rule is `auto`."""
    overrides: Sequence[Override] = ()
    prices: Mapping[Place, float | None] = field(default_factory=dict)
    """USD/hour of a place, disk and address included: the highest of what waits and of what would
    be bought. None or missing is unknown."""
    disk_prices: Mapping[Place, float | None] = field(default_factory=dict)
    """USD/hour of the disks of a place. None or missing is unknown."""
    at_rest: Mapping[Place, int] = field(default_factory=dict)
    """Instances that wait stopped by now."""


def targets(rules: PoolRules, conditions: Conditions, now: datetime) -> tuple[PoolTarget, ...]:
    """One for each profile and market that a rule or an override names: what was overridden first,
    then in the order of the rules."""
    overrides = {
        (each.profile, each.market): each for each in conditions.overrides if now < each.until
    }
    by_place: dict[Place, list[PoolRule]] = {place: [] for place in overrides}
    for rule in rules.rules:
        by_place.setdefault((rule.profile, rule.market), []).append(rule)
    found = [
        _overridden(overrides[place], of_place, by_rules, conditions)
        if place in overrides
        else by_rules
        for place, of_place in by_place.items()
        for by_rules in [_by_rules(place, of_place, conditions, now)]
    ]
    return _within_total(found, rules.usd_per_hour, conditions)


def _by_rules(
    place: Place, rules: Iterable[PoolRule], conditions: Conditions, now: datetime
) -> PoolTarget:
    lead = conditions.leads.get(place[0], 0.0)
    in_force = [
        _by_rule(rule, conditions) for rule in rules if schedule.is_in_force(rule.hours, now, lead)
    ]
    none = PoolTarget(*place, 0, (Reason(ReasonCode.OUTSIDE_HOURS, 0),))
    found = max(in_force, key=lambda target: target.running, default=none)
    return _with_stopped_of(max(in_force, key=_stopped, default=none), found)


def _stopped(target: PoolTarget) -> int:
    return target.stopped.number


def _with_stopped_of(other: PoolTarget, target: PoolTarget) -> PoolTarget:
    """Two rules: of running and of stopped places each the larger number counts."""
    if _stopped(other) <= _stopped(target):
        return target
    caps = (target.max_usd_per_hour, other.max_usd_per_hour)
    return replace(
        target,
        stopped=other.stopped,
        stopped_reasons=other.stopped_reasons,
        max_usd_per_hour=None if None in caps else max(x for x in caps if x is not None),
    )


def _by_rule(rule: PoolRule, conditions: Conditions) -> PoolTarget:
    forecast = None
    if isinstance(rule.running, Auto):
        forecast = conditions.forecasts.get(rule.profile)
        reasons = _automatic(rule.running, forecast)
    else:
        reasons = (Reason(ReasonCode.CONFIGURED, rule.running),)
    target = PoolTarget(rule.profile, rule.market, reasons[-1].running, reasons, forecast)
    if rule.stopped:
        wanted = (Reason(ReasonCode.CONFIGURED, rule.stopped),)
        of_it = Stopped(rule.stopped, rule.stopped)
        target = replace(target, stopped=of_it, stopped_reasons=wanted)
    return _capped(target, rule.usd_per_hour, conditions, ReasonCode.CUT_TO_RULE_CAP)


def _automatic(bounds: Auto, forecast: Forecast | None) -> tuple[Reason, ...]:
    if forecast is None or not forecast.days:
        first = Reason(ReasonCode.NO_HISTORY, 0)
    else:
        first = Reason(ReasonCode.FORECAST, forecast.running)
    if first.running < bounds.min:
        return first, Reason(ReasonCode.RAISED_TO_MIN, bounds.min)
    if first.running > bounds.max:
        return first, Reason(ReasonCode.CUT_TO_MAX, bounds.max)
    return (first,)


def _overridden(
    override: Override, rules: Sequence[PoolRule], found: PoolTarget, conditions: Conditions
) -> PoolTarget:
    """`found` is what the rules ask for: it holds for stopped places, unless these are set, too."""
    reason = Reason(ReasonCode.OVERRIDDEN, override.running, until=override.until)
    stopped, stopped_reasons = found.stopped, found.stopped_reasons
    if (number := override.stopped) is not None:
        stopped = Stopped(number, number)
        stopped_reasons = (Reason(ReasonCode.OVERRIDDEN, number, until=override.until),)
    target = PoolTarget(
        override.profile,
        override.market,
        override.running,
        (reason,),
        stopped=stopped,
        stopped_reasons=stopped_reasons,
    )
    caps = [rule.usd_per_hour for rule in rules if rule.usd_per_hour is not None]
    # Of several rules the larger number counts, and so does the larger cap.
    cap = max(caps) if caps and len(caps) == len(rules) else None
    return _capped(target, cap, conditions, ReasonCode.CUT_TO_RULE_CAP)


# --- caps ---


def _within_total(
    found: Iterable[PoolTarget], cap: float | None, conditions: Conditions
) -> tuple[PoolTarget, ...]:
    if cap is None:
        return tuple(found)
    left, capped = _nano(cap), []
    for target in found:
        each = _capped(target, left / 1e9, conditions, ReasonCode.CUT_TO_TOTAL_CAP)
        capped.append(each)
        left -= _cost(each, conditions)
    # What is left of the cap is what all places together may become more expensive.
    places = sum(target.most_running for target in capped)
    return tuple(_with_slack(each, left / 1e9 / max(places, 1), conditions) for each in capped)


def _with_slack(target: PoolTarget, slack: float, conditions: Conditions) -> PoolTarget:
    most = (_price(target, conditions) or 0.0) + slack
    own = target.max_usd_per_hour
    return replace(target, max_usd_per_hour=most if own is None else min(own, most))


def _capped(
    target: PoolTarget, cap: float | None, conditions: Conditions, code: ReasonCode
) -> PoolTarget:
    """Fewer places, if the cap does not pay for all."""
    if cap is None:
        return target
    price = _price(target, conditions)
    if price is None or (target.stopped.number and _disk_price(target, conditions) is None):
        unknown = Reason(ReasonCode.PRICE_UNKNOWN, 0, cap)
        return _cut_stopped(_cut(target, 0, unknown), NONE, unknown)
    # In 1e-9 USD, as the ledger counts: three times 0.1 is 0.3.
    paid = _nano(cap) // _nano(price) if _nano(price) > 0 else target.running
    if paid < target.running:
        target = _cut(target, paid, Reason(code, paid, cap))
    prices = _prices(target, conditions)
    left = _nano(cap) - target.running * prices.running
    at_rest = conditions.at_rest.get((target.profile, target.market), 0)
    stopped = within(target.stopped.number, left, prices, at_rest)
    target = _cut_stopped(target, stopped, Reason(code, stopped.number, cap))
    disks = (stopped.number - stopped.preparing) * prices.stopped
    most = (cap - disks / 1e9) / max(target.most_running, 1)
    own = target.max_usd_per_hour
    return replace(target, max_usd_per_hour=most if own is None else min(own, most))


def _cut(target: PoolTarget, running: int, reason: Reason) -> PoolTarget:
    # The last reason is that of both kinds of places where a price is unknown.
    is_of_both = reason.code is ReasonCode.PRICE_UNKNOWN and target.stopped.number > 0
    if running >= target.running and not is_of_both:
        return target
    return replace(target, running=running, reasons=(*target.reasons, reason))


def _cut_stopped(target: PoolTarget, stopped: Stopped, reason: Reason) -> PoolTarget:
    is_fewer = stopped.number < target.stopped.number
    reasons = (*target.stopped_reasons, reason) if is_fewer else target.stopped_reasons
    preparing = min(stopped.preparing, target.stopped.preparing)
    return replace(target, stopped=Stopped(stopped.number, preparing), stopped_reasons=reasons)


def _cost(target: PoolTarget, conditions: Conditions) -> int:
    """The most that its places cost together, in 1e-9 USD/hour, as far as prices are known."""
    prices = _prices(target, conditions)
    return target.running * prices.running + target.stopped.cost(prices)


def _price(target: PoolTarget, conditions: Conditions) -> float | None:
    return conditions.prices.get((target.profile, target.market))


def _disk_price(target: PoolTarget, conditions: Conditions) -> float | None:
    return conditions.disk_prices.get((target.profile, target.market))


def _prices(target: PoolTarget, conditions: Conditions) -> Prices:
    running, stopped = _price(target, conditions), _disk_price(target, conditions)
    return Prices(_nano(running or 0.0), _nano(stopped or 0.0))


def _nano(usd: float) -> int:
    return round(usd * 1e9)
