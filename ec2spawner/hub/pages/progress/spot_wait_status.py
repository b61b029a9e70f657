"""Why a start waits, until when, and what its user can accept instead."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from ....core.offers.launch_errors import ErrorClass
from ....core.offers.purchase import Offer
from ....core.offers.sold_out import Mark
from ....core.pricing.money import price_words
from ....provisioner.model.leases.lease import Lease
from ....provisioner.provisioner import Provisioner
from ....wire import Market
from .attempt_text import at_price


def spot_wait_status(provisioner: Provisioner, lease: Lease) -> dict[str, Any] | None:
    """For the progress stream; None while an instance is being bought or on its way.

    `message` is for people; `for` is what it waits for. `until` is the end of the wait (None for
    that of the start) and `again_at` the next request to EC2 (None while that depends on the
    price), both ISO 8601 in UTC. `instead` is what the user can accept: `market`, `usd_per_hour`
    (None is unknown) and its `words`; None for nothing.
    """
    if not provisioner.spot_waits.is_waiting(lease):
        return None
    if (mark := provisioner.market.offers.verification) is not None:
        return _verification_status(lease, mark)
    if lease.wait is None:
        return None
    within = provisioner.market.offers.all_for(lease.spec)
    marks = [mark for offer in within if (mark := provisioner.market.offers.mark_of(offer))]
    again_at = [at for mark in marks if (at := mark.again_at) is not None]
    instead = _on_demand(provisioner, lease)
    all_in = _all_in(provisioner, lease, instead.usd_per_hour if instead else None)
    return {
        "for": "spot capacity",
        "message": f"{_why(provisioner, lease, within, marks)}{_other_price(all_in)}",
        "until": lease.wait.until.isoformat(),
        "again_at": min(again_at).isoformat() if again_at else None,
        "instead": instead
        and {
            "market": instead.market,
            "usd_per_hour": instead.usd_per_hour,
            "words": f"Start {at_price(instead.market, all_in)}",
        },
    }


def _verification_status(lease: Lease, mark: Mark) -> dict[str, Any]:
    return {
        "for": "a verified account",
        "message": "No machine can be started yet: AWS is still verifying this hub's account, "
        "usually for minutes, at most for some hours.",
        "until": lease.wait.until.isoformat() if lease.wait is not None else None,
        "again_at": mark.until.isoformat(),
        "instead": None,
    }


def _why(
    provisioner: Provisioner, lease: Lease, within: Sequence[Offer], marks: Sequence[Mark]
) -> str:
    if not within:
        zones = provisioner.market.zones.of(lease.spec)
        every = provisioner.market.offers.all(lease.spec.instance_types, zones, lease.spec.markets)
        price, limit = _cheapest(every), lease.spec.max_usd_per_hour
        costs = "has no known price" if price is None else f"costs {price_words(price)}"
        over = (
            f", above the {price_words(limit)} that this start may pay" if limit is not None else ""
        )
        return f"Spot for {lease.profile_name} {costs} right now{over}."
    price = _all_in(provisioner, lease, _cheapest(within))
    at = f" at {price_words(price)}" if price is not None else ""
    return no_spot_words(f"{lease.profile_name}{at}", {mark.error_class for mark in marks})


def no_spot_words(what: str, classes: Set[ErrorClass]) -> str:
    """Why there is no spot for `what`, by the classes of what EC2 has refused."""
    if classes == {ErrorClass.QUOTA}:
        return f"The AWS account's spot quota leaves no room for {what} until other servers stop."
    if classes == {ErrorClass.SUBNET}:
        return f"No network address is free for {what} until other servers stop."
    return f"No spot capacity for {what} right now."


def _all_in(provisioner: Provisioner, lease: Lease, own: float | None) -> float | None:
    """What a server on an instance of this price costs, with all that comes with that."""
    beside = provisioner.market.prices.beside_spec(lease.spec).usd_per_hour
    return None if own is None else own + beside


def _other_price(usd_per_hour: float | None) -> str:
    return "" if usd_per_hour is None else f" On-demand costs {price_words(usd_per_hour)}."


def _cheapest(offers: Sequence[Offer]) -> float | None:
    known = [offer.usd_per_hour for offer in offers if offer.usd_per_hour is not None]
    return min(known, default=None)


def _on_demand(provisioner: Provisioner, lease: Lease) -> Offer | None:
    """The cheapest available on-demand offer, if the profile allows on-demand."""
    if lease.wait is None or Market.ON_DEMAND not in lease.wait.otherwise:
        return None
    zones = provisioner.market.zones.of(lease.spec)
    offers = provisioner.market.offers.open(lease.spec.instance_types, zones, (Market.ON_DEMAND,))
    return min(offers, key=lambda x: (x.usd_per_hour is None, x.usd_per_hour or 0.0), default=None)
