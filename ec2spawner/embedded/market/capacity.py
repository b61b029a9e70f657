"""How many instances of each offer EC2 has left."""

from __future__ import annotations

from dataclasses import dataclass

from ..api.protocol import EC2Error

ANY = "*"


@dataclass(frozen=True, slots=True)
class Offer:
    """One buyable thing."""

    market: str
    """`spot` or `on-demand`."""
    instance_type: str
    zone: str


@dataclass(frozen=True, slots=True)
class _Rule:
    market: str
    instance_type: str
    zone: str
    available: int | None

    def covers(self, offer: Offer) -> bool:
        return (
            self.market in (ANY, offer.market)
            and self.instance_type in (ANY, offer.instance_type)
            and self.zone in (ANY, offer.zone)
        )


class Capacity:
    """Places left by offer. Without a rule there is no limit.

    A rule sets *each* offer that it covers to its number, and the last rule that covers an
    offer counts. An instance takes a place; one that its owner ends gives it back, one that EC2
    reclaimed does not.
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._left: dict[Offer, int | None] = {}

    def set(self, market: str, instance_type: str, zone: str, available: int | None) -> None:
        """A later rule replaces what earlier ones left of the offers it covers."""
        rule = _Rule(market, instance_type, zone, available)
        self._rules.append(rule)
        self._left = {offer: n for offer, n in self._left.items() if not rule.covers(offer)}

    def left(self, offer: Offer) -> int | None:
        """Places left; None is no limit."""
        if offer not in self._left:
            ruled = (rule.available for rule in reversed(self._rules) if rule.covers(offer))
            self._left[offer] = next(ruled, None)
        return self._left[offer]

    def take(self, offer: Offer, count: int) -> None:
        """Raises `InsufficientInstanceCapacity` when fewer places are left."""
        left = self.left(offer)
        if left is None:
            return
        if left < count:
            raise insufficient(offer)
        self._left[offer] = left - count

    def give_back(self, offer: Offer) -> None:
        """An instance of the offer has ended."""
        left = self.left(offer)
        if left is not None:
            self._left[offer] = left + 1


def insufficient(offer: Offer, elsewhere: tuple[str, ...] = ()) -> EC2Error:
    """EC2's words; `elsewhere` are the zones that do have capacity for the type."""
    message = (
        f"We currently do not have sufficient {offer.instance_type} capacity in the Availability "
        f"Zone you requested ({offer.zone}). Our system will be working on provisioning "
        "additional capacity."
    )
    if elsewhere:
        message += (
            f" You can currently get {offer.instance_type} capacity by not specifying an "
            f"Availability Zone in your request or choosing {', '.join(elsewhere)}."
        )
    return EC2Error("InsufficientInstanceCapacity", message)
