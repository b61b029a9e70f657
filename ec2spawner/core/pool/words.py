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
    """One sentence for each step to the numbers; times are those of `place`."""
    running = (_sentence(reason, target.forecast, place) for reason in target.reasons)
    stopped = (_of_stopped(reason, place) for reason in target.stopped_reasons)
    return (*running, *stopped)


def _of_stopped(reason: Reason, place: tzinfo) -> str:
    number, cap = reason.running, f"{reason.usd_per_hour or 0.0:.2f} USD/hour"
    match reason.code:
        case ReasonCode.CUT_TO_RULE_CAP:
            return f"The cap of {cap} of this profile pays for {number} stopped."
        case ReasonCode.CUT_TO_TOTAL_CAP:
            return f"{cap} is left of the cap on the whole pool, which pays for {number} stopped."
        case ReasonCode.PRICE_UNKNOWN:
            return "There is a cap, and the price is not known, so nothing is prepared."
        case ReasonCode.LIMIT_REACHED:
            return f"A limit on the hub's spending is used up, so only {number} wait stopped."
        case ReasonCode.OVERRIDDEN:
            return f"An admin has set {number} stopped{_until(reason, place)}."
        case _:
            return f"The configuration asks for {number} stopped."


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
            return f"An admin has set {number}{_until(reason, place)}."
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


def _until(reason: Reason, place: tzinfo) -> str:
    until = reason.until.astimezone(place) if reason.until else None
    return f" until {until:%d %B, %H:%M %Z}" if until else ""


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
