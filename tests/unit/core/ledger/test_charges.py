"""What a segment costs at one instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.core.ledger.charges import rate
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.wire import Market

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "usd_per_hour"),
    [(DECEMBER - timedelta(minutes=1), 7.2 / 720), (DECEMBER, 7.2 / 744)],
)
def test_the_rate_of_a_disk_is_that_of_the_month_also_in_its_last_hour(
    now: datetime, usd_per_hour: float
) -> None:
    disk = Segment("i-1", Market.SPOT, 0.0, DECEMBER - timedelta(days=1), disk_usd_per_month=7.2)
    assert rate(disk, now).usd_per_hour == pytest.approx(usd_per_hour, rel=1e-9)
