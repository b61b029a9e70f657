"""A launch call as the user of a waiting start sees it: requested, answered, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ...core.offers.launch_errors import ErrorClass, LaunchError, error_class
from ...core.offers.purchase import Offer
from ...core.offers.sold_out import Mark
from ..model.cloud.launch import FleetResponse, Launched, LaunchRequest
from ..model.leases.lease import Attempt, AttemptOutcome
from ..offers.offers import Order

MAX_ATTEMPTS = 12
"""Attempts stored with a lease: the latest of a start that EC2 is slow to serve."""

SKIP_REASONS = {
    ErrorClass.OFFER: "sold out",
    ErrorClass.TYPE_IN_ZONE: "not offered",
    ErrorClass.UNUSABLE: "the image has no driver for the GPU",
    ErrorClass.QUOTA: "the account's quota is used up",
    ErrorClass.MARKET: "not permitted in this account",
    ErrorClass.PLAN: "not in the account's AWS plan",
    ErrorClass.VERIFICATION: "not available before AWS has verified the account",
    ErrorClass.SUBNET: "without a free network address",
    ErrorClass.REFUSED: "refused by EC2",
}
"""Why an offer is skipped, in words."""

_WORST_FIRST = (
    (AttemptOutcome.UNVERIFIED, {ErrorClass.VERIFICATION}),
    (AttemptOutcome.QUOTA, {ErrorClass.QUOTA}),
    (
        AttemptOutcome.SOLD_OUT,
        {ErrorClass.OFFER, ErrorClass.TYPE_IN_ZONE, ErrorClass.SUBNET},
    ),
    (AttemptOutcome.REFUSED, {ErrorClass.REFUSED, ErrorClass.MARKET, ErrorClass.PLAN}),
    (AttemptOutcome.BUSY, {ErrorClass.BUSY}),
)
"""Which of several errors in one response decides the outcome of the attempt."""

_OPEN = frozenset({AttemptOutcome.ASKING, AttemptOutcome.BUSY})
"""Outcomes of an attempt without a response."""

_REPEATED = _OPEN | {AttemptOutcome.UNVERIFIED}
"""Outcomes after which the same call again is still the same attempt."""

_MAX_GROUPS = 4
_MAX_MESSAGE = 120
"""Characters of EC2's message, which shares a line with its code."""


def asking(order: Order, at: datetime) -> Attempt:
    """The attempt of a call that is about to be made."""
    known = [offer.usd_per_hour for offer in order.offers if offer.usd_per_hour is not None]
    lowest = min(known, default=None)
    return Attempt(
        market=order.market,
        instance_types=order.instance_types,
        zones=order.zones,
        at=at,
        usd_per_hour=lowest,
        asked_usd_per_hour=lowest,
        skipped_markets=tuple(dict.fromkeys(offer.market for offer, _ in order.skipped)),
        skipped=skipped_words(order.skipped),
    )


def asking_again(request: LaunchRequest, zones: Mapping[str, str], at: datetime) -> Attempt:
    """The attempt of a call that an earlier process may have made. `zones`: subnet -> zone."""
    return Attempt(
        market=request.market,
        instance_types=tuple(dict.fromkeys(name for name, _ in request.offers)),
        zones=tuple(dict.fromkeys(zones[s] for _, s in request.offers if s in zones)),
        at=at,
    )


def begun(attempts: Sequence[Attempt], attempt: Attempt) -> tuple[Attempt, ...]:
    """The attempts with one more. A repeated call replaces its attempt and keeps its start time."""
    last = attempts[-1] if attempts else None
    if last is not None and last.outcome in _REPEATED and last.market is attempt.market:
        return (*attempts[:-1], replace(attempt, at=last.at))
    return (*attempts, attempt)[-MAX_ATTEMPTS:]


def is_open(attempts: Sequence[Attempt], request: LaunchRequest) -> bool:
    """True while the last attempt is this call's and has no response."""
    return (
        bool(attempts) and attempts[-1].outcome in _OPEN and attempts[-1].market is request.market
    )


def busy(attempt: Attempt, error: LaunchError) -> Attempt:
    """An attempt to which EC2 answered that it is busy."""
    return replace(attempt, outcome=AttemptOutcome.BUSY, answer=f"({error.code})")


def found(attempt: Attempt, launched: Launched, usd_per_hour: float | None) -> Attempt:
    """An attempt that found this instance, at a price in USD/hour; None is unknown."""
    where = f" in {launched.zone}" if launched.zone else ""
    return replace(
        attempt,
        outcome=AttemptOutcome.FOUND,
        answer=f"{launched.instance_type}{where}",
        usd_per_hour=usd_per_hour,
    )


def not_found(attempt: Attempt, response: FleetResponse, zones: Mapping[str, str]) -> Attempt:
    """The attempt of a call without an instance for this lease. `zones`: subnet -> zone."""
    outcome, errors = _verdict(response.errors)
    words = ""
    match outcome:
        case AttemptOutcome.SOLD_OUT | AttemptOutcome.QUOTA:
            named = {error.zone or zones.get(error.subnet, "") for error in errors} - {""}
            words = f"in {zones_words(named or attempt.zones)}"
        case AttemptOutcome.REFUSED:
            words = f"with {error_words(errors[0])}"
        case AttemptOutcome.BUSY:
            words = f"({errors[0].code})"
    return replace(attempt, outcome=outcome, answer=words)


def _verdict(errors: Sequence[LaunchError]) -> tuple[AttemptOutcome, Sequence[LaunchError]]:
    """The outcome of a call without instances, and the errors that decide it."""
    for outcome, classes in _WORST_FIRST:
        if said := [error for error in errors if error_class(error.code) in classes]:
            return outcome, said
    return AttemptOutcome.SOLD_OUT, ()


def skipped_words(skipped: Iterable[tuple[Offer, Mark]]) -> str:
    """Such as `spot g4dn.xlarge in us-east-1a and b (sold out, seen at 12:01 UTC)`."""
    zones: dict[tuple[str, str, str], set[str]] = {}
    for offer, mark in skipped:
        seen = f"{SKIP_REASONS[mark.error_class]}, seen at {mark.since:%H:%M} UTC"
        zones.setdefault((offer.market_name, offer.instance_type, seen), set()).add(offer.zone)
    types: dict[tuple[str, str, str], list[str]] = {}
    for (market, instance_type, seen), where in zones.items():
        types.setdefault((market, zones_words(where), seen), []).append(instance_type)
    groups = [
        f"{market} {types_words(names)} in {where} ({seen})"
        for (market, where, seen), names in types.items()
    ]
    more = ["and more"] if len(groups) > _MAX_GROUPS else []
    return "; ".join([*groups[:_MAX_GROUPS], *more])


def types_words(instance_types: Sequence[str]) -> str:
    """`g4dn.xlarge`, `g4dn.xlarge and g5.xlarge`, `g4dn.xlarge and 7 other types`."""
    first, *others = instance_types
    if len(others) < 2:
        return " and ".join(instance_types)
    return f"{first} and {len(others)} other types"


def zones_words(zones: Iterable[str]) -> str:
    """`us-east-1a`, or `us-east-1a, b and c`, which names the region once."""
    first, *others = sorted(set(zones))
    short = [first, *(zone.removeprefix(first[:-1]) for zone in others)]
    return short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}"


def error_words(error: LaunchError) -> str:
    """EC2's error code and message, on one line."""
    message = " ".join(error.message.split())
    if len(message) > _MAX_MESSAGE:
        message = f"{message[: _MAX_MESSAGE - 1]}…"
    return f"{error.code}: {message}" if message else error.code
