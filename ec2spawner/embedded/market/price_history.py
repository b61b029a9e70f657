"""DescribeSpotPriceHistory over the simulated prices."""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import dropwhile, islice
from typing import Any

from ...data import instance_types
from ..api.protocol import EC2Error
from ..network import Network
from .prices import HISTORY, SpotPrices
from .type_facts import instance_type_facts

MAX_PAGE = 1000
PRODUCT = "Linux/UNIX"
SAME_AS_PRODUCT = frozenset({PRODUCT, "Linux/UNIX (Amazon VPC)"})

Place = tuple[float, str, str]
"""Where a row stands in the history: rows go by ascending place. Seconds before the epoch, type,
zone."""


async def price_history(
    prices: SpotPrices, network: Network, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Changes of the spot prices, newest first, back to the one in force at the start time."""
    now = datetime.now(UTC)
    filters = {f["Name"]: set(f.get("Values") or ()) for f in parameters.get("Filters") or ()}
    types = _chosen(parameters.get("InstanceTypes"), filters.pop("instance-type", None))
    zone = parameters.get("AvailabilityZone")
    zones = _chosen([zone] if zone else None, filters.pop("availability-zone", None))
    products = _chosen(
        parameters.get("ProductDescriptions"), filters.pop("product-description", None)
    )
    if filters:
        raise EC2Error("InvalidParameterValue", f"The filter '{next(iter(filters))}' is invalid")
    size = parameters.get("MaxResults") or MAX_PAGE
    if not 1 <= size <= MAX_PAGE:
        raise EC2Error("InvalidParameterValue", f"Invalid value '{size}' for maxResults")
    end = min(parameters.get("EndTime") or now, now)
    start = min(max(parameters.get("StartTime") or now - HISTORY, now - HISTORY), end)
    last = _read_token(parameters.get("NextToken"))
    if products is not None and not products & SAME_AS_PRODUCT:
        return {"SpotPriceHistory": []}

    def page() -> list[dict[str, Any]]:
        if last is None:
            return list(islice(_rows(prices, network, types, zones, start, end), size + 1))
        # Only what is left is made again: a history of all types has tens of thousands of rows.
        resumed = datetime.fromtimestamp(-last[0], UTC)
        rows = _rows(prices, network, types, zones, start, resumed)
        return list(islice(dropwhile(lambda row: _place(row) <= last, rows), size + 1))

    found = await asyncio.to_thread(page)
    answer: dict[str, Any] = {"SpotPriceHistory": found[:size]}
    if len(found) > size:
        answer["NextToken"] = _write_token(_place(found[size - 1]))
    return answer


def _rows(
    prices: SpotPrices,
    network: Network,
    types: set[str] | None,
    zones: set[str] | None,
    start: datetime,
    end: datetime,
) -> Iterator[dict[str, Any]]:
    histories = [
        _history(prices, name, zone, start, end)
        for name in (types if types is not None else instance_types())
        for zone in network.subnets
        if (zones is None or zone in zones) and name in instance_types()
        if zone in instance_type_facts(name, zone[:-1]).zones
    ]
    return heapq.merge(*histories, key=_place)


def _history(
    prices: SpotPrices, name: str, zone: str, start: datetime, end: datetime
) -> Iterator[dict[str, Any]]:
    for change in prices.history(name, zone, start, end):
        yield {
            "AvailabilityZone": zone,
            "InstanceType": name,
            "ProductDescription": PRODUCT,
            "SpotPrice": f"{change.usd_per_hour:.6f}",
            "Timestamp": change.at,
        }


def _place(row: Mapping[str, Any]) -> Place:
    return -row["Timestamp"].timestamp(), row["InstanceType"], row["AvailabilityZone"]


def _chosen(named: list[str] | None, filtered: set[str] | None) -> set[str] | None:
    """What both a parameter and a filter leave; None is everything."""
    sets = [set(chosen) for chosen in (named, filtered) if chosen]
    return set.intersection(*sets) if sets else None


def _write_token(last: Place) -> str:
    """The next page begins after this row, whatever prices change meanwhile."""
    return base64.urlsafe_b64encode(" ".join(map(str, last)).encode()).decode()


def _read_token(token: str | None) -> Place | None:
    if not token:
        return None
    try:
        instant, instance_type, zone = base64.urlsafe_b64decode(token).decode().split()
        return float(instant), instance_type, zone
    except (binascii.Error, ValueError) as error:
        raise EC2Error("InvalidParameterValue", "Unable to parse pagination token") from error
