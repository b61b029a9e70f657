"""What a user reads of a home that begins as a copy."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.config import Options
from ec2spawner.hub.failure.diagnosis import still_copying
from ec2spawner.hub.pages.spawn_page.profile_card_builder import copy_sentence
from ec2spawner.hub.spawn.sleep_choice import was_copied
from ec2spawner.provisioner.model.leases.lease import Home

SOURCE = Home(
    "home-1", "ada", "", "ebs", 50, datetime(2026, 11, 2, tzinfo=UTC), "vol-1", "us-east-1a"
)
PENDING = replace(
    SOURCE,
    home_id="home-2",
    server="gpu",
    volume_id=None,
    made_from="vol-1",
    created_at=datetime(2026, 11, 20, 9, 2, tzinfo=UTC),
)
COPIED = replace(PENDING, volume_id="vol-2")
OWN = replace(COPIED, made_from="")
RESTORED = replace(COPIED, made_from="snap-1", created_at=datetime(2026, 12, 20, tzinfo=UTC))

BEGIN = "They begin as a copy of the files of your default server, as they are when you start"
BEGAN = (
    "They began as a copy of the files of your default server, as of 20 November 2026, 09:02 UTC"
)


def options(**home: Any) -> Options:
    return Options(region="us-east-1", subnets=["subnet-1"], home=home)


@pytest.mark.parametrize(
    ("server", "home", "source", "says"),
    [
        ("gpu", None, SOURCE, BEGIN),
        ("gpu", PENDING, SOURCE, BEGIN),
        ("gpu", COPIED, SOURCE, BEGAN),
        ("gpu", COPIED, None, BEGAN),
        ("gpu", OWN, SOURCE, ""),
        ("gpu", None, None, ""),
        ("", None, SOURCE, ""),
        ("", SOURCE, SOURCE, ""),
    ],
)
def test_the_spawn_page_says_that_files_are_a_copy_and_of_when(
    server: str, home: Home | None, source: Home | None, says: str
) -> None:
    said = copy_sentence(options(named_servers="copy"), server, home, source)
    assert said.startswith(says)
    assert bool(said) == bool(says)


def test_a_hub_that_copies_no_homes_says_so_only_of_earlier_copies() -> None:
    assert copy_sentence(options(), "gpu", None, SOURCE) == ""
    assert copy_sentence(options(), "gpu", COPIED, SOURCE).startswith(BEGAN)
    assert copy_sentence(options(kind="none"), "gpu", None, SOURCE) == ""


@pytest.mark.parametrize(
    ("home", "slept_at", "is_copied"),
    [
        (None, None, True),
        (PENDING, None, True),
        (COPIED, None, True),
        (COPIED, COPIED.created_at - timedelta(days=1), True),
        (COPIED, COPIED.created_at + timedelta(days=1), False),
        (RESTORED, COPIED.created_at + timedelta(days=1), True),
        (RESTORED, RESTORED.created_at + timedelta(days=1), False),
        (replace(RESTORED, server=""), None, False),
        (OWN, OWN.created_at + timedelta(days=1), False),
        (OWN, OWN.created_at - timedelta(days=1), False),
    ],
)
def test_a_session_that_was_copied_is_not_woken(
    home: Home | None, slept_at: datetime | None, is_copied: bool
) -> None:
    assert was_copied(home, slept_at, begins=True) == is_copied
    assert was_copied(home, slept_at, begins=False) == (is_copied and home is not None)


def test_a_home_whose_record_was_lost_counts_as_a_copy_where_homes_are_copied() -> None:
    assert was_copied(OWN, None, begins=True)
    assert not was_copied(OWN, None, begins=False)
    assert not was_copied(replace(OWN, server=""), None, begins=False)


def test_a_start_that_timed_out_during_a_copy_says_that_no_machine_runs() -> None:
    words = still_copying(900)
    assert "15 minutes" in words
    assert "none is charged" in words
