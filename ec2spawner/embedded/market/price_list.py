"""The Price List API: GetProducts for EC2 and VPC in one region.

A product is one way to run an instance type, with an operating system, a tenancy and a capacity
status; or something else that a region sells (`resource_products`). As on AWS, who filters too
little gets several products of one type, some of them free.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from ...core.profiles.profiles import InstanceType
from ...data import instance_types
from ..api.json_service import page
from ..api.protocol import EC2Error
from .prices import OnDemandPrices
from .resource_products import RESOURCE_PRODUCTS

SERVICE_CODE = "AmazonEC2"
SERVICE_CODES = frozenset({SERVICE_CODE, "AmazonVPC"})
FORMAT_VERSION = "aws_v1"

WINDOWS_USD_PER_VCPU_HOUR = 0.046
"""What a Windows licence adds, as AWS lists it for most types."""
DEDICATED_FACTOR = 1.1
"""A tenth more for a dedicated instance: a round number, for AWS's own vary."""

ON_DEMAND_TERM, HOURLY_RATE = "JRTCKXETXF", "6YS6EN2CT7"
"""AWS's codes of the on-demand term and of its hourly rate."""


class _Way(NamedTuple):
    """One way to run an instance."""

    operating_system: str
    tenancy: str
    capacity_status: str


WAYS = (
    _Way("Linux", "Shared", "Used"),
    _Way("Linux", "Shared", "UnusedCapacityReservation"),
    _Way("Linux", "Shared", "AllocatedCapacityReservation"),
    _Way("Linux", "Dedicated", "Used"),
    _Way("Windows", "Shared", "Used"),
)


@dataclass(frozen=True, slots=True)
class _Product:
    """What is sold, and by which unit."""

    family: str
    """Empty where AWS names none."""
    attributes: Mapping[str, str]
    unit: str
    description: str
    """A format string, with the price as `usd`."""
    usd: float | None
    """None for instances, whose prices can be set."""
    fields: Mapping[str, str]
    """What filters are compared with."""


