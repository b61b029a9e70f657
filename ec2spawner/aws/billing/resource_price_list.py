"""Prices of disks, snapshots and public addresses, by the Price List API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ...core.partitions import why_prices_are_unknown
from ...core.pricing.resource_prices import ResourcePrices
from ..calls.client import Client
from .products import PRODUCTS_PAGE, filters, prices_of


class _Query(NamedTuple):
    """A product of each region. `usage` is its usage type without the region's prefix, such as the
    `USW2-` of us-west-2."""

    service: str
    attributes: Mapping[str, str]
    usage: str
    unit: str


_GP3, _GP2 = (
    _Query(
        "AmazonEC2",
        {"productFamily": "Storage", "volumeApiName": volume_type},
        f"EBS:VolumeUsage.{volume_type}",
        "GB-Mo",
    )
    for volume_type in ("gp3", "gp2")
)
_SNAPSHOT: Final = _Query(
    "AmazonEC2", {"productFamily": "Storage Snapshot"}, "EBS:SnapshotUsage", "GB-Mo"
)
_ADDRESS: Final = _Query(
    "AmazonVPC", {"group": "VPCPublicIPv4Address"}, "PublicIPv4:InUseAddress", "Hrs"
)


class ResourcePriceList:
    """What AWS charges in one region for what exists beside an instance's time."""

    client: Client

    async def resource_prices(self) -> ResourcePrices:
        """Prices in the region; those that the list does not have, or not in USD, are None.

        Outside of the partition `aws` all are, as for instances. Raises `CloudError`.
        """
        if why_prices_are_unknown(self.client.region):
            return ResourcePrices()
        return ResourcePrices(
            disk_usd_per_gib_month=await self._price(_GP3),
            snapshot_usd_per_gib_month=await self._price(_SNAPSHOT),
            address_usd_per_hour=await self._price(_ADDRESS),
            gp2_usd_per_gib_month=await self._price(_GP2),
        )

    async def _price(self, query: _Query) -> float | None:
        attributes = {"regionCode": self.client.region}
        usage = re.compile(rf"(\w+-)?{re.escape(query.usage)}")
        prices = await self.client.pages(
            "get_products",
            lambda answer: list(prices_of(answer, attributes, usage, query.unit)),
            service="pricing",
            page=PRODUCTS_PAGE,
            ServiceCode=query.service,
            Filters=filters({**attributes, **query.attributes}),
        )
        # Two different prices of one product count as unknown.
        return prices[0] if len(set(prices)) == 1 else None
