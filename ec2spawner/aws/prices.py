"""Spot prices as EC2 lists them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from .client import Answer, Client

PRODUCT: Final = "Linux/UNIX"

PRICES_PAGE: Final = 300
"""A price is a tenth of an instance to parse."""

_Price = tuple[datetime, str, str, float]


async def spot_prices(
    client: Client, instance_types: Sequence[str], zones: Sequence[str], now: datetime
) -> dict[tuple[str, str], float]:
    """(instance type, zone) -> the newest spot price, USD/hour; what EC2 does not list is absent.

    No zones are all zones. A history that starts now is the prices in force now.
    """
    if not instance_types:
        return {}
    only = {"Filters": [{"Name": "availability-zone", "Values": sorted(set(zones))}]}
    found = await client.pages(
        "describe_spot_price_history",
        _prices,
        page=PRICES_PAGE,
        InstanceTypes=sorted(set(instance_types)),
        ProductDescriptions=[PRODUCT],
        StartTime=now,
        **(only if zones else {}),
    )
    # Oldest first, so that the newest of a pool is the one that stays.
    return {(type_, zone): price for _, type_, zone, price in sorted(found)}


def _prices(answer: Answer) -> Sequence[_Price]:
    return [
        (
            price["Timestamp"],
            price["InstanceType"],
            price["AvailabilityZone"],
            float(price["SpotPrice"]),
        )
        for price in answer["SpotPriceHistory"]
    ]
