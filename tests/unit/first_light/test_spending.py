"""What first-light counts as spent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.first_light.spending import Spending
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.wire import Market

BEGAN = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUNNING = Instance(
    "i-1", InstanceState.RUNNING, "m5.large", "us-east-1a", Market.SPOT, launched_at=BEGAN
)


def test_an_instance_costs_until_a_listing_shows_it_ended() -> None:
    spending = Spending()
    spending.note([RUNNING], BEGAN + timedelta(minutes=5), lambda _: 0.6)
    assert spending.usd(BEGAN + timedelta(minutes=10)) == pytest.approx(0.1)
    ended = replace(RUNNING, state=InstanceState.SHUTTING_DOWN)
    spending.note([ended], BEGAN + timedelta(minutes=20), lambda _: 9.9)
    spending.note([], BEGAN + timedelta(minutes=30), lambda _: 9.9)
    assert spending.usd(BEGAN + timedelta(hours=5)) == pytest.approx(0.2)


def test_the_first_minute_is_paid_whole() -> None:
    spending = Spending()
    spending.note([RUNNING], BEGAN + timedelta(seconds=1), lambda _: 0.6)
    assert spending.usd(BEGAN + timedelta(seconds=2)) == pytest.approx(0.01)
