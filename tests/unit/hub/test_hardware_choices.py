"""What a running server could continue on, as its panel shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ec2spawner.agent_socket import MAX_LINE
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.pricing.beside import Beside
from ec2spawner.core.profiles.profiles import Hardware
from ec2spawner.hub.pages.spawn_page.hardware_choices import hardware_choices
from ec2spawner.wire import MAX_CHOICES, Market
from tests import stored

from .test_spawn_page import CPU, T4, ZONES, spot

A10G = replace(
    T4,
    slug="a10g",
    name="A10G",
    offers=tuple(spot(0.31)),
    hardware=Hardware("1 × A10G, 24 GB", 4, 16.0, 250, gpu_memory_bytes=24 * 10**9),
)

LEASE = stored.lease(profile="t4")
ADA = "user:ada"


def test_every_profile_but_the_servers_own_is_a_choice() -> None:
    found = hardware_choices([T4, A10G], LEASE, ADA)
    [choice] = found.choices
    assert found.own is not None
    assert found.own.profile == "t4"
    assert hardware_choices([A10G], LEASE, ADA).own is None
    assert (choice.profile, choice.name, choice.usd_per_hour) == ("a10g", "A10G", 0.31)
    assert (choice.market, choice.is_available, choice.refusal) == (Market.SPOT, True, "")
    assert (choice.memory_bytes, choice.gpu_memory_bytes) == (16 * 2**30, 24 * 10**9)


def test_a_choice_costs_what_the_panel_shows_afterwards() -> None:
    [choice] = hardware_choices([replace(A10G, beside=Beside(0.075, 0.025))], LEASE, ADA).choices
    assert choice.usd_per_hour == pytest.approx(0.41)


def test_what_is_sold_out_may_be_tried_and_what_is_refused_may_not() -> None:
    gone = replace(A10G, offers=tuple(spot(0.31, out=ZONES)))
    nowhere = replace(CPU, offers=())
    sold_out, not_offered = hardware_choices([gone, nowhere], LEASE, ADA).choices
    assert (sold_out.is_available, sold_out.refusal) == (False, "")
    assert "not offered" in not_offered.refusal


def test_only_what_the_payer_of_the_server_cannot_pay_for_is_refused() -> None:
    """Everyone with access to the server can ask, and reads nothing of its user's other payers."""
    refused = replace(A10G, refusals={"user:ada": "nothing is left", "group:x": "no"})
    for card in (refused, replace(refused, slug="t4")):
        found = hardware_choices([card], LEASE, ADA)
        assert (found.own or found.choices[0]).refusal == "nothing is left"
        assert "group:x" not in found.model_dump_json()
    assert hardware_choices([refused], LEASE, "group:b").choices[0].refusal == ""


def test_the_list_is_bounded() -> None:
    """By cards, and by the length of each refusal."""
    refused = replace(A10G, name="x" * 600, refusals={ADA: "é" * 20_000})
    cards = [replace(refused, slug=f"a{number}") for number in range(1200)]
    found = hardware_choices(cards, LEASE, ADA)
    assert len(found.choices) == MAX_CHOICES
    assert len(found.choices[0].name) == 200
    assert len(found.model_dump_json().encode()) < MAX_LINE


@pytest.mark.parametrize(
    ("market", "then", "on_retained", "deletes_disk"),
    [
        (Market.ON_DEMAND, "stop", False, True),
        (Market.SPOT, "stop", False, False),
        (Market.ON_DEMAND, "linger", False, False),
        (Market.ON_DEMAND, "terminate", True, True),
    ],
)
def test_a_disk_that_a_stop_would_keep_is_deleted(
    market: Market, then: str, on_retained: bool, deletes_disk: bool
) -> None:
    lease = replace(
        LEASE,
        segments=(Segment("i-1", market, 0.5, stored.NOW),),
        after_stop=AfterStop(then, 86400.0, 1),  # type: ignore[arg-type]
        on_retained=on_retained,
    )
    assert hardware_choices([A10G], lease, ADA).deletes_disk is deletes_disk
