"""What it costs to keep a session."""

from __future__ import annotations

import pytest

from ec2spawner.core.sleep.cost import usd_per_day


def test_a_session_costs_its_share_of_the_disk() -> None:
    assert usd_per_day(3 * 2**30, 0.08) == pytest.approx(3 * 0.08 * 12 / 365)
    assert usd_per_day(0, 0.08) == 0
    assert usd_per_day(3 * 2**30, None) is None, "unknown is not free"
