"""Unused places of capacity reservations are overhead: with the leases they are the bill."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.ledger.cost_rows import HUB, Dimension
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.provisioner.instances.unused_reservations import INTERVAL
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.offers.reserved_capacity import TRUSTED_FOR
from tests.unit.provisioner.costs import costs, spent
from tests.unit.provisioner.world import World, until

T4, A = "g4dn.xlarge", "us-east-1a"
ID = "cr-0000000a"
TWO = CapacityReservation(ID, T4, A, total=2, available=2)
CHOICE = ReservationChoice(frozenset({ID}))
LIST = 0.526
"""USD/hour of a T4 on demand."""


async def reserved(world: World, reservation: CapacityReservation = TWO, **settings: Any) -> None:
    """The hub has begun to count."""
    world.cloud.capacity_reserved = {reservation.reservation_id: reservation}
    await world.restart(capacity_reservations=CHOICE, **settings)
    await counting(world)


async def counting(world: World) -> None:
    await until(lambda: world.provisioner.market.reserved.listed_at, "reservations listed")
    await world.complete_passes(2)


async def unused(world: World) -> float:
    """USD in the ledger."""
    found = await costs(world, Dimension.CAUSE)
    return sum(x.nano_usd for key, x in found.items() if key == ("unused-reservation",)) / 1e9


async def total(world: World) -> float:
    return sum(each.nano_usd for each in (await costs(world)).values()) / 1e9


async def test_unused_places_cost_the_list_price_from_when_the_hub_sees_them(
    priced: World,
) -> None:
    world = priced
    await reserved(world)
    world.clock.advance(3600)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(2 * LIST, rel=1e-6)
    assert spent(world, HUB).usd == pytest.approx(2 * LIST, rel=1e-6)


async def test_leases_and_unused_places_add_up_to_the_price_of_the_reservation(
    priced: World,
) -> None:
    """A lease pays from its launch; the place counts as unused until then, and after its end."""
    world = priced
    await reserved(world)
    world.silence_agents()
    began = world.clock()
    world.clock.advance(600)
    await world.complete_passes(1)
    lease, agent = await world.ready("ada")
    await world.complete_passes(1)
    await agent.heartbeat_often(3600)
    await world.provisioner.market.reserved.refresh()
    await world.complete_passes(1)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    world.clock.advance(600)
    await world.complete_passes(2)
    hours = (world.clock() - began).total_seconds() / 3600
    assert await total(world) == pytest.approx(2 * LIST * hours, rel=1e-3)
    by_payer = {
        key[0]: each.nano_usd / 1e9 for key, each in (await costs(world, Dimension.PAYER)).items()
    }
    assert by_payer["user:ada"] == pytest.approx(LIST, rel=1e-2)


async def test_it_is_stored_while_it_lasts_and_once(priced: World) -> None:
    world = priced
    await reserved(world)
    for _ in range(4):
        async with world.no_pass:  # one under way would store up to when it began
            world.clock.advance(INTERVAL)
        await world.complete_passes(1)
    assert await unused(world) == pytest.approx(2 * LIST * 4 * INTERVAL / 3600, rel=1e-6)


async def test_time_without_a_hub_is_counted_by_the_next_one(priced: World) -> None:
    world = priced
    await reserved(world)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    await world.kill()
    world.clock.advance(7200)
    await world.start()
    await counting(world)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(2 * LIST * (7200 + 2 * INTERVAL) / 3600, rel=1e-6)


async def listed_again(world: World, *reservations: CapacityReservation) -> None:
    world.cloud.capacity_reserved = {each.reservation_id: each for each in reservations}
    await world.provisioner.market.reserved.refresh()
    await world.complete_passes(2)


async def test_time_in_which_the_hub_did_not_use_the_reservation_is_not_counted(
    priced: World,
) -> None:
    world = priced
    await reserved(world)
    world.clock.advance(INTERVAL)
    await listed_again(world)
    world.clock.advance(7200)
    await listed_again(world, TWO)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(2 * LIST * 2 * INTERVAL / 3600, rel=1e-6)


async def test_a_listing_that_lacks_a_reservation_for_once_leaves_no_gap(priced: World) -> None:
    world = priced
    await reserved(world)
    world.clock.advance(INTERVAL)
    await listed_again(world)
    world.clock.advance(120)
    await listed_again(world, TWO)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(2 * LIST * (2 * INTERVAL + 120) / 3600, rel=1e-6)


async def test_time_in_which_an_earlier_hub_was_configured_without_it_is_not_counted(
    priced: World,
) -> None:
    world = priced
    await reserved(world)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    await world.restart(capacity_reservations=ReservationChoice())
    world.clock.advance(7200)
    ran_until = world.clock()
    await world.kill()
    world.run_sql(f"UPDATE store SET storage_counted_until = '{ran_until:%Y-%m-%d %H:%M:%S}'")
    await world.start(capacity_reservations=CHOICE)
    await counting(world)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(2 * LIST * 2 * INTERVAL / 3600, rel=1e-6)


async def test_a_place_of_a_discount_is_given_to_one_reservation_only(priced: World) -> None:
    world = priced
    second = replace(TWO, reservation_id="cr-0000000b")
    world.cloud.capacity_reserved = {each.reservation_id: each for each in (TWO, second)}
    choice = ReservationChoice(frozenset({ID, second.reservation_id}))
    await world.restart(capacity_reservations=choice, discounts=(Discount(T4, 0.3, 2),))
    await counting(world)
    world.clock.advance(3600)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(2 * LIST + 2 * 0.3, rel=1e-6)


async def test_while_listings_fail_for_long_the_price_is_unknown_and_then_learned(
    priced: World,
) -> None:
    """Somebody may have cancelled the reservation meanwhile."""
    world = priced
    await reserved(world)
    world.clock.advance(TRUSTED_FOR + 1)
    await world.complete_passes(2)
    world.clock.advance(7200)
    await world.complete_passes(2)
    found = await costs(world, Dimension.CAUSE)
    [places] = [x for key, x in found.items() if key == ("unused-reservation",)]
    assert places.nano_usd / 1e9 == pytest.approx(2 * LIST * TRUSTED_FOR / 3600, rel=1e-2)
    assert places.assumed_nano_usd / 1e9 == pytest.approx(2 * LIST * 2, rel=1e-2)
    await listed_again(world, TWO)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    hours = (TRUSTED_FOR + 1 + 7200 + INTERVAL) / 3600
    assert await unused(world) == pytest.approx(2 * LIST * hours, rel=1e-3)


async def test_a_reservation_that_ends_costs_no_more(priced: World) -> None:
    world = priced
    await reserved(
        world,
        CapacityReservation(ID, T4, A, 2, 2, ends_at=world.clock() + timedelta(hours=1)),
    )
    world.clock.advance(3600)
    await world.complete_passes(2)
    at_its_end = await unused(world)
    world.clock.advance(7200)
    await world.complete_passes(2)
    assert await unused(world) == at_its_end == pytest.approx(2 * LIST, rel=1e-6)


async def test_a_discount_that_is_left_covers_unused_places(priced: World) -> None:
    world = priced
    await reserved(world, discounts=(Discount(T4, 0.3, 1),))
    world.clock.advance(3600)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(LIST + 0.3, rel=1e-6)


async def test_without_reservations_nothing_is_counted(priced: World) -> None:
    world = priced
    world.clock.advance(3600)
    await world.complete_passes(2)
    assert await total(world) == 0


# --- Capacity Blocks -------------------------------------------------------------------------

PAID = 96.0
"""USD for a block of two places and a day: 2 USD/hour each."""
DAY = timedelta(days=1)


async def with_block(world: World, begun: timedelta, **settings: Any) -> CapacityReservation:
    """The hub counts a block that has begun so long ago."""
    begins_at = world.clock() - begun
    block = replace(TWO, is_block=True, begins_at=begins_at, ends_at=begins_at + DAY)
    world.cloud.capacity_reserved = {ID: block}
    choice = ReservationChoice(blocks={ID: PAID})
    await world.restart(capacity_reservations=choice, **settings)
    await counting(world)
    return block


async def test_a_block_costs_what_was_paid_for_it_and_no_more(priced: World) -> None:
    """From its beginning, before the hub saw it, to its end, which a late pass sees."""
    world = priced
    await with_block(world, timedelta(minutes=7))
    world.clock.advance(12 * 3600)
    await world.complete_passes(2)
    world.clock.advance(13 * 3600)
    await world.complete_passes(3)
    assert await unused(world) == pytest.approx(PAID, rel=1e-6)
    world.clock.advance(3600)
    await world.complete_passes(2)
    assert await unused(world) == pytest.approx(PAID, rel=1e-6)


async def test_leases_in_a_block_and_its_unused_places_are_what_was_paid(priced: World) -> None:
    world = priced
    block = await with_block(world, timedelta(minutes=1), discounts=(Discount(T4, 0.3, 2),))
    world.silence_agents()
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(5 * 3600, every=600.0)
    await world.provisioner.market.reserved.refresh()
    await world.complete_passes(1)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert block.ends_at is not None
    while world.clock() < block.ends_at:
        world.clock.advance(3600)
        await world.complete_passes(2)
    found = await costs(world, Dimension.PAYER)
    by_payer = {key[0]: each.nano_usd / 1e9 for key, each in found.items()}
    assert by_payer["user:ada"] == pytest.approx(10.0, rel=1e-2)
    assert await total(world) == pytest.approx(PAID, rel=1e-3)


async def test_after_a_restart_a_block_is_counted_once(priced: World) -> None:
    """Also where the hub ran for long without it, and it was not counted."""
    world = priced
    block = await with_block(world, timedelta(hours=1))
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    await world.restart(capacity_reservations=ReservationChoice())
    world.clock.advance(4 * 3600)
    await world.complete_passes(2)
    await world.restart(capacity_reservations=ReservationChoice(blocks={ID: PAID}))
    await counting(world)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    assert block.begins_at is not None
    hours = (world.clock() - block.begins_at).total_seconds() / 3600
    assert await unused(world) == pytest.approx(4 * hours, rel=1e-6)


async def test_a_block_that_a_first_listing_lacked_is_counted_once(priced: World) -> None:
    world = priced
    block = await with_block(world, timedelta(hours=1))
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    one = replace(block, available=1)
    changed_at = world.clock()
    world.cloud.capacity_reserved = {ID: one}
    await world.provisioner.market.reserved.refresh()
    await world.complete_passes(2)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    world.cloud.capacity_reserved = {}
    await world.restart(capacity_reservations=ReservationChoice(blocks={ID: PAID}))
    await until(lambda: world.provisioner.market.reserved.listed_at, "a listing without it")
    await world.complete_passes(2)
    world.cloud.capacity_reserved = {ID: one}
    await world.provisioner.market.reserved.refresh()
    await world.complete_passes(2)
    world.clock.advance(INTERVAL)
    await world.complete_passes(2)
    assert block.begins_at is not None
    two = (changed_at - block.begins_at).total_seconds() / 3600
    later = (world.clock() - changed_at).total_seconds() / 3600
    assert await unused(world) == pytest.approx(4 * two + 2 * later, rel=1e-6)


async def test_all_of_a_block_is_unused_once_ec2_reclaims_its_instances(priced: World) -> None:
    """Whatever EC2 lists as available until its end."""
    world = priced
    block = await with_block(world, timedelta(hours=23))
    world.cloud.capacity_reserved = {ID: replace(block, available=0)}
    await world.provisioner.market.reserved.refresh()
    await world.complete_passes(2)
    before = await unused(world)
    world.clock.advance(1800)
    await world.complete_passes(2)
    world.clock.advance(1800)
    await world.complete_passes(3)
    assert await unused(world) - before == pytest.approx(2.0, rel=1e-2)
