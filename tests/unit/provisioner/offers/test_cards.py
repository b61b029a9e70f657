"""What the spawn page shows is what the provisioner knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.config import Options, Profile, validate_options
from ec2spawner.core.offers.launch_errors import LaunchError
from ec2spawner.core.pricing.price_history import Pace, PricePoint
from ec2spawner.core.profiles.choices import Choice
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.pages.spawn_page.affordable_cards import with_refusals
from ec2spawner.hub.pages.spawn_page.profile_card import Bounds, Card
from ec2spawner.hub.pages.spawn_page.profile_card_builder import SAMPLES, cards_for
from ec2spawner.hub.pages.spawn_page.profile_card_text import badge
from ec2spawner.hub.spawn.launch_spec import launch_spec
from ec2spawner.provisioner.model.cloud.image import Image
from ec2spawner.provisioner.model.cloud.launch import FleetResponse, LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.leases.lease import Home, LeaseState
from ec2spawner.provisioner.state.start_durations import StartDurations
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, World, until

ZONES = ("us-east-1a", "us-east-1b")


def options_with(*profiles: dict[str, Any], **changes: Any) -> Options:
    raw = {"region": "us-east-1", "subnets": ["subnet-a", "subnet-b"], "profile_list": profiles}
    return validate_options(raw | changes, cleanup_servers=False, environ={})


async def cards(world: World, *profiles: dict[str, Any], zones: Any = ZONES) -> tuple[Card, ...]:
    options = options_with(*profiles)
    return await cards_for(options, world.provisioner, options.profiles, zones)


T4 = {"display_name": "T4", "instance_types": ["g4dn.xlarge"]}


async def priced(world: World, **spot: float) -> None:
    """Prices of g4dn.xlarge by zone, read."""
    world.cloud.prices = {("g4dn.xlarge", zone): spot[zone[-1]] for zone in ZONES}
    world.cloud.list_prices = {"g4dn.xlarge": 0.526, "g4dn.12xlarge": 3.912}
    await world.provisioner.market.prices.refresh()


def refused(world: World, zone: str, market: Market = Market.SPOT) -> None:
    subnet = {"us-east-1a": "subnet-a", "us-east-1b": "subnet-b"}[zone]
    request = LaunchRequest("token", market, 1, SPEC, {}, offers=(("g4dn.xlarge", subnet),))
    error = LaunchError("InsufficientInstanceCapacity", "", "g4dn.xlarge", subnet, zone)
    registry = world.provisioner.market.offers
    registry.learn(request, FleetResponse((), (error,)))


async def test_the_cheapest_zone_is_the_price_and_its_week_the_line(world: World) -> None:
    now = world.clock()
    world.cloud.histories = {
        ("g4dn.xlarge", "us-east-1b"): (
            PricePoint(now - timedelta(days=7), 0.10),
            PricePoint(now - timedelta(days=3), 0.20),
        )
    }
    await world.restart()  # a running hub has read the week already
    await priced(world, a=0.25, b=0.20)
    [card] = await cards(world, T4)
    first = card.first()
    assert first is not None
    assert (first.offer.market, first.offer.zone) == (Market.SPOT, "us-east-1b")
    assert first.offer.usd_per_hour == 0.20
    assert first.source == "EC2 spot price history"
    assert card.line is not None
    assert card.line.zone == "us-east-1b"
    assert len(card.line.usd_per_hour) == SAMPLES
    assert (card.line.usd_per_hour[0], card.line.usd_per_hour[-1]) == (0.10, 0.20)
    assert card.line.steadiness.kind is Pace.STEADY
    assert card.value is not None
    beside = card.beside.usd_per_hour
    assert beside > 0, "its disk"
    assert card.value.usd_per_t4_hour == pytest.approx(0.20 + beside)


async def test_the_image_has_the_smallest_disk_to_choose(world: World) -> None:
    world.cloud.images = {"ami-9": Image("ami-9", root_gib=75)}
    await world.restart()
    await world.provisioner.market.images.current()
    bounds = {"disk_gib": {"min": 50, "max": 500}}
    [open_, fixed] = await cards(
        world,
        T4 | {"disk_gib": 60, "profile_options": bounds},
        T4 | {"display_name": "Fixed", "disk_gib": 60},
    )
    assert (open_.disk_bounds, open_.disk_gib) == (Bounds(75, 500), 75)
    assert (fixed.disk_bounds, fixed.disk_gib) == (None, 75)


async def test_prices_age(world: World) -> None:
    await priced(world, a=0.25, b=0.20)
    await world.kill()
    world.clock.advance(600)
    [card] = await cards(world, T4)
    assert {seen.age_seconds for seen in card.offers if seen.offer.market is Market.SPOT} == {600}


async def test_sold_out_zones_are_replaced_by_the_next_best_and_named(world: World) -> None:
    await priced(world, a=0.25, b=0.20)
    refused(world, "us-east-1b")
    [card] = await cards(world, T4)
    first, out = card.first(), card.sold_out(Market.SPOT)
    assert first is not None
    assert (first.offer.usd_per_hour, first.offer.zone) == (0.25, "us-east-1a")
    assert out is not None
    assert (out.zones, out.of, out.everywhere) == (("us-east-1b",), 2, False)
    assert card.line is not None
    assert card.line.zone == "us-east-1a"

    refused(world, "us-east-1a")
    [card] = await cards(world, T4)
    first = card.first()
    assert first is not None
    assert first.offer.market is Market.ON_DEMAND
    assert not card.nothing_left()
    assert card.nothing_left("spot-only")


async def test_a_home_bound_to_a_zone_sees_that_zone(world: World) -> None:
    await priced(world, a=0.25, b=0.20)
    [card] = await cards(world, T4, zones=["us-east-1a"])
    first = card.first()
    assert first is not None
    assert first.offer.usd_per_hour == 0.25
    assert world.provisioner.homes.zones_for("ann", "") == set(ZONES)


async def test_a_profile_without_any_zone_keeps_its_card(world: World) -> None:
    world.cloud.not_offered = {("g4dn.xlarge", zone) for zone in ZONES}
    await world.provisioner.market.catalogue.refresh()
    [card] = await cards(world, T4)
    assert not card.is_offered
    assert card.hardware.gpu_text == "1 × T4, 16 GB"


@pytest.mark.parametrize("home", ["ebs", "efs"])
async def test_a_type_that_takes_too_few_volumes_is_refused_with_the_reason(
    world: World, home: str
) -> None:
    """EC2 attaches 9 to a g5.48xlarge: its own disk, a home and seven data sets."""
    few = replace(world.cloud.types["g4dn.xlarge"], max_volumes=3)
    world.cloud.types["g4dn.xlarge"] = few
    await world.provisioner.market.catalogue.refresh()
    homes = {"kind": home, **({"file_system": "fs-0a1b2c3d"} if home == "efs" else {})}
    data = [{"snapshot": f"snap-0a1b2c3{n}", "path": f"/data/{n}"} for n in range(2)]
    options = options_with(T4, home=homes, data_volumes=data, image="ami-9")
    [card] = await cards_for(options, world.provisioner, options.profiles, ZONES)

    def start() -> LaunchSpec:
        choice = Choice(options.profiles[0], (Market.SPOT,))
        subnets = ("subnet-a", "subnet-b")
        return launch_spec(choice, subnets, Image("ami-9"), options, world.provisioner, "")

    if home == "efs":
        assert (card.unusable, card.is_offered) == ("", True)
        assert start().instance_types == ("g4dn.xlarge",)
        return
    assert "at most 3 EBS volumes to g4dn.xlarge, and a server needs 4" in card.unusable
    assert (badge(card), card.is_offered) == ("not usable", False)
    assert card.hardware.gpu_text == "1 × T4, 16 GB"
    with pytest.raises(SpawnError, match="at most 3 EBS volumes") as refused:
        start()
    assert refused.value.reason == "volumes"


async def test_a_type_on_xen_is_refused_before_ec2_has_described_it(world: World) -> None:
    """A function of the user may return it: no check has seen it."""
    named = {"display_name": "Old", "instance_types": ["t2.micro"]}
    options = replace_profiles(options_with(T4), named)
    [card] = await cards_for(options, world.provisioner, options.profiles, ZONES)
    assert not card.is_offered
    choice = Choice(options.profiles[0], (Market.SPOT,))
    with pytest.raises(SpawnError, match="not on AWS's Nitro System"):
        launch_spec(choice, ("subnet-a",), Image("ami-9"), options, world.provisioner, "")


def replace_profiles(options: Options, *profiles: dict[str, Any]) -> Options:
    """As a function of the user gives them: not judged together with other options."""
    found = tuple(map(Profile.model_validate, profiles))
    return options.model_copy(update={"profile_list": found})


async def test_an_unknown_type_is_requested(world: World) -> None:
    """The list of profiles may be a function: then only a page says which types matter."""
    new = {"display_name": "New", "instance_types": ["g9x.xlarge"]}
    await until(lambda: world.provisioner.market.catalogue.read_at, "the first answer")
    world.cloud.types["g9x.xlarge"] = replace(world.cloud.types["g4dn.xlarge"], name="g9x.xlarge")
    [card] = await cards(world, new)
    assert not card.is_offered
    await until(lambda: "g9x.xlarge" in world.provisioner.market.catalogue.types, "to be asked for")
    [card] = await cards(world, new)
    assert card.is_offered
    assert card.hardware.gpu_text == "1 × T4, 16 GB"


async def test_several_gpus_are_compared_with_one(world: World) -> None:
    await priced(world, a=0.25, b=0.20)
    [card] = await cards(world, {"display_name": "4 x T4", "instance_types": ["g4dn.12xlarge"]})
    assert card.several is not None
    assert card.several.times_the_work == pytest.approx(2.92, abs=0.01)
    assert card.several.times_the_price == pytest.approx(3.912 / 0.526)


async def test_without_a_choice_of_spot_there_is_no_line(world: World) -> None:
    await priced(world, a=0.25, b=0.20)
    safe = {**T4, "market": "on-demand"}
    [fixed] = await cards(world, safe)
    assert fixed.line is None
    [open_] = await cards(world, {**safe, "profile_options": {"market": ["spot-first"]}})
    assert open_.line is not None


async def test_many_cards_do_not_block_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    async def at_once(_: StartDurations, _profiles: Iterable[str]) -> Mapping[str, float]:
        return {}  # without the store, which lets others run anyway

    monkeypatch.setattr(StartDurations, "of_starts", at_once)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    before = turns
    many = [{**T4, "slug": f"p{number}"} for number in range(30)]
    assert len(await cards(world, *many)) == 30
    task.cancel()
    assert turns - before >= 30


# --- a home that is in one zone --------------------------------------------------------------


async def files_in_a(world: World) -> Home:
    lease, agent = await world.ready(home_kind="ebs", spec=replace(SPEC, subnets=("subnet-a",)))
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    assert home.zone == "us-east-1a"
    return home


async def card_at(world: World, home: Home, **home_options: Any) -> Card:
    options = options_with(T4, home=home_options)
    zones = ("us-east-1a",)
    [card] = await cards_for(options, world.provisioner, options.profiles, zones, home)
    return card


async def test_a_zone_that_is_much_cheaper_than_the_homes_is_named(world: World) -> None:
    home = await files_in_a(world)
    await priced(world, a=0.49, b=0.29)
    card = await card_at(world, home)
    assert card.elsewhere is not None
    assert (card.elsewhere.home_zone, card.elsewhere.zone) == ("us-east-1a", "us-east-1b")
    moved = card.moved()
    first = moved.first() if moved else None
    assert first is not None
    assert first.offer.usd_per_hour == 0.29
    assert "in which your server cannot run" in card.elsewhere.takes
    assert (await card_at(world, home, move="never")).elsewhere is None


async def test_a_move_that_gains_little_is_not_named_while_the_homes_zone_has_some(
    world: World,
) -> None:
    home = await files_in_a(world)
    await priced(world, a=0.30, b=0.29)
    assert (await card_at(world, home)).elsewhere is None
    for market in Market:
        refused(world, "us-east-1a", market)
    card = await card_at(world, home)
    assert card.elsewhere is not None
    assert card.elsewhere.zone == "us-east-1b"
    for market in Market:
        refused(world, "us-east-1b", market)
    assert (await card_at(world, home)).elsewhere is None, "no other zone has any"


async def test_a_profile_that_stops_within_the_hour_needs_less_of_a_limit(world: World) -> None:
    short = T4 | {"display_name": "Short", "idle": {"max_age": "10m"}}
    limits = {"user": {"usd_per_month": 0.1}}
    options = options_with(T4, short, limits=limits)
    await world.restart(limits=options.limits.limits())
    await priced(world, a=0.25, b=0.20)
    found = await cards_for(options, world.provisioner, options.profiles, ZONES)
    judged = await with_refusals(found, options, world.provisioner, "ada", "", ["user:ada"])
    assert [card.cannot_start for card in judged] == [True, False]
