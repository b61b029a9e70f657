"""What a person is told before their home moves."""

from __future__ import annotations

from datetime import UTC, datetime

from ec2spawner.core.homes.zone_migration import estimate
from ec2spawner.hub.pages.spawn_failure import moving_words, told
from ec2spawner.hub.spawn.home_migration import HomeOffer, takes_words
from ec2spawner.provisioner.model.lease import Home

HOME = Home(
    "home-1", "ada", "", "ebs", 50, datetime(2026, 11, 20, tzinfo=UTC), "vol-1", "us-east-1a"
)


def test_time_and_money_are_said_beforehand_and_called_estimates() -> None:
    words = takes_words(HOME, "us-east-1b", estimate(50, 10.0))
    assert words.startswith("Your files (50 GiB in us-east-1a) can be copied to us-east-1b. ")
    assert "Estimates: 1 minute to 7 minutes, in which your server cannot run" in words
    assert "less than $0.01 for the copy" in words or "$0.01 for the copy" in words


def test_an_offer_is_a_link_on_the_page_and_an_option_in_the_text() -> None:
    offer = HomeOffer(
        "Move my files to us-east-1b & start",
        "It takes <long>.",
        {"profile": "t4", "move_home": "us-east-1b"},
    )
    failure = told(
        "Sold out.", (), [offer], reason="capacity", link=lambda options: f"/go?{options}"
    )
    assert 'Send "move_home": "us-east-1b".' in failure.jupyterhub_message
    page = failure.jupyterhub_html_message
    assert page is not None
    assert "It takes &lt;long&gt;." in page
    assert "us-east-1b &amp; start" in page
    assert "move_home" in page


def test_a_start_that_its_move_outlasted_is_told_that_it_goes_on() -> None:
    words = moving_words("us-east-1b", 900)
    assert "still being moved to us-east-1b, after 15 minutes" in words
    assert "No machine is paid for" in words
