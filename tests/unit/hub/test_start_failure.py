"""A failed start, rendered: why there is no server, and what its user can start instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from ec2spawner.hub.failure.alternatives import Alternative
from ec2spawner.hub.failure.diagnosis import late, not_listed, start_other
from ec2spawner.hub.failure.rendering import as_html, as_text, spawn_error
from ec2spawner.hub.failure.start_failure import Action, ActionKind, StartFailure
from ec2spawner.provisioner.model.cloud.cloud import CloudError
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
MOVE = Action(
    ActionKind.MOVE_HOME,
    "Move my files to us-east-1b & start",
    {"profile": "t4", "move_home": "us-east-1b"},
    "It takes <long>.",
)


def link(user_options: Mapping[str, str]) -> str:
    return f"/hub/spawn/ann?{urlencode(user_options)}"


def failure(message: str, *others: Alternative, reason: str = "capacity") -> StartFailure:
    return StartFailure(reason, message, tuple(map(start_other, others)))


def test_the_text_is_complete_without_the_page_and_the_html_has_links() -> None:
    error = spawn_error(failure("It is sold out.", A10G), link)
    assert error.jupyterhub_message == (
        "It is sold out. You can start now: A10G, 24 GB, on-demand at $1.01/h."
    )
    html = error.jupyterhub_html_message
    assert html is not None
    assert "It is sold out." in html
    assert 'href="/hub/spawn/ann?profile=a10g&amp;market=on-demand"' in html
    assert ">Start A10G, 24 GB, on-demand at $1.01/h</a>" in html
    assert (error.status_code, error.reason) == (503, "capacity")


def test_actions_follow_the_message_as_a_sentence() -> None:
    assert as_text(failure("There is no room", A10G)).startswith("There is no room. You can ")


def test_a_lowest_price_is_prefixed_with_from() -> None:
    label = start_other(replace(A10G, may_cost_more=True)).label
    assert label == "A10G, 24 GB, on-demand from $1.01/h"


def test_without_actions_there_is_only_the_message() -> None:
    assert as_text(failure("It is sold out.")) == "It is sold out."
    assert "<a" not in as_html(failure("It is sold out."), link)


def test_names_and_ec2_messages_are_escaped_in_html() -> None:
    html = as_html(failure("<script>alert(1)</script>", ODD, reason="quota"), link)
    assert "<script>" not in html
    assert "<b>" not in html
    assert "price unknown" in html
    assert "profile=x%26y" in html


def test_a_home_action_is_a_link_on_the_page_and_an_option_in_the_text() -> None:
    no_capacity = StartFailure("capacity", "Sold out.", (MOVE,))
    assert 'Send "move_home": "us-east-1b".' in as_text(no_capacity)
    html = as_html(no_capacity, link)
    assert "It takes &lt;long&gt;." in html
    assert "us-east-1b &amp; start" in html
    assert "move_home=us-east-1b" in html


@pytest.mark.parametrize("step", Step)
def test_a_timeout_names_the_step_its_usual_time_and_the_timeout(step: Step) -> None:
    message = late(step, {step: 40.0}, 900)
    assert "15 minutes" in message
    assert "40 seconds" in message
    assert ("released" in message) is (step is not Step.REQUEST)
    assert "usually" not in late(step, {}, 900)


def test_a_timeout_without_listings_names_the_error_and_its_fix() -> None:
    error = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    message = not_listed(error, 900)
    assert "15 minutes" in message
    assert "UnauthorizedOperation" in message
    assert message.endswith("configs/iam-policy.json")
