"""vCPU quotas, enforced as AWS counts them: by market and class of instance types."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.offers.quotas import QUOTAS, Quota, quota_class
from ...wire import Market
from ..api.protocol import EC2Error
from ..market.capacity import Offer


class Quotas:
    """vCPUs that running instances of one market and class may use together.

    None is no limit. An instance type of a class that `core.offers.quotas` does not know has none.
    """

    def __init__(self) -> None:
        self._vcpus: dict[tuple[Market, str], int | None] = dict.fromkeys(QUOTAS)

    def set(self, market: str, vcpus: int | None) -> None:
        """Set the quota of every class of the market."""
        for key in self._vcpus:
            if key[0] == market:
                self._vcpus[key] = vcpus

    def set_class(self, market: str, name: str, vcpus: int | None) -> None:
        """Set the quota of one class. Raises KeyError for an unknown one."""
        key = (Market(market), name)
        if key not in self._vcpus:
            raise KeyError(name)
        self._vcpus[key] = vcpus

    def by_market(self) -> dict[str, dict[str, int | None]]:
        """Market -> class -> vCPUs."""
        found: dict[str, dict[str, int | None]] = {}
        for (market, name), vcpus in self._vcpus.items():
            found.setdefault(market.value, {})[name] = vcpus
        return found

    def headroom(self, offer: Offer, in_use: int, vcpus: int, wanted: int) -> int:
        """How many of `wanted` instances of `vcpus` each the offer's quota allows."""
        limit = self._vcpus.get(counted_by(offer))
        return wanted if limit is None else max(0, min(wanted, (limit - in_use) // vcpus))

    def exceeded(self, offer: Offer) -> EC2Error:
        """EC2's error of the offer's market."""
        if offer.market == "spot":
            return EC2Error("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        return EC2Error(
            "VcpuLimitExceeded",
            "You have requested more vCPU capacity than your current vCPU limit of "
            f"{self._vcpus.get(counted_by(offer))} allows for the instance bucket that the "
            "specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )

    def __iter__(self) -> Iterator[tuple[Quota, int | None]]:
        return ((QUOTAS[key], vcpus) for key, vcpus in self._vcpus.items())


def counted_by(offer: Offer) -> tuple[Market, str]:
    """Market and class of the quota that counts an offer's instances."""
    market = Market(offer.market)
    return market, quota_class(market, offer.instance_type)
