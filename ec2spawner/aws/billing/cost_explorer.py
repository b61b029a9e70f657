"""What Cost Explorer says of each instance, for accounts without an export of their bill."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from ...core.bills.bill_lines import BillLine, Charge, hours_in_microseconds, nano_of
from ...provisioner.model.cloud.cloud import CloudError
from ..calls.client import Answer, Client

KEPT: Final = timedelta(days=14)
"""How far back Cost Explorer knows single resources."""

SERVICE: Final = "Amazon Elastic Compute Cloud - Compute"
"""Time of instances alone: volumes and addresses belong to `EC2 - Other`."""

MAX_PAGES: Final = 200
"""Each page costs 0.01 USD."""

_CHARGES: Final = {
    "Credit": Charge.CREDIT,
    "Refund": Charge.CREDIT,
    "Tax": Charge.TAX,
    "DiscountedUsage": Charge.DISCOUNTED,
    "SavingsPlanCoveredUsage": Charge.DISCOUNTED,
    "Usage": Charge.INSTANCE,
}
"""Record types. Others cancel lines or buy commitments; amortized costs contain their effect."""


async def instance_lines(client: Client, since: date, until: date) -> list[BillLine]:
    """The cost of each instance on each day in UTC, `until` exclusive.

    Raises `CloudError`: `DataUnavailableException` where single resources are not enabled.
    """
    request: dict[str, Any] = {
        "TimePeriod": {"Start": since.isoformat(), "End": until.isoformat()},
        "Granularity": "DAILY",
        "Metrics": ["AmortizedCost", "UsageQuantity"],
        "GroupBy": [
            {"Type": "DIMENSION", "Key": "RESOURCE_ID"},
            {"Type": "DIMENSION", "Key": "RECORD_TYPE"},
        ],
        "Filter": {"Dimensions": {"Key": "SERVICE", "Values": [SERVICE]}},
    }
    found: list[BillLine] = []
    for _ in range(MAX_PAGES):
        lines, token = await client.call(
            "get_cost_and_usage_with_resources", _page, service="ce", **request
        )
        found += lines
        if not token:
            return found
        request["NextPageToken"] = token
    raise CloudError("EndlessListing", "Cost Explorer's answer does not end", retryable=True)


def _page(answer: Answer) -> tuple[list[BillLine], str]:
    lines = [
        line
        for day in answer["ResultsByTime"]
        for group in day["Groups"]
        if (line := _line(day["TimePeriod"], group)) is not None
    ]
    return lines, answer.get("NextPageToken", "")


def _line(period: Mapping[str, str], group: Mapping[str, Any]) -> BillLine | None:
    resource_id, record_type = group["Keys"]
    charge = _CHARGES.get(record_type)
    if charge is None:
        return None
    cost, hours = group["Metrics"]["AmortizedCost"], group["Metrics"]["UsageQuantity"]
    if cost.get("Unit", "USD") != "USD":
        raise ValueError(f"costs are in {cost['Unit']}, not in USD")
    is_time = charge in (Charge.INSTANCE, Charge.DISCOUNTED)
    return BillLine(
        resource_id="" if resource_id == "NoResourceId" else resource_id,
        start=_instant(period["Start"]),
        end=_instant(period["End"]),
        charge=charge,
        nano_usd=nano_of(cost["Amount"]),
        microseconds=hours_in_microseconds(hours["Amount"]) if is_time else 0,
    )


def _instant(text: str) -> datetime:
    """A day, or an instant, in UTC."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
