"""What a user reads before and while their home moves."""

from __future__ import annotations

from datetime import UTC, datetime

from ec2spawner.core.homes.zone_migration import estimate
from ec2spawner.hub.failure.diagnosis import still_moving
from ec2spawner.hub.spawn.home_migration import move_text
from ec2spawner.provisioner.model.leases.lease import Home

HOME = Home(
    "home-1", "ada", "", "ebs", 50, datetime(2026, 11, 20, tzinfo=UTC), "vol-1", "us-east-1a"
)


def test_time_and_money_are_named_beforehand_and_called_estimates() -> None:
    words = move_text(HOME, "us-east-1b", estimate(50, 10.0))
    assert words.startswith("Your files (50 GiB in us-east-1a) can be copied to us-east-1b. ")
    assert "Estimates: 1 minute to 7 minutes, in which your server cannot run" in words
    assert "less than $0.01 for the copy" in words or "$0.01 for the copy" in words


def test_a_start_that_timed_out_during_a_move_names_zone_and_timeout() -> None:
    words = still_moving("us-east-1b", 900)
    assert "us-east-1b" in words
    assert "15 minutes" in words
