"""Prices from AWS: spot prices, list prices and Reserved Instances.

Prices in USD/hour. A price that cannot be read, or is in another currency, is absent.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ...core.partitions import currency, why_prices_are_unknown
from ...core.pricing.discounts import Discount
from ...core.pricing.price_history import PricePoint, merged
from ...provisioner.model.cloud.cloud import CloudError
from ..calls.client import Answer, Client
from .products import PRODUCTS_PAGE, filters, positive_usd, prices_of

log = logging.getLogger(__name__)

PRODUCT: Final = "Linux/UNIX"
RESERVED_PRODUCTS: Final = frozenset({PRODUCT, f"{PRODUCT} (Amazon VPC)"})
"""The two have been the same since EC2-Classic ended."""

HISTORY_PAGE: Final = 300
"""Prices per page: parsing one takes a tenth of the time of an instance."""

FILTER_VALUES: Final = 200
"""EC2's limit for the values of one filter."""

PRODUCT_QUERIES: Final = 4
"""Instance types queried concurrently: a new hub must not fill the pool of threads with them."""

NOT_PERMITTED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})

_Pool = tuple[str, str]


class Prices:
    """What AWS charges in one region, and to this account."""

    client: Client

    async def spot_history(
        self, instance_types: Iterable[str], zones: Collection[str], since: datetime
    ) -> dict[_Pool, tuple[PricePoint, ...]]:
        """(instance type, zone) -> its spot prices, oldest first, from the one in force at `since`.

        Without `zones`, all of the region. What EC2 does not list is absent, and so are all prices
        of a partition that does not bill in USD: EC2 names no currency here.
        """
        if currency(self.client.region) != "USD":
            return {}
        names = sorted(set(instance_types))
        chosen_zones = [_filter("availability-zone", sorted(set(zones)))] if zones else []
        pools: defaultdict[_Pool, list[PricePoint]] = defaultdict(list)
        for start in range(0, len(names), FILTER_VALUES):
            # As a filter: an unknown name matches nothing; as a parameter it fails the call.
            chosen_types = _filter("instance-type", names[start : start + FILTER_VALUES])
            found = await self.client.pages(
                "describe_spot_price_history",
                _spot_points,
                page=HISTORY_PAGE,
                Filters=[chosen_types, *chosen_zones],
                ProductDescriptions=[PRODUCT],
                StartTime=since,
            )
            for pool, point in found:
                pools[pool].append(point)
        return {pool: merged((), points, since) for pool, points in pools.items()}

    async def on_demand_prices(self, instance_types: Iterable[str]) -> dict[str, float]:
        """Instance type -> its on-demand price in the region, by the Price List API.

        One query for each type, because the API joins its filters with AND. Types unknown to
        it are absent. Outside of the partition `aws` all are: GovCloud has no such API, and its
        credentials do not work elsewhere; other partitions bill in other currencies.
        """
        if why_prices_are_unknown(self.client.region):
            return {}
        region, at_once = self.client.region, asyncio.Semaphore(PRODUCT_QUERIES)

        async def price_of(name: str) -> tuple[str, float | None]:
            wanted = _product(region, name)
            # Such as `USW2-BoxUsage:g5.xlarge`; without a prefix in us-east-1. `HostBoxUsage` and
            # `DedicatedUsage` are other things.
            usage = re.compile(rf"(\w+-)?BoxUsage:{re.escape(name)}")
            async with at_once:
                prices = await self.client.pages(
                    "get_products",
                    lambda answer: list(prices_of(answer, wanted, usage, "Hrs")),
                    service="pricing",
                    page=PRODUCTS_PAGE,
                    ServiceCode="AmazonEC2",
                    Filters=filters(wanted),
                )
            # Two different prices of one product count as unknown.
            return name, prices[0] if len(set(prices)) == 1 else None

        try:
            async with asyncio.TaskGroup() as group:
                queries = [
                    group.create_task(price_of(name)) for name in sorted(set(instance_types))
                ]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        found = (query.result() for query in queries)
        return {name: price for name, price in found if price is not None}

    async def reservations(
        self, ended_between: tuple[datetime, datetime] | None = None
    ) -> tuple[Discount, ...]:
        """The account's active Reserved Instances; none if reading them is not permitted.

        With `ended_between`, UTC, also those whose end was then.

        Each covers exactly its instance type: how AWS spreads a regional one over the sizes of a
        family is not computed (most GPU families have no such spread).
        """
        states = ["active"] if ended_between is None else ["active", "retired"]
        try:
            return await self.client.call(
                "describe_reserved_instances",
                lambda answer: _reserved(answer, ended_between),
                Filters=[_filter("state", states)],
            )
        except CloudError as error:
            if error.code not in NOT_PERMITTED:
                raise
            log.info(
                "Reserved Instances are not taken into account: they may not be read (%s)", error
            )
            return ()


# --- spot ------------------------------------------------------------------------------------


def _filter(name: str, values: Sequence[str]) -> dict[str, Any]:
    return {"Name": name, "Values": values}


def _spot_points(answer: Answer) -> Sequence[tuple[_Pool, PricePoint]]:
    return [
        ((row["InstanceType"], row["AvailabilityZone"]), PricePoint(row["Timestamp"], price))
        for row in answer["SpotPriceHistory"]
        if (price := positive_usd(row["SpotPrice"])) is not None
    ]


# --- on demand -------------------------------------------------------------------------------


def _product(region: str, instance_type: str) -> dict[str, str]:
    """The attributes of the product: Linux, shared tenancy, no software, used capacity."""
    return {
        "regionCode": region,
        "instanceType": instance_type,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }


# --- reserved --------------------------------------------------------------------------------


def _reserved(
    answer: Answer, ended_between: tuple[datetime, datetime] | None
) -> tuple[Discount, ...]:
    return tuple(
        Discount(
            instance_type=row["InstanceType"],
            usd_per_hour=rate,
            count=row["InstanceCount"],
            until=row["End"].astimezone(UTC),
            zone=row.get("AvailabilityZone", "") if _is_of_a_zone(row) else "",
            source=f"a Reserved Instance until {row['End']:%Y-%m-%d}",
            since=row["Start"].astimezone(UTC),
        )
        for row in answer["ReservedInstances"]
        if _counts(row, ended_between)
        and row["ProductDescription"] in RESERVED_PRODUCTS
        and row.get("InstanceTenancy", "default") == "default"
        and row.get("CurrencyCode", "USD") == "USD"
        and (rate := _effective_rate(row)) is not None
    )


def _counts(row: Mapping[str, Any], ended_between: tuple[datetime, datetime] | None) -> bool:
    """A retired one whose end is not over was exchanged, modified or sold: the answer does not say
    when."""
    if row["State"] != "retired" or ended_between is None:
        return bool(row["State"] == "active")
    first, last = ended_between
    return bool(first < row["End"] <= last)


def _is_of_a_zone(row: Mapping[str, Any]) -> bool:
    return bool(row.get("Scope") == "Availability Zone")


def _effective_rate(row: Mapping[str, Any]) -> float | None:
    """USD/hour of one instance, with the upfront payment spread over the term.

    EC2 names `FixedPrice` by instance, not for the whole purchase.
    """
    hourly = row.get("UsagePrice", 0.0) + sum(
        charge["Amount"]
        for charge in row.get("RecurringCharges", ())
        if charge["Frequency"] == "Hourly"
    )
    hours = row["Duration"] / 3600
    return positive_usd(hourly + row.get("FixedPrice", 0.0) / hours) if hours else None
