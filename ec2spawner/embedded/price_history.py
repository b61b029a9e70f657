"""DescribeSpotPriceHistory over the simulated prices."""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from ..data import instance_types
from .launch import instance_type_facts
from .network import Network
from .prices import HISTORY, SpotPrices
from .protocol import EC2Error

MAX_PAGE = 1000
PRODUCT = "Linux/UNIX"
SAME_AS_PRODUCT = frozenset({PRODUCT, "Linux/UNIX (Amazon VPC)"})


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
    start = max(parameters.get("StartTime") or now - HISTORY, now - HISTORY)
    skipped, end = _read_token(parameters.get("NextToken"), end)
    if products is not None and not products & SAME_AS_PRODUCT:
        return {"SpotPriceHistory": []}
    rows = _rows(prices, network, types, zones, min(start, end), end)
    page = await asyncio.to_thread(lambda: list(islice(rows, skipped, skipped + size + 1)))
    answer: dict[str, Any] = {"SpotPriceHistory": page[:size]}
    if len(page) > size:
        answer["NextToken"] = _write_token(skipped + size, end)
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
        for name in sorted(types if types is not None else instance_types())
        for zone in network.subnets
        if (zones is None or zone in zones) and name in instance_types()
        if zone in instance_type_facts(name, zone[:-1]).zones
    ]
    return heapq.merge(*histories, key=lambda row: row["Timestamp"], reverse=True)


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


def _chosen(named: list[str] | None, filtered: set[str] | None) -> set[str] | None:
    """What both a parameter and a filter leave; None is everything."""
    sets = [set(chosen) for chosen in (named, filtered) if chosen]
    return set.intersection(*sets) if sets else None


def _write_token(skipped: int, end: datetime) -> str:
    """Pages go on in the history as it was when the first was asked for."""
    return base64.urlsafe_b64encode(f"{skipped} {end.isoformat()}".encode()).decode()


def _read_token(token: str | None, end: datetime) -> tuple[int, datetime]:
    if not token:
        return 0, end
    try:
        skipped, instant = base64.urlsafe_b64decode(token).decode().split()
        return int(skipped), datetime.fromisoformat(instant)
    except (binascii.Error, ValueError) as error:
        raise EC2Error("InvalidParameterValue", "Unable to parse pagination token") from error
