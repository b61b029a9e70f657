"""Why a start got no machine, for its user: one or two sentences, and who can fix it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from ...core.offers.launch_errors import ErrorClass, LaunchError, error_class
from ...core.offers.purchase import Offer, affordable
from ...core.offers.quotas import quota_words
from ...core.offers.sold_out import Mark
from ...core.pricing.money import price_words
from ...wire import Stop
from ..model.error_hints import FIX, PAID_PLAN, VERIFYING, fix_of
from .attempts import SKIP_REASONS, error_words, zones_words
from .fleet_response import Outcome

MAX_CHARACTERS = 500
"""What `Stop.message` holds."""

_REPORT_ORDER = (
    ErrorClass.MARKET,
    ErrorClass.PLAN,
    ErrorClass.OFFER,
    ErrorClass.SUBNET,
    ErrorClass.TYPE_IN_ZONE,
)
"""Of several reasons in one market and zone, the one that is reported, in this order."""

_OF_THE_ACCOUNT = frozenset({ErrorClass.MARKET, ErrorClass.PLAN})
"""Reasons that an admin can remove from the account."""

LARGER_QUOTA = "An admin can ask AWS for a larger quota, in Service Quotas."

_SOON = timedelta(hours=12)

_MAX_DRIVER_REASONS = 2
"""Of several GPUs that the image's driver does not support: each reason takes a third of a stop."""


def launch_failure(
    outcome: Outcome, offers: Sequence[tuple[Offer, Mark | None]], home_zone: str, now: datetime
) -> Stop:
    """The stop of a start that a round left without an instance.

    `offers` are all that the start may use; `home_zone` is the only zone that its home allows, or
    empty.
    """
    if outcome.ended_by is ErrorClass.REFUSED:
        return _stop("failed", _refused(outcome.errors))
    if outcome.ended_by is ErrorClass.BUSY:
        return _stop("failed", _busy(outcome.errors))
    classes = {mark.error_class if mark else None for _, mark in offers}
    if ErrorClass.VERIFICATION in classes:
        return not_verified()
    if classes == {ErrorClass.PLAN}:
        what = "No machine of this kind can be started: it is not in the AWS account's plan."
        ask = "Choose another profile, or tell an admin"
        return _stop("failed", f"{what} {ask}: {PAID_PLAN}.")
    unusable = [mark for _, mark in offers if mark and mark.error_class is ErrorClass.UNUSABLE]
    if unusable and len(unusable) == len(offers):
        return _stop("capacity", f"No machine of this kind can be used: {_no_driver(unusable)}")
    offers = [each for each in offers if each[1] not in unusable]
    marked = [(offer, mark) for offer, mark in offers if mark is not None]
    quotas = _quotas(offer for offer, mark in marked if mark.error_class is ErrorClass.QUOTA)
    refused = _of_class(ErrorClass.REFUSED, outcome.errors)
    # An offer without a mark was requested and not launched: it is sold out, or was refused.
    sold_out = _sold_out(marked if refused and marked else offers)
    said = [*sold_out, *quotas] or [_nowhere(home_zone)]
    sentences = [f"EC2 has no machine of this kind available right now: {'; '.join(said)}."]
    if quotas:
        sentences.append("Choose another profile, or ask an admin. " + LARGER_QUOTA)
    if closed := {mark.code for _, mark in marked if mark.error_class in _OF_THE_ACCOUNT}:
        sentences.append(f"Please tell an admin: {fix_of(min(closed), '')}.")
    if refused:
        sentences.append(f"EC2 refused part of the request; please tell an admin: {_fix(refused)}.")
    if home_zone:
        sentences.append(f"Your home is in {home_zone}, so only machines there can be used.")
    if marked:
        again = min(mark.until for _, mark in marked)
        sentences.append(f"Try again after {_at(again, now)}.")
    if unusable:
        sentences.append(f"Some types cannot be used: {_no_driver(unusable)}")
    return _stop("quota" if quotas else "capacity", " ".join(sentences))


def not_verified() -> Stop:
    """The stop of a start for which AWS has not verified the account in time."""
    return _stop("failed", f"No machine can be started yet: {VERIFYING}.")


