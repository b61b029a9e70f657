"""The launch calls of a start, worded for the user who waits. Pure.

Request and response are separate texts, so that a page can set them apart. Notes explain why
on-demand was bought although spot was wanted, and when the home left no choice of zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.offers.quotas import quota_of
from ....core.pricing.beside import Beside
from ....core.pricing.money import price_words
from ....provisioner.model.leases.lease import Attempt, AttemptOutcome, Lease
from ....wire import Market, Step

MARKETS = {Market.SPOT: "Spot", Market.ON_DEMAND: "On-demand"}

ANSWERS = {
    AttemptOutcome.ASKING: "waiting for EC2",
    AttemptOutcome.FOUND: "found",
    AttemptOutcome.SOLD_OUT: "sold out",
    AttemptOutcome.BUSY: "EC2 is busy; trying again",
    AttemptOutcome.REFUSED: "EC2 refused",
    AttemptOutcome.UNVERIFIED: "AWS is still verifying the account; trying again",
}

NO_CAPACITY = frozenset({AttemptOutcome.SOLD_OUT, AttemptOutcome.QUOTA})


def current_attempts(lease: Lease) -> tuple[Attempt, ...]:
    """Those of the current or successful search: each instance that was lost started a new one."""
    begun = [event.at for event in lease.events if event.step is Step.REQUEST]
    return tuple(each for each in lease.attempts if not begun or each.at >= begun[-1])


def shown(attempt: Attempt, *, is_in_title: bool = False) -> dict[str, Any]:
    """An attempt for the progress stream: values and texts.

    `is_in_title`: the title of its step already says what was found.
    """
    return {
        "market": attempt.market,
        "instance_types": list(attempt.instance_types),
        "zones": list(attempt.zones),
        "usd_per_hour": attempt.usd_per_hour,
        "at": attempt.at.isoformat(),
        "outcome": attempt.outcome,
        "asked": request_text(attempt),
        "answer": response_text(attempt),
        "is_in_title": is_in_title,
        "skipped": f"Not requested: {attempt.skipped}" if attempt.skipped else "",
    }


def request_text(attempt: Attempt) -> str:
    """Such as `Spot, g4dn.xlarge in 3 zones, from $0.19/h`."""
    first, *others = attempt.instance_types or ("any type",)
    what = first
    if len(others) == 1:
        what = f"{first} or {others[0]}"
    elif others:
        what = f"{first} or {len(others)} more types"
    if len(attempt.zones) == 1:
        what += f" in {attempt.zones[0]}"
    elif attempt.zones:
        what += f" in {len(attempt.zones)} zones"
    words = [MARKETS[attempt.market], what]
    if attempt.usd_per_hour is not None and attempt.outcome is not AttemptOutcome.FOUND:
        several = len(attempt.instance_types) * len(attempt.zones) > 1
        one_price = attempt.market is Market.ON_DEMAND and not others
        words.append(
            f"{'from ' if several and not one_price else ''}{price_words(attempt.usd_per_hour)}"
        )
    return ", ".join(words)


def response_text(attempt: Attempt) -> str:
    """Such as `sold out in us-east-1a, b and c`, or `found g4dn.xlarge in us-east-1b, $0.53/h`."""
    if attempt.outcome is AttemptOutcome.QUOTA:
        return quota_words(attempt)
    words = f"{ANSWERS[attempt.outcome]} {attempt.answer}".strip()
    if attempt.outcome is AttemptOutcome.ASKING:
        return f"{words}…"
    if attempt.outcome is AttemptOutcome.FOUND and attempt.usd_per_hour is not None:
        return f"{words}, {price_words(attempt.usd_per_hour)}"
    return words


def quota_words(attempt: Attempt) -> str:
    """The quota by AWS's name, by which an admin finds it."""
    quotas = {quota_of(attempt.market, name): None for name in attempt.instance_types}
    names = " and ".join(f"“{quota.name}”" for quota in quotas if quota is not None)
    return f"no room in the AWS account's quota {names}".strip()


def market_note(lease: Lease) -> str:
    """Why on-demand was bought although spot comes first, and what it costs; else empty."""
    attempts = current_attempts(lease)
    found = next((x for x in attempts if x.outcome is AttemptOutcome.FOUND), None)
    if found is None or found.market is Market.SPOT or Market.SPOT not in lease.spec.markets:
        return ""
    spot = [x for x in attempts if x.market is Market.SPOT and x.outcome in NO_CAPACITY]
    if not spot and Market.SPOT not in found.skipped_markets:
        return ""  # spot costs more than on-demand right now
    quota = bool(spot) and spot[-1].outcome is AttemptOutcome.QUOTA
    why = "The AWS account's spot quota is used up" if quota else "Spot is sold out"
    price = f" at {price_words(found.usd_per_hour)}" if found.usd_per_hour is not None else ""
    cheaper = next((x.usd_per_hour for x in spot if x.usd_per_hour is not None), None)
    instead = f" instead of {price_words(cheaper)} or more" if price and cheaper is not None else ""
    return f"{why}, so this is an on-demand machine{price}{instead}. AWS does not interrupt it."


def price_note(attempts: Sequence[Attempt], beside: Beside) -> str:
    """What a server costs besides the instance, of which launch calls have the price; empty where
    that is nothing, or no price is shown."""
    if not beside.name or all(each.usd_per_hour is None for each in attempts):
        return ""
    return (
        f"Prices here are of the instance, without its {beside.name}: "
        f"{price_words(beside.usd_per_hour)}."
    )


def home_note(attempts: Sequence[Attempt], home_zone: str) -> str:
    """If a search failed because the home leaves one zone: that this is the reason; else empty."""
    refused = any(attempt.outcome in NO_CAPACITY or attempt.skipped for attempt in attempts)
    # A home that was created during the start has a zone now, but had none at the first attempt.
    bound = all(set(attempt.zones) == {home_zone} for attempt in attempts)
    if not refused or not bound:
        return ""
    return f"Only {home_zone} was tried: your files are there, and no other zone can open them."


def at_price(what: str, usd_per_hour: float | None, at: str = "at") -> str:
    """Such as `spot at $0.53/h`, or `spot, price unknown`."""
    if usd_per_hour is None:
        return f"{what}, price unknown"
    return f"{what} {at} {price_words(usd_per_hour)}"
