"""Places of On-Demand Capacity Reservations and Capacity Blocks, and which launches take them.

EC2 sets the capacity of a reservation aside, so its places are no part of an offer's capacity.
When a reservation ends, its unused places return to the offer; its instances run on, in the
offer's own capacity. A Capacity Block has capacity of its own; its instances end before it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ..api.protocol import EC2Error
from .capacity import Capacity, Offer, insufficient

NOT_FOUND = "InvalidCapacityReservationId.NotFound"
"""Of an id that does not exist, in the form of EC2's other codes. That a launch into a reservation
that has ended is refused with it, too, is our assumption."""

BLOCK = "capacity-block"
"""EC2's name of a Capacity Block, as a type of reservation, a market type and a lifecycle."""

RECLAIMED = timedelta(minutes=30)
"""Before the end of a block, EC2 begins to terminate its instances (EC2 User Guide, November 2026).
That it launches none from then on is our assumption."""

PREFERENCES = ("open", "none", "capacity-reservations-only")


@dataclass(slots=True)
class Reservation:
    """One reservation. It is for Linux, with default tenancy."""

    reservation_id: str
    offer: Offer
    """On-demand."""
    total: int
    vcpus: int
    """Of one instance."""
    is_open: bool
    """Whether launches that do not name it take its places."""
    created_at: datetime
    ends_at: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    used: int = 0
    state: str = "active"
    is_block: bool = False
    """Whether it is a Capacity Block, which is created at its beginning and has an end."""

    @property
    def reclaimed_at(self) -> datetime | None:
        """When EC2 ends its instances, UTC; None unless it is a block."""
        return self.ends_at - RECLAIMED if self.is_block and self.ends_at else None

    @property
    def available(self) -> int:
        """Places without an instance; none once it has ended or its instances are reclaimed."""
        at = self.reclaimed_at
        is_over = self.state != "active" or (at is not None and at <= datetime.now(UTC))
        return 0 if is_over else self.total - self.used


@dataclass(frozen=True, slots=True)
class Wish:
    """What a launch says of reservations, in CapacityReservationSpecification."""

    preference: str = "open"
    target: str = ""
    """Id of the only reservation that it may run in."""
    in_block: bool = False
    """Whether its market type is that of Capacity Blocks."""

    @classmethod
    def of(
        cls, specification: Mapping[str, Any] | None, market: str, *, in_block: bool = False
    ) -> Wish:
        """Raises EC2's errors for what does not go together."""
        given = specification or {}
        target = given.get("CapacityReservationTarget") or {}
        if target.get("CapacityReservationResourceGroupArn"):
            message = "The embedded EC2 has no resource groups of capacity reservations."
            raise EC2Error("UnsupportedOperation", message)
        named = str(target.get("CapacityReservationId") or "")
        preference = str(given.get("CapacityReservationPreference") or "")
        if preference and preference not in PREFERENCES:
            message = f"Invalid value '{preference}' for CapacityReservationPreference"
            raise EC2Error("InvalidParameterValue", message)
        if named and preference not in ("", "capacity-reservations-only"):
            raise EC2Error(
                "InvalidParameterCombination",
                "CapacityReservationTarget cannot be specified together with the "
                f"CapacityReservationPreference '{preference}'.",
            )
        if market == "spot" and (named or preference == "capacity-reservations-only"):
            message = "A Spot Instance cannot run in a Capacity Reservation."
            raise EC2Error("InvalidParameterCombination", message)
        if in_block and not named:
            message = f"The market type {BLOCK} needs the id of a Capacity Block as target."
            raise EC2Error("InvalidParameterCombination", message)
        return cls("capacity-reservations-only" if named else preference or "open", named, in_block)

    @property
    def is_only(self) -> bool:
        """Whether it launches nowhere but in a reservation."""
        return self.preference == "capacity-reservations-only"


