"""What first-light counts as spent, and what as left over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.aws.templates import Template
from ec2spawner.core.instances.leaks import Kind
from ec2spawner.first_light.cleanup import remains, words
from ec2spawner.first_light.spending import Spending
from ec2spawner.provisioner.model.cloud import Instance, InstanceState, Volume
from ec2spawner.reap.rows import Account
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


def test_what_remains_is_all_that_does_not_end_by_itself() -> None:
    volume = Volume("vol-1", "us-east-1a", 1, "in-use", "i-1")
    account = Account(
        instances=[RUNNING, replace(RUNNING, instance_id="i-2", state=InstanceState.TERMINATED)],
        volumes=[volume, replace(volume, volume_id="vol-2", state="deleting")],
        templates=[Template("lt-1", "name", BEGAN)],
    )
    found = remains(account)
    assert found == {"i-1": Kind.INSTANCE, "vol-1": Kind.VOLUME, "lt-1": Kind.TEMPLATE}
    assert words(found) == "1 instance (i-1), 1 volume (vol-1), 1 launch template (lt-1)"
