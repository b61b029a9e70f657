"""The ledger as FOCUS 1.2, for tools that read cloud bills: one row for each entry and day. Pure.

The rows are estimates under the hub's name, not AWS's bill: the billing account is the hub.
https://focus.finops.org/focus-specification/v1-2/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from ..core.ledger.cost_rows import STORAGE, CostSum, Dimension, Purpose, Resource
from ..core.ledger.local_days import midnight
from ..core.names import tag_value
from ..core.tags import PAYER, PROFILE, USER
from ..core.text.delimited import Cell, delimited
from ..wire import Market
from .wording import exact

DIMENSIONS: Final = (
    Dimension.DAY,
    Dimension.USER,
    Dimension.SERVER,
    Dimension.PAYER,
    Dimension.PROFILE,
    Dimension.INSTANCE_TYPE,
    Dimension.ZONE,
    Dimension.MARKET,
    Dimension.RESOURCE,
    Dimension.PURPOSE,
    Dimension.CAUSE,
)
"""What the ledger's sums are to be grouped by."""

PROVIDER: Final = "Amazon Web Services"

COMMITTED: Final = "Committed"
"""FOCUS's category of a price that a Reserved Instance or a Savings Plan gives."""

_SERVICES: Final[Mapping[str, tuple[str, str, str]]] = {
    Resource.INSTANCE: ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    Resource.DISK: ("Storage", "Block Storage", "Amazon Elastic Block Store"),
    Resource.HOME: ("Storage", "Block Storage", "Amazon Elastic Block Store"),
    Resource.SNAPSHOT: ("Storage", "Backup Storage", "Amazon EBS Snapshots"),
    Resource.ADDRESS: ("Networking", "Network Infrastructure", "Amazon Virtual Private Cloud"),
    Resource.REHEARSAL: ("Developer Tools", "Quality Assurance", "AWS Fault Injection Service"),
}
"""Resource -> FOCUS's category and subcategory, and AWS's service."""


def focus_csv(
    sums: Iterable[CostSum],
    durations: Mapping[tuple[str, ...], int],
    *,
    hub: str,
    region: str,
    place: tzinfo,
) -> tuple[str, int]:
    """The rows, and the number of ledger entries that they leave out. `durations` has microseconds
    by the keys of `sums`.

    FOCUS has no unknown amounts: an entry without a price is left out, and must be reported.
    """
    rows: list[Mapping[str, Cell]] = []
    left_out = 0
    for each in sums:
        left_out += each.unknown
        if each.nano_usd or not each.unknown:
            rows.append(_row(each, durations.get(each.key, 0), hub, region, place))
    header = list(rows[0]) if rows else list(_row(_EMPTY, 0, hub, region, place))
    return delimited(header, (list(row.values()) for row in rows)), left_out


_EMPTY: Final = CostSum(
    key=("2000-01-01", "", "", "hub", "", "", "", "", Resource.INSTANCE, Purpose.USED, ""),
    nano_usd=0,
    on_demand_nano_usd=0,
    comparable_nano_usd=0,
    unknown=0,
    microseconds=0,
    gpu_microseconds=0,
)
"""For the names of the columns."""


def _row(
    each: CostSum, microseconds: int, hub: str, region: str, place: tzinfo
) -> Mapping[str, Cell]:
    of = dict(zip(DIMENSIONS, each.key, strict=True))
    day = date.fromisoformat(of[Dimension.DAY])
    first = day.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    category, subcategory, service = _SERVICES[of[Dimension.RESOURCE]]
    usd = exact(each.nano_usd)
    # What has no list price is listed at what it cost, so that it counts as no saving.
    listed = exact(each.nano_usd - each.comparable_nano_usd + each.on_demand_nano_usd)
    quantity, unit = _quantity(each, microseconds, of)
    pricing = _pricing(each, of)
    return {
        "AvailabilityZone": of[Dimension.ZONE] or None,
        "BilledCost": usd,
        "BillingAccountId": hub,
        "BillingAccountName": hub,
        "BillingCurrency": "USD",
        "BillingPeriodEnd": _utc(midnight(following, place)),
        "BillingPeriodStart": _utc(midnight(first, place)),
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": _description(of),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _utc(midnight(day + timedelta(days=1), place)),
        "ChargePeriodStart": _utc(midnight(day, place)),
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit,
        # What a commitment saves is not in it.
        "ContractedCost": listed if pricing == COMMITTED else usd,
        "EffectiveCost": usd,
        "InvoiceId": None,
        "InvoiceIssuerName": PROVIDER,
        "ListCost": listed,
        "PricingCategory": pricing,
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "RegionId": region,
        "RegionName": region,
        "ServiceCategory": category,
        "ServiceName": service,
        "ServiceSubcategory": subcategory,
        "Tags": _tags(of),
        "x_Cause": of[Dimension.CAUSE] or None,
        "x_InstanceType": of[Dimension.INSTANCE_TYPE] or None,
        "x_Payer": of[Dimension.PAYER] or None,
        "x_Profile": of[Dimension.PROFILE] or None,
        "x_Purpose": of[Dimension.PURPOSE],
        "x_Server": of[Dimension.SERVER] or None,
        "x_User": of[Dimension.USER] or None,
    }


def _quantity(each: CostSum, microseconds: int, of: Mapping[Dimension, str]) -> tuple[float, str]:
    """How much, and its unit in FOCUS's form. Of an instance's own disks the ledger has the price
    and not the size: theirs are hours, as those of addresses."""
    if of[Dimension.RESOURCE] in STORAGE:
        return each.mib_seconds / 1024 / 3600, "GiB-Hours"
    return microseconds / 3.6e9, "Hours"


def _description(of: Mapping[Dimension, str]) -> str:
    """`g5.xlarge, spot: overhead (start)`."""
    cause = f" ({of[Dimension.CAUSE]})" if of[Dimension.CAUSE] else ""
    return f"{_what(of)}: {of[Dimension.PURPOSE]}{cause}"


def _what(of: Mapping[Dimension, str]) -> str:
    """`g5.xlarge, spot`, `disk of g5.xlarge`, `home`."""
    resource, instance_type = of[Dimension.RESOURCE], of[Dimension.INSTANCE_TYPE]
    if resource in STORAGE or not instance_type:
        return resource
    if resource != Resource.INSTANCE:
        return f"{resource} of {instance_type}"
    return f"{instance_type}, {of[Dimension.MARKET]}" if of[Dimension.MARKET] else instance_type


def _pricing(each: CostSum, of: Mapping[Dimension, str]) -> str:
    """FOCUS's category of the price. Disks and addresses have no other than the list price.

    The ledger's lines do not name the source of a price, but only a discount gives on-demand time
    another one than its list price. Rounding moves a line by 1e-9 USD; no commitment saves less
    than a thousandth.
    """
    if of[Dimension.RESOURCE] != Resource.INSTANCE:
        return "Standard"
    if of[Dimension.MARKET] == Market.SPOT:
        return "Dynamic"
    saved = each.on_demand_nano_usd - each.comparable_nano_usd
    return COMMITTED if saved * 1000 > each.on_demand_nano_usd else "Standard"


def _tags(of: Mapping[Dimension, str]) -> str:
    """Those that the hub gives what it launches, in EC2's form, so that they join with the bill."""
    names = ((Dimension.PAYER, PAYER), (Dimension.PROFILE, PROFILE), (Dimension.USER, USER))
    return json.dumps({name: tag_value(of[each]) for each, name in names if of[each]})


def _utc(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
