"""Why the pool has the number of places that it has, for admins. Pure."""

from __future__ import annotations

from datetime import tzinfo
from typing import assert_never

from .forecast import Basis, Forecast
from .targets import PoolTarget, Reason, ReasonCode

_BASIS = {
    Basis.SAME_WEEKDAY: "the same weekday",
    Basis.SAME_KIND_OF_DAY: "comparable days",
    Basis.NONE: "no comparable day",
}


def why(target: PoolTarget, place: tzinfo) -> tuple[str, ...]:
    """One sentence for each step to the number; times are those of `place`."""
    return tuple(_sentence(reason, target.forecast, place) for reason in target.reasons)


def _sentence(reason: Reason, forecast: Forecast | None, place: tzinfo) -> str:
    number, cap = reason.running, f"{reason.usd_per_hour or 0.0:.2f} USD/hour"
    match reason.code:
        case ReasonCode.CONFIGURED:
            return f"The configuration asks for {number}."
        case ReasonCode.FORECAST:
            return _forecast(number, forecast)
        case ReasonCode.NO_HISTORY:
            return "No comparable day is known yet, so nothing is forecast."
        case ReasonCode.OUTSIDE_HOURS:
            return "It is outside the configured hours."
        case ReasonCode.OVERRIDDEN:
            until = reason.until.astimezone(place) if reason.until else None
            when = f" until {until:%d %B, %H:%M %Z}" if until else ""
            return f"An admin has set {number}{when}."
        case ReasonCode.RAISED_TO_MIN:
            return f"The configured minimum is {number}."
        case ReasonCode.CUT_TO_MAX:
            return f"The configured maximum is {number}."
        case ReasonCode.CUT_TO_RULE_CAP:
            return f"The cap of {cap} of this profile pays for {number}."
        case ReasonCode.CUT_TO_TOTAL_CAP:
            return f"{cap} is left of the cap on the whole pool, which pays for {number}."
        case ReasonCode.PRICE_UNKNOWN:
            return "There is a cap, and the price is not known, so nothing is bought."
        case ReasonCode.LIMIT_REACHED:
            return "A limit on the hub's spending is used up, so no instance waits."
        case _:
            assert_never(reason.code)


def _forecast(number: int, found: Forecast | None) -> str:
    if found is None:
        return f"The forecast is {number}."
    days, minutes = len(found.days), max(round(found.replacement_seconds / 60), 1)
    busiest = max((each.peak for each in found.days), default=0)
    today = f"; {found.started_today} of today's have come" if found.started_today else ""
    return (
        f"{_BASIS[found.basis].capitalize()} of the last four weeks ({days}): up to {busiest} "
        f"starts within {minutes} min, the time of a boot, so {number} wait{today}."
    )