class ReservedPlaces:
    """All reservations, beside the capacity from which they are set aside."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self._reservations: dict[str, Reservation] = {}

    def all(self) -> list[Reservation]:
        """Those that have ended, too, in the order in which they were made."""
        self._end_those_that_are_due()
        return list(self._reservations.values())

    def get(self, reservation_id: str) -> Reservation:
        """Raises `InvalidCapacityReservationId.NotFound`."""
        self._end_those_that_are_due()
        found = self._reservations.get(reservation_id)
        if found is None:
            raise _not_found(reservation_id)
        return found

    def add(self, reservation: Reservation) -> None:
        """Raises `InsufficientInstanceCapacity` where its offer lacks capacity."""
        if not reservation.is_block:
            self.capacity.take(reservation.offer, reservation.total)
        self._reservations[reservation.reservation_id] = reservation

    def end(self, reservation: Reservation, state: str) -> None:
        """`cancelled` or `expired`: unused places are anybody's again."""
        for _ in range(0 if reservation.is_block else reservation.available):
            self.capacity.give_back(reservation.offer)
        reservation.state = state

    def left(self, wish: Wish, offer: Offer) -> int:
        """Unused places that a launch of the offer may take.

        Raises `InvalidCapacityReservationId.NotFound`, and `InvalidParameterValue` where the
        reservation that it targets is for another type or zone.
        """
        return sum(each.available for each in self._for(wish, offer))

    def take(self, wish: Wish, offer: Offer, count: int) -> list[str]:
        """Take up to `count` places, and the rest of the offer's capacity: the reservation of each
        instance, empty for none.

        Raises `ReservationCapacityExceeded` or `InsufficientInstanceCapacity`; then none is taken.
        """
        found: list[Reservation] = []
        for each in self._for(wish, offer):
            found += [each] * min(each.available, count - len(found))
        if len(found) < count:
            if wish.is_only:
                raise exceeded(wish, offer)
            self.capacity.take(offer, count - len(found))
        for each in found:
            each.used += 1
        return [each.reservation_id for each in found] + [""] * (count - len(found))

    def give_back(self, reservation_id: str, offer: Offer) -> None:
        """An instance has ended that was in this reservation, or in none."""
        reservation = self._reservations.get(reservation_id)
        if reservation is not None:
            self._end_those_that_are_due()
            reservation.used -= 1
        if reservation is None or (reservation.state != "active" and not reservation.is_block):
            self.capacity.give_back(offer)

    def holds(self, reservation_id: str) -> bool:
        """Whether an instance that was launched into it is still in it."""
        self._end_those_that_are_due()
        found = self._reservations.get(reservation_id)
        return found is not None and found.state == "active"

    def reclaimed_at(self, reservation_id: str) -> datetime | None:
        """When EC2 ends the instances of this reservation, UTC; None unless it is a block."""
        found = self._reservations.get(reservation_id)
        return None if found is None else found.reclaimed_at

    def _for(self, wish: Wish, offer: Offer) -> list[Reservation]:
        """The active reservations whose places a launch of the offer may take."""
        if wish.target:
            found = self.get(wish.target)
            if found.state != "active":
                raise _not_found(wish.target)
            if found.offer != offer:
                raise EC2Error(
                    "InvalidParameterValue",
                    f"The Capacity Reservation '{wish.target}' is for {found.offer.instance_type} "
                    f"in {found.offer.zone}.",
                )
            if found.is_block != wish.in_block:
                kind = BLOCK if found.is_block else "on-demand"
                message = f"'{wish.target}' takes launches of the market type {kind} only."
                raise EC2Error("InvalidParameterCombination", message)
            return [found]
        if wish.preference == "none":
            return []
        return [each for each in self.all() if each.is_open and each.offer == offer]

    def _end_those_that_are_due(self) -> None:
        now = datetime.now(UTC)
        for each in self._reservations.values():
            if each.state == "active" and each.ends_at is not None and each.ends_at <= now:
                self.end(each, "expired")


def exceeded(wish: Wish, offer: Offer) -> EC2Error:
    """EC2's words where a reservation lacks places; its guide names the code for blocks."""
    if wish.in_block:
        return insufficient(offer, ())
    return EC2Error(
        "ReservationCapacityExceeded",
        "The requested number of instances exceeds the available capacity of the targeted "
        "Capacity Reservation.",
    )


def _not_found(reservation_id: str) -> EC2Error:
    message = f"The Capacity Reservation ID '{reservation_id}' does not exist or is not active"
    return EC2Error(NOT_FOUND, message)
