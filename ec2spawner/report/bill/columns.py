"""Rows of AWS's exports, CUR 2.0 and FOCUS, as lines of a bill. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from ...core.bills.bill_lines import (
    BillLine,
    Charge,
    hours_in_microseconds,
    is_instance_time,
    nano_of,
)
from ...core.tags import HUB
from .errors import BillError

Row = Mapping[str, Any]
"""Column -> value: text, or what Parquet has."""


class Layout(Enum):
    """Which columns an export has; the value are those that a comparison needs."""

    CUR = (
        "line_item_resource_id",
        "line_item_usage_start_date",
        "line_item_usage_end_date",
        "line_item_line_item_type",
        "line_item_usage_type",
        "line_item_usage_amount",
        "line_item_unblended_cost",
    )
    FOCUS = (
        "ResourceId",
        "ChargePeriodStart",
        "ChargePeriodEnd",
        "ChargeCategory",
        "EffectiveCost",
    )


OPTIONAL: Final[Mapping[Layout, tuple[str, ...]]] = {
    Layout.CUR: (
        "line_item_currency_code",
        "pricing_public_on_demand_cost",
        "reservation_effective_cost",
        "resource_tags",
        "savings_plan_savings_plan_effective_cost",
    ),
    Layout.FOCUS: (
        "BillingCurrency",
        "ConsumedQuantity",
        "ConsumedUnit",
        "ListCost",
        "PricingCategory",
        "Tags",
        "x_UsageType",
    ),
}
"""Columns that are used where the export has them."""

_CUR_CHARGES: Final = {
    "Credit": Charge.CREDIT,
    "Refund": Charge.CREDIT,
    "Tax": Charge.TAX,
    "DiscountedUsage": Charge.DISCOUNTED,
    "SavingsPlanCoveredUsage": Charge.DISCOUNTED,
}
"""Types of CUR's lines other than usage."""

_CUR_DISCOUNTS: Final = frozenset(
    {"BundledDiscount", "Discount", "EdpDiscount", "PrivateRateDiscount", "SppDiscount"}
)
"""Negative lines that lower the price of a line of usage."""

_CUR_SKIPPED: Final = frozenset({"SavingsPlanNegation"})
"""It cancels the list price of covered usage, which counts at its effective cost here."""

_HUB_KEY: Final = re.sub(r"[^a-z0-9]+", "_", HUB.lower())


def layout_of(columns: Collection[str]) -> Layout:
    """Which layout these columns are. Raises `BillError` for neither, or an incomplete one."""
    for layout, sign in ((Layout.CUR, "line_item_"), (Layout.FOCUS, "ChargePeriodStart")):
        if any(column.startswith(sign) for column in columns):
            if missing := [each for each in layout.value if each not in columns]:
                raise BillError(
                    f"the export lacks the columns {', '.join(missing)}. Fix: add them to the "
                    "export in the console's Data Exports, or export all columns"
                )
            return layout
    raise BillError(
        "the file is neither CUR 2.0 nor FOCUS. Fix: name the folder of a Standard export (CUR "
        "2.0) or of a FOCUS export"
    )


def line_of(row: Row, layout: Layout) -> BillLine | None:
    """The line; None for one that only cancels another.

    Raises `BillError` for another currency than USD, `ValueError` for what cannot be read.
    """
    currency = "line_item_currency_code" if layout is Layout.CUR else "BillingCurrency"
    if (code := _text(row, currency)) not in ("", "USD"):
        raise BillError(f"the bill is in {code}: only USD can be compared")
    return _cur_line(row) if layout is Layout.CUR else _focus_line(row)


def _cur_line(row: Row) -> BillLine | None:
    kind, usage_type = _text(row, "line_item_line_item_type"), _text(row, "line_item_usage_type")
    if kind in _CUR_SKIPPED:
        return None
    is_time = is_instance_time(usage_type)
    charge = _CUR_CHARGES.get(kind, Charge.INSTANCE if is_time else Charge.OTHER_USAGE)
    if charge is Charge.DISCOUNTED and not is_time:
        charge = Charge.OTHER_USAGE
    is_usage = kind == "Usage" or charge is Charge.DISCOUNTED
    amount = _text(row, "line_item_unblended_cost")
    if kind == "DiscountedUsage":
        amount = _text(row, "reservation_effective_cost") or amount
    elif kind == "SavingsPlanCoveredUsage":
        amount = _text(row, "savings_plan_savings_plan_effective_cost") or amount
    listed = _text(row, "pricing_public_on_demand_cost")
    hours = _text(row, "line_item_usage_amount")
    return BillLine(
        resource_id=_resource(_text(row, "line_item_resource_id")),
        start=_instant(row["line_item_usage_start_date"]),
        end=_instant(row["line_item_usage_end_date"]),
        charge=charge,
        nano_usd=nano_of(amount),
        list_nano_usd=0 if kind in _CUR_DISCOUNTS else nano_of(listed) if listed else None,
        microseconds=hours_in_microseconds(hours) if is_usage and is_time else 0,
        usage_type=usage_type,
        hub=_hub(row.get("resource_tags")),
    )


def _focus_line(row: Row) -> BillLine:
    category, usage_type = _text(row, "ChargeCategory"), _text(row, "x_UsageType")
    resource_id = _resource(_text(row, "ResourceId"))
    in_hours = _text(row, "ConsumedUnit").lower() in ("hours", "hour", "hrs")
    is_time = category == "Usage" and (
        is_instance_time(usage_type) if usage_type else in_hours and resource_id.startswith("i-")
    )
    nano_usd = nano_of(_text(row, "EffectiveCost"))
    listed = _text(row, "ListCost")
    return BillLine(
        resource_id=resource_id,
        start=_instant(row["ChargePeriodStart"]),
        end=_instant(row["ChargePeriodEnd"]),
        charge=_focus_charge(category, is_time, _text(row, "PricingCategory"), nano_usd),
        nano_usd=nano_usd,
        list_nano_usd=nano_of(listed) if listed else None,
        microseconds=hours_in_microseconds(_text(row, "ConsumedQuantity")) if is_time else 0,
        usage_type=usage_type,
        hub=_hub(row.get("Tags")),
    )


def _focus_charge(category: str, is_time: bool, pricing: str, nano_usd: int) -> Charge:
    if category == "Tax":
        return Charge.TAX
    if category == "Credit" or (category == "Adjustment" and nano_usd < 0):
        return Charge.CREDIT
    if is_time:
        return Charge.DISCOUNTED if pricing == "Committed" else Charge.INSTANCE
    return Charge.OTHER_USAGE


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    return "" if value is None else str(value).strip()


def _resource(name: str) -> str:
    """The id in an ARN such as `arn:aws:ec2:us-east-1:123456789012:instance/i-0123`."""
    return name.rpartition("/")[2] if name.startswith("arn:") else name


def _instant(value: object) -> datetime:
    """UTC: exports write their instants without an offset or with a Z."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _hub(tags: object) -> str:
    """The value of our tag: AWS's exports prefix the keys of user tags, and may change their
    punctuation."""
    if isinstance(tags, str):
        if "hub" not in tags:
            return ""
        try:
            tags = json.loads(tags)
        except ValueError:
            return ""
    pairs = tags.items() if isinstance(tags, Mapping) else tags if isinstance(tags, list) else ()
    for key, value in pairs:
        plain = re.sub(r"[^a-z0-9]+", "_", str(key).lower()).removeprefix("user_")
        if plain == _HUB_KEY:
            return str(value)
    return ""
