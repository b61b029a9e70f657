"""What the answer to a launch call says about the rest of its round. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from ...core.offers.launch_errors import ErrorClass, LaunchError, error_class
from ...core.offers.purchase import Offer, OfferKey
from ..model.cloud import FleetResponse
from ..offers.offers import Order

_SUMMARY = "UnfulfillableCapacity"
"""EC2's code for a fleet that it could not fulfil, for whatever reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a round of launch calls ended. `errors` of all its calls, oldest first."""

    errors: tuple[LaunchError, ...]
    missing: int
    """Instances that the round was still to bring."""
    ended_by: ErrorClass | None = None
    """BUSY or REFUSED where that ended the round; None where nothing was left to ask for."""


_OTHER_REASONS = frozenset({ErrorClass.REFUSED, ErrorClass.BUSY})


def without_summary(answer: FleetResponse) -> FleetResponse:
    """The response without EC2's summary entry where that says nothing about capacity.

    Where nothing came because EC2 refused the request, or was too busy, it may sum that up by an
    entry of its own that names no offer: "Unable to fulfill capacity due to your request
    configuration". That is no word about capacity. Seen in the answer to an instance profile that
    did not exist (karpenter#3051).
    """
    if answer.instances or not _classes(answer) & _OTHER_REASONS:
        return answer
    errors = tuple(error for error in answer.errors if not _is_summary(error))
    return replace(answer, errors=errors)


def _is_summary(error: LaunchError) -> bool:
    return error.code == _SUMMARY and not (error.instance_type or error.subnet or error.zone)


def _classes(answer: FleetResponse) -> Set[ErrorClass]:
    return {error_class(error.code) for error in answer.errors}


def is_busy(answer: FleetResponse) -> bool:
    """True where nothing came, and all that EC2 says is that it is busy."""
    return not answer.instances and _classes(answer) == {ErrorClass.BUSY}


def is_partly_busy(answer: FleetResponse) -> bool:
    """True where nothing came, and EC2 was too busy to try every offer."""
    return not answer.instances and ErrorClass.BUSY in _classes(answer)


def is_refused(answer: FleetResponse) -> bool:
    """True where nothing came, and no other offer would bring anything either."""
    classes = _classes(answer)
    return (
        not answer.instances
        and ErrorClass.REFUSED in classes
        and classes <= {ErrorClass.REFUSED, ErrorClass.BUSY}
    )


def done_with(order: Order, answer: FleetResponse) -> set[OfferKey]:
    """The offers of a call that have had their say.

    Not those that EC2 was too busy to try, nor those of a full subnet, for their zone may have
    another one; and none where all came that was asked for, as with the places of a discount: at
    the ordinary price there may be more.
    """
    if len(answer.instances) >= order.count:
        return set()
    return {
        offer.key
        for offer, subnet in zip(order.offers, order.subnets, strict=True)
        if _outcome_of(offer, subnet, answer.errors) not in {ErrorClass.BUSY, ErrorClass.SUBNET}
    }


def _outcome_of(offer: Offer, subnet: str, errors: Iterable[LaunchError]) -> ErrorClass | None:
    """What the errors say of an offer; the one that names most of it counts."""
    of_it = [
        error
        for error in errors
        if error.instance_type in ("", offer.instance_type)
        and error.subnet in ("", subnet)
        and error.zone in ("", offer.zone)
    ]
    if not of_it:
        return None
    closest = max(of_it, key=lambda e: (bool(e.instance_type), bool(e.subnet or e.zone)))
    return error_class(closest.code)
