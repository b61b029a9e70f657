"""What a CreateFleet response means for the rest of its round. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from ...core.offers.launch_errors import ErrorClass, LaunchError, error_class
from ...core.offers.purchase import Offer, OfferKey
from ..model.cloud.launch import FleetResponse, LaunchRequest
from ..offers.offers import Order

_SUMMARY = "UnfulfillableCapacity"
"""EC2's error code for a fleet that it could not fulfil, whatever the reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a round of launch calls ended; `errors` are those of all its calls, oldest first."""

    errors: tuple[LaunchError, ...]
    missing: int
    """Instances that the round could not launch and that leases still wait for."""
    ended_by: ErrorClass | None = None
    """BUSY or REFUSED where that ended the round; None where nothing was left to ask for."""


_OTHER_REASONS = frozenset(
    {ErrorClass.REFUSED, ErrorClass.BUSY, ErrorClass.PLAN, ErrorClass.VERIFICATION}
)


def without_summary(response: FleetResponse) -> FleetResponse:
    """The response without EC2's summary entry where that says nothing about capacity.

    If EC2 launched nothing because it refused the request, by the account's plan or while AWS
    verifies it too, or was too busy, it may add a summary
    that names no offer: "Unable to fulfill capacity due to your request configuration". That does
    not mean that an offer is sold out. Seen in the response to an instance profile that did not
    exist (karpenter#3051).
    """
    if response.instances or not _classes(response) & _OTHER_REASONS:
        return response
    errors = tuple(error for error in response.errors if not _is_summary(error))
    return replace(response, errors=errors)


def _is_summary(error: LaunchError) -> bool:
    return error.code == _SUMMARY and not (error.instance_type or error.subnet or error.zone)


def _classes(response: FleetResponse) -> Set[ErrorClass]:
    return {error_class(error.code) for error in response.errors}


def is_busy(response: FleetResponse) -> bool:
    """True if nothing was launched and every error says that EC2 is busy."""
    return not response.instances and _classes(response) == {ErrorClass.BUSY}


def is_partly_busy(response: FleetResponse) -> bool:
    """True if nothing was launched and EC2 was too busy to try every offer."""
    return not response.instances and ErrorClass.BUSY in _classes(response)


def is_refused(response: FleetResponse, request: LaunchRequest) -> bool:
    """True if nothing was launched and no other offer would help.

    A capacity reservation may be refused by itself: another account's, or a policy without it.
    """
    classes = _classes(response)
    return (
        not request.reservation
        and not response.instances
        and ErrorClass.REFUSED in classes
        and classes <= {ErrorClass.REFUSED, ErrorClass.BUSY}
    )


def done_with(order: Order, response: FleetResponse) -> set[OfferKey]:
    """The offers of a call that its round need not request again.

    Not those that EC2 was too busy to try, nor those of a full subnet, because their zone may have
    another subnet. None if everything requested was launched, as with the places of a discount: at
    the ordinary price there may be more.
    """
    if len(response.instances) >= order.count:
        return set()
    return {
        offer.key
        for offer, subnet in zip(order.offers, order.subnets, strict=True)
        if _error_class_of(offer, subnet, response.errors)
        not in {ErrorClass.BUSY, ErrorClass.SUBNET}
    }


def _error_class_of(offer: Offer, subnet: str, errors: Iterable[LaunchError]) -> ErrorClass | None:
    """The class of the error that names the offer most closely; None if no error names it."""
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