class PriceList:
    """Answers AWSPriceListService for the region's EC2."""

    def __init__(self, prices: OnDemandPrices, region: str) -> None:
        self._prices = prices
        self._region = region

    async def answer(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """GetProducts; raises the Price List API's errors for anything else."""
        if action != "GetProducts":
            raise EC2Error("UnknownOperationException", f"The embedded EC2 has no {action}.")
        service = asked.get("ServiceCode")
        if service not in SERVICE_CODES:
            here = " and ".join(sorted(SERVICE_CODES))
            raise EC2Error("NotFoundException", f"There are {here} here, and no other.")
        if asked.get("FormatVersion", FORMAT_VERSION) != FORMAT_VERSION:
            raise EC2Error("InvalidParameterException", f"FormatVersion is {FORMAT_VERSION}.")
        known = _fields(self._region, service)
        filters = asked.get("Filters") or ()
        products = [
            (product, usd)
            for product in _products(self._region)[service]
            if _matches(product.fields, filters, known)
            if (usd := self._usd(product)) is not None
        ]
        shown, token = page(
            products, asked, "InvalidParameterException", "InvalidNextTokenException"
        )
        published = datetime.now(UTC).replace(microsecond=0, second=0, minute=0)
        return {
            "FormatVersion": FORMAT_VERSION,
            "PriceList": [json.dumps(_listed(product, usd, published)) for product, usd in shown],
            **token,
        }

    def _usd(self, product: _Product) -> float | None:
        """What a unit costs now; None where there is no price."""
        if product.usd is not None:
            return product.usd
        attributes = product.attributes
        listed = self._prices.price(attributes["instanceType"])
        if listed is None:
            return None
        if attributes["capacitystatus"] == "AllocatedCapacityReservation":
            return 0.0
        if attributes["operatingSystem"] == "Windows":
            return listed + WINDOWS_USD_PER_VCPU_HOUR * int(attributes["vcpu"])
        return listed * DEDICATED_FACTOR if attributes["tenancy"] == "Dedicated" else listed


@cache
def _products(region: str) -> Mapping[str, Sequence[_Product]]:
    """All that a region may sell, by its service: hubs read the prices of all their types, one by
    one, whenever they start."""
    found: defaultdict[str, list[_Product]] = defaultdict(list)
    for known in instance_types().values():
        for way in WAYS:
            attributes = _attributes(known, way, region)
            description = (
                f"${{usd:.10g}} per On Demand {way.operating_system} {known.name} Instance Hour"
            )
            found[SERVICE_CODE].append(
                _product("Compute Instance", attributes, "Hrs", description, None)
            )
    for each in RESOURCE_PRODUCTS:
        attributes = {**each.attributes, **_place(region)}
        found[attributes["servicecode"]].append(
            _product(each.family, attributes, each.unit, each.description, each.usd)
        )
    return found


@cache
def _fields(region: str, service: str) -> Set[str]:
    """The fields that a filter of the service's products may name."""
    return frozenset(field for product in _products(region)[service] for field in product.fields)


def _product(
    family: str, attributes: Mapping[str, str], unit: str, description: str, usd: float | None
) -> _Product:
    of_family = {"productFamily": family} if family else {}
    fields = {**of_family, "ServiceCode": attributes["servicecode"], **attributes}
    return _Product(family, attributes, unit, description, usd, fields)


def _listed(product: _Product, usd: float, published: datetime) -> dict[str, Any]:
    attributes = product.attributes
    sku = sha256(json.dumps(attributes, sort_keys=True).encode()).hexdigest()[:16].upper()
    term, rate = f"{sku}.{ON_DEMAND_TERM}", f"{sku}.{ON_DEMAND_TERM}.{HOURLY_RATE}"
    instant = published.strftime("%Y-%m-%dT%H:%M:%SZ")
    dimension = {
        "unit": product.unit,
        "endRange": "Inf",
        "description": product.description.format(usd=usd),
        "appliesTo": [],
        "rateCode": rate,
        "beginRange": "0",
        "pricePerUnit": {"USD": f"{usd:.10f}"},
    }
    on_demand = {
        "priceDimensions": {rate: dimension},
        "sku": sku,
        "effectiveDate": instant,
        "offerTermCode": ON_DEMAND_TERM,
        "termAttributes": {},
    }
    family = {"productFamily": product.family} if product.family else {}
    return {
        "product": {**family, "attributes": attributes, "sku": sku},
        "serviceCode": attributes["servicecode"],
        "terms": {"OnDemand": {term: on_demand}},
        "version": published.strftime("%Y%m%d%H%M%S"),
        "publicationDate": instant,
    }


def _attributes(known: InstanceType, way: _Way, region: str) -> dict[str, str]:
    windows = way.operating_system == "Windows"
    usage = {
        "Used": "DedicatedUsage" if way.tenancy == "Dedicated" else "BoxUsage",
        "UnusedCapacityReservation": "UnusedBox",
        "AllocatedCapacityReservation": "Reservation",
    }[way.capacity_status]
    return {
        "availabilityzone": "NA",
        "capacitystatus": way.capacity_status,
        "currentGeneration": "Yes",
        "gpu": str(known.gpu_count),
        "instanceType": known.name,
        "licenseModel": "License Included" if windows else "No License required",
        "marketoption": "OnDemand",
        "memory": f"{known.memory_mib / 1024:g} GiB",
        "operatingSystem": way.operating_system,
        "operation": "RunInstances:0002" if windows else "RunInstances",
        "preInstalledSw": "NA",
        **_place(region),
        "servicecode": SERVICE_CODE,
        "servicename": "Amazon Elastic Compute Cloud",
        "tenancy": way.tenancy,
        "usagetype": f"{usage}:{known.name}",
        "vcpu": str(known.vcpus),
    }


def _place(region: str) -> dict[str, str]:
    return {
        "location": "US East (N. Virginia)",
        "locationType": "AWS Region",
        "regionCode": region,
    }


def _matches(fields: Mapping[str, str], filters: Any, known: Set[str]) -> bool:
    """Whether all filters hold. Raises `InvalidParameterException` for one that is none here."""
    return all(_holds(fields, asked, known) for asked in filters)


def _holds(fields: Mapping[str, str], asked: Mapping[str, str], known: Set[str]) -> bool:
    field, value = asked.get("Field", ""), asked.get("Value", "")
    if field not in known:
        # AWS answers with nothing at all; here the slip of the pen is named.
        raise EC2Error(
            "InvalidParameterException",
            f"The embedded EC2 has no attribute {field}; it has {', '.join(sorted(known))}.",
        )
    having = fields.get(field)
    if having is None:
        return False
    match asked.get("Type"):
        case "TERM_MATCH" | "EQUALS":
            return having.lower() == value.lower()
        case "CONTAINS":
            return value.lower() in having.lower()
        case "ANY_OF":
            return having.lower() in value.lower().split(",")
        case "NONE_OF":
            return having.lower() not in value.lower().split(",")
        case other:
            raise EC2Error("InvalidParameterException", f"There is no filter type {other}.")
