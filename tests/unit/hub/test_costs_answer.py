"""The answer of `GET costs`, which may have tens of thousands of sums."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

from ec2spawner.core.ledger.cost_rows import CostSum, Dimension
from ec2spawner.hub.api.costs import Costs, costs_json

DAYS = date(2026, 11, 1), date(2026, 11, 23)
CALENDAR = date(2026, 11, 23), datetime(2026, 12, 1, tzinfo=UTC), "UTC"


def answer(*sums: CostSum) -> Costs:
    text = costs_json(DAYS, CALENDAR, [Dimension.USER, Dimension.PROFILE], sums)
    found = Costs.model_validate_json(text)
    assert json.loads(text) == found.model_dump(mode="json")
    return found


def test_it_has_all_sums_in_their_order() -> None:
    assert answer().sums == ()
    hostile = CostSum(('a"],', "\\]}"), 1_500_000_000, 0, 0, 2, 0, 0.0)
    found = answer(hostile, CostSum(("bob", "t4"), 0, 0, 0, 0, 3_600_000_000, 0.0))
    assert (found.first_day, found.last_day) == DAYS
    assert [each.key for each in found.sums] == [('a"],', "\\]}"), ("bob", "t4")]
    assert [(each.usd, each.unknown, each.hours) for each in found.sums] == [(1.5, 2, 0), (0, 0, 1)]