def with_user_limits(
    stop: Stop,
    every: Sequence[Offer],
    max_usd_per_hour: float | None,
    waited: timedelta | None,
) -> Stop:
    """Extend the stop of a start whose price is limited (USD/hour) or that waited for spot.

    `every` are all offers of what was chosen, those above the limit too.
    """
    if stop.reason == "failed":
        return stop
    message = stop.message
    if max_usd_per_hour is not None:
        limit, within = price_words(max_usd_per_hour), affordable(every, max_usd_per_hour)
        if every and not within:
            message = f"This start may pay {limit} at most, and {_cheapest(every)}."
        elif len(within) < len(every):
            message += (
                f" Offers above {limit}, which this start may pay at most, were not requested."
            )
    if waited is not None:
        minutes = max(1, round(waited.total_seconds() / 60))
        message = f"No spot capacity was found within {minutes} min. {message}"
    return stop.model_copy(update={"message": _short(message)})


def with_placement_group(stop: Stop) -> Stop:
    """Extend the stop of a launch into a placement group."""
    if stop.reason != "capacity":
        return stop
    why = (
        "All workers have to fit into one placement group: fewer of them, or a profile without "
        "placement_group, find machines more often."
    )
    return stop.model_copy(update={"message": _short(f"{stop.message} {why}")})


def _cheapest(offers: Iterable[Offer]) -> str:
    priced = [(offer.usd_per_hour, offer.market) for offer in offers if offer.usd_per_hour]
    if not priced:
        return "the prices of these machines are not known yet"
    usd_per_hour, market = min(priced)
    return f"the cheapest machine of this kind is {market} at {price_words(usd_per_hour)}"


def _no_driver(marks: Iterable[Mark]) -> str:
    """Without a time to try again: it is the image that has to change."""
    ask = "Choose another profile, or ask an admin for another image (c.EC2Spawner.image)."
    known = [f"{why}." for why in dict.fromkeys(mark.why for mark in marks) if why]
    return " ".join(
        ["the image has no driver for the GPU.", ask, *known[:_MAX_DRIVER_REASONS]],
    )


def _nowhere(home_zone: str) -> str:
    if home_zone:
        return f"{home_zone} has no type that fits"
    return "no zone of this hub has a type that fits"


def _sold_out(offers: Iterable[tuple[Offer, Mark | None]]) -> list[str]:
    """`spot and on-demand are sold out in us-east-1a and b`; quotas are reported separately.

    One reason for each market and zone: a type that a zone does not have is no news beside one
    that it has sold.
    """
    reasons: dict[tuple[str, str], set[ErrorClass]] = {}
    for offer, mark in offers:
        found = mark.error_class if mark is not None else ErrorClass.OFFER
        reasons.setdefault((offer.market, offer.zone), set()).add(found)
    zones: dict[tuple[str, str], set[str]] = {}
    for (market, zone), all_found in reasons.items():
        if reason := next((each for each in _REPORT_ORDER if each in all_found), None):
            zones.setdefault((market, SKIP_REASONS[reason]), set()).add(zone)
    markets: dict[tuple[str, str], list[str]] = {}
    for (market, why), where in zones.items():
        markets.setdefault((why, zones_words(where)), []).append(market)
    return [
        f"{' and '.join(sorted(names, reverse=True))} {'are' if len(names) > 1 else 'is'} {why} "
        f"in {where}"
        for (why, where), names in markets.items()
    ]


def _quotas(offers: Iterable[Offer]) -> list[str]:
    words = (quota_words(offer.market, offer.instance_type) for offer in offers)
    return list(dict.fromkeys(words))


def _refused(errors: Sequence[LaunchError]) -> str:
    refused = _of_class(ErrorClass.REFUSED, errors)
    first, codes = refused[0], dict.fromkeys(error.code for error in refused)
    said = "; also ".join([error_words(first), *(code for code in codes if code != first.code)])
    return f"EC2 refused to start a machine; please tell an admin: {_fix(refused)} ({said})"


def _of_class(found: ErrorClass, errors: Iterable[LaunchError]) -> list[LaunchError]:
    return [error for error in errors if error_class(error.code) is found]


def _fix(refused: Iterable[LaunchError]) -> str:
    fitting = (fix_of(error.code, error.message) for error in refused)
    return next(filter(None, fitting), FIX)


def _busy(errors: Sequence[LaunchError]) -> str:
    last = errors[-1]
    return (
        "EC2 is busy and did not start a machine in time. This does not mean that it is sold "
        f"out: please try again in a few minutes ({error_words(last)})"
    )


def _at(instant: datetime, now: datetime) -> str:
    far = instant - now > _SOON
    return f"{instant:%d %B, %H:%M} UTC" if far else f"{instant:%H:%M} UTC"


def _stop(reason: Literal["capacity", "quota", "failed"], message: str) -> Stop:
    return Stop(reason=reason, message=_short(message))


def _short(message: str) -> str:
    return message if len(message) <= MAX_CHARACTERS else f"{message[: MAX_CHARACTERS - 1]}…"
