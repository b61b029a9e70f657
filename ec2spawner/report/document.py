"""A report for programs: one JSON object, documented in docs/how-to/report.md. Pure."""

from __future__ import annotations

import json
from typing import Any

from ..core.ledger.cost_lines import AMOUNTS, CostLine, amounts
from .contents import DIMENSIONS, Report
from .discount_use import DiscountUse
from .reconciled import Reconciled
from .wording import exact


def report_json(report: Report, reconciled: Reconciled | None = None) -> str:
    """One line. Amounts in USD; null is unknown."""
    scope = report.scope
    names = [DIMENSIONS[name].value for name in scope.by]
    found: dict[str, Any] = {
        "hub": scope.hub,
        "from": scope.since.isoformat(),
        "to": scope.until.isoformat(),
        "time_zone": scope.time_zone,
        "made_at": report.made_at.isoformat(),
        "currency": "USD",
        "estimate": True,
        "user": scope.user or None,
        "by": names,
        "rows": [dict(zip(names, line.key, strict=True)) | _line(line) for line in report.lines],
        "total": _line(report.total),
        "overhead": {cause: exact(nano) for cause, nano in report.overhead.items()},
        "days": [{"day": line.key[0]} | _line(line) for line in report.days],
        "discounts": [_discount(each) for each in report.discounts],
    }
    if reconciled is not None:
        found["reconciliation"] = _reconciliation(reconciled)
    return json.dumps(found)


def _line(line: CostLine) -> dict[str, Any]:
    return dict(zip(AMOUNTS, amounts(line), strict=True))


def _discount(each: DiscountUse) -> dict[str, Any]:
    def maybe(nano_usd: int | None) -> float | None:
        return None if nano_usd is None else exact(nano_usd)

    discount = each.discount
    return {
        "instance_type": discount.instance_type,
        "zone": discount.zone or None,
        "count": discount.count,
        "usd_per_hour": discount.usd_per_hour,
        "since": discount.since.isoformat() if discount.since else None,
        "until": discount.until.isoformat() if discount.until else None,
        "covered_hours": each.covered / 3.6e9,
        "used_hours": each.used / 3.6e9,
        "unused_hours": each.unused / 3.6e9,
        "paid_usd": exact(each.paid_nano_usd),
        "replaced_usd": maybe(each.replaced_nano_usd),
        "one_more_usd": exact(each.one_more_nano_usd),
        "one_more_saves_usd": maybe(each.one_more_saves_nano_usd),
    }


def _reconciliation(found: Reconciled) -> dict[str, Any]:
    result = found.result
    return {
        "from": result.period.start.isoformat(),
        "to": result.period.end.isoformat(),
        "bill": found.source,
        "bill_ends": result.bill_ends.isoformat() if result.bill_ends else None,
        "recorded_usd": exact(sum(each.recorded for each in result.instances)),
        "billed_usd": exact(sum(each.billed for each in result.instances)),
        "differences": {part.reason.value: exact(part.nano_usd) for part in result.parts},
        "instances": [
            {
                "instance_id": each.instance_id,
                "instance_type": each.instance_type,
                "recorded_usd": exact(each.recorded),
                "billed_usd": exact(each.billed),
                "recorded_hours": each.recorded_microseconds / 3.6e9,
                "billed_hours": each.billed_microseconds / 3.6e9,
                "settled": each.is_settled,
                "differences": {part.reason.value: exact(part.nano_usd) for part in each.parts},
            }
            for each in result.instances
        ],
        "other_resources": {kind: exact(nano) for kind, nano in result.other_resources.items()},
        "account_wide": {charge.value: exact(nano) for charge, nano in result.account_wide.items()},
    }
