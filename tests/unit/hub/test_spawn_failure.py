"""What somebody reads whose start failed, and the links they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from ec2spawner.hub.pages.alternatives import Alternative
from ec2spawner.hub.pages.spawn_failure import blind_words, late_words, told
from ec2spawner.provisioner.model.cloud import CloudError
from ec2spawner.wire import Market, Step

A10G = Alternative(
    "a10g",
    "A10G, 24 GB",
    Market.ON_DEMAND,
    1.006,
    False,
    {"profile": "a10g", "market": "on-demand"},
)
ODD = Alternative(
    "x", '"><b>', Market.SPOT, None, False, {"profile": "x&y", "market": "spot-first"}
)


def link(user_options: Mapping[str, str]) -> str:
    return f"/hub/spawn/ann?{urlencode(user_options)}"


def test_the_text_stands_by_itself_and_the_html_says_the_same_with_links() -> None:
    failure = told("It is sold out.", [A10G], reason="capacity", link=link)
    assert failure.jupyterhub_message == (
        "It is sold out. You can start now: A10G, 24 GB, on-demand at $1.01/h."
    )
    html = failure.jupyterhub_html_message
    assert html is not None
    assert "It is sold out." in html
    assert 'href="/hub/spawn/ann?profile=a10g&amp;market=on-demand"' in html
    assert ">Start A10G, 24 GB, on-demand at $1.01/h</a>" in html
    assert (failure.status_code, failure.reason) == (503, "capacity")


def test_what_follows_a_message_begins_a_sentence() -> None:
    failure = told("There is no room", [A10G], reason="capacity", link=link)
    assert failure.jupyterhub_message.startswith("There is no room. You can start now: ")


def test_a_price_that_is_the_lowest_of_several_says_so() -> None:
    failure = told("", [replace(A10G, dearer_may_come=True)], reason="capacity", link=link)
    assert "A10G, 24 GB, on-demand from $1.01/h" in failure.jupyterhub_message


def test_nothing_else_to_start_is_not_promised() -> None:
    failure = told("It is sold out.", [], reason="capacity", link=link)
    assert failure.jupyterhub_message == "It is sold out."
    assert "You can start now" not in str(failure.jupyterhub_html_message)


def test_what_people_have_named_and_what_ec2_says_is_text() -> None:
    failure = told("<script>alert(1)</script>", [ODD], reason="quota", link=link)
    html = str(failure.jupyterhub_html_message)
    assert "<script>" not in html
    assert "<b>" not in html
    assert "price unknown" in html
    assert "profile=x%26y" in html


@pytest.mark.parametrize("step", Step)
def test_a_late_start_says_what_it_waited_for_and_what_to_do(step: Step) -> None:
    said = late_words(step, {step: 40.0}, 900)
    assert said.startswith("Your server was not ready within 15 minutes: ")
    assert " was still " in said
    assert "which usually takes 40 seconds" in said
    assert "Try again, or choose another" in said
    assert ("Its machine is given back" in said) is (step is not Step.REQUEST)
    assert "usually" not in late_words(step, {}, 900)


def test_a_start_during_which_ec2_showed_no_machine_says_so_and_who_can_mend_it() -> None:
    failure = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    said = blind_words(failure, 900)
    assert said.startswith("Your server was not ready within 15 minutes: ")
    assert "could not list its machines" in said
    assert "UnauthorizedOperation" in said
    assert said.endswith("configs/iam-policy.json")
