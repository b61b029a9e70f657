"""What a running server could continue on, as its panel shows it."""

from __future__ import annotations

from dataclasses import replace

from ec2spawner.core.profiles.profiles import Hardware
from ec2spawner.hub.pages.spawn_page.hardware_choices import hardware_choices
from ec2spawner.wire import MAX_CHOICES, Market

from .test_spawn_page import CPU, T4, ZONES, spot

A10G = replace(
    T4,
    slug="a10g",
    name="A10G",
    offers=tuple(spot(0.31)),
    hardware=Hardware("1 × A10G, 24 GB", 4, 16.0, 250, gpu_memory_bytes=24 * 10**9),
)


def test_every_profile_but_the_servers_own_is_a_choice() -> None:
    [choice] = hardware_choices([T4, A10G], "t4").choices
    assert (choice.profile, choice.name, choice.usd_per_hour) == ("a10g", "A10G", 0.31)
    assert (choice.market, choice.is_available, choice.refusal) == (Market.SPOT, True, "")
    assert (choice.memory_bytes, choice.gpu_memory_bytes) == (16 * 2**30, 24 * 10**9)


def test_what_is_sold_out_may_be_tried_and_what_is_refused_may_not() -> None:
    gone = replace(A10G, offers=tuple(spot(0.31, out=ZONES)))
    nowhere = replace(CPU, offers=())
    refused = replace(A10G, refusals={"user:ann": "nothing is left", "project:x": "no"})
    sold_out, not_offered = hardware_choices([gone, nowhere], "t4").choices
    assert (sold_out.is_available, sold_out.refusal) == (False, "")
    assert "not offered" in not_offered.refusal
    [choice] = hardware_choices([refused], "t4", "user:ann").choices
    assert choice.refusal == "nothing is left"
    [choice] = hardware_choices([refused], "t4", "group:b").choices
    assert choice.refusal == ""


def test_the_list_is_bounded() -> None:
    many = [replace(A10G, slug=f"a{number}", name="x" * 600) for number in range(60)]
    found = hardware_choices(many, "t4").choices
    assert len(found) == MAX_CHOICES
    assert len(found[0].name) == 200
    assert len(hardware_choices(many, "t4").model_dump_json()) < 64 * 1024
