"""What a server of the test costs by the hour, as far as the hub says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .journal import MINIMUM_SECONDS


@dataclass(frozen=True, slots=True)
class Price:
    """USD/hour of an instance, without its disks: of the best offer, and of the most expensive."""

    profile: str
    lowest: float
    highest: float

    def of_servers(self, server_seconds: float) -> float:
        """USD for so many seconds of servers, at the most expensive offer."""
        return self.highest * server_seconds / 3600

    def estimate(self, servers: int, seconds: float) -> float:
        """USD for so many servers that run so long each."""
        return self.of_servers(servers * max(seconds, MINIMUM_SECONDS))


def price_of(answer: Mapping[str, Any], profile: str) -> Price | None:
    """From the answer to `GET /hub/api/ec2/profiles`; None where it says no price.

    Without a profile it is the one that the hub chooses.
    """
    for found in _objects(answer.get("profiles")):
        if found.get("slug") == profile or (not profile and found.get("default") is True):
            prices = list(_prices(found))
            name = str(found.get("slug", ""))
            return Price(name, min(prices), max(prices)) if prices else None
    return None


def _prices(profile: Mapping[str, Any]) -> Iterator[float]:
    for offer in _objects(profile.get("offers")):
        price = offer.get("usd_per_hour")
        if isinstance(price, int | float) and price >= 0:
            yield float(price)


def _objects(found: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, dict))
