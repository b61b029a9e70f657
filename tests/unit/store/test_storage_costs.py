"""What homes hold is added to the ledger once, in either database, also if a response is lost."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from ec2spawner.core.ledger.cost_rows import CostSum, Dimension, Resource
from ec2spawner.core.ledger.storage.costs import storage_nano_usd
from ec2spawner.core.ledger.storage.held import MIB, Counted, Owner, Stored, held_between
from ec2spawner.provisioner.store.databases.database import StoreError
from ec2spawner.provisioner.store.store import Store

ADA, BOB = Owner("ada", "", "user:ada"), Owner("bob", "lab", "group:research")
BEGIN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
PRICES = {(Resource.HOME, "gp3"): 0.08, (Resource.SNAPSHOT, ""): 0.05}
UNKNOWN = dict.fromkeys(PRICES)
HOMES = (
    Stored("vol-1", "home-1", Resource.HOME, 100 * MIB, BEGIN, ADA, "gp3", "us-east-1a"),
    Stored("snap-1", "home-1", Resource.SNAPSHOT, 30 * MIB, BEGIN + 2 * HOUR, ADA),
    Stored("vol-2", "home-2", Resource.HOME, 50 * MIB, BEGIN, BOB, "gp3", "us-east-1b"),
)
EVER = date(2000, 1, 1), date(2100, 1, 1)


def counted(since: int, until: int) -> Counted:
    """The hours of one day."""
    start, end = BEGIN + since * HOUR, BEGIN + until * HOUR
    return Counted(start, end, held_between(HOMES, start, end, UTC))


async def spent(store: Store, *by: Dimension) -> dict[tuple[str, ...], CostSum]:
    return {each.key: each for each in await store.ledger.costs(*EVER, by or (Dimension.USER,))}


async def test_periods_add_up_to_one_line_a_day(store: Store) -> None:
    sums = await store.ledger.add_storage(counted(0, 3), PRICES)
    assert {each.key for each in sums} == {
        ("2026-11-20", "ada", "user:ada"),
        ("2026-11-20", "bob", "group:research"),
    }
    await store.ledger.add_storage(counted(3, 10), PRICES)
    found = await spent(store, Dimension.USER, Dimension.RESOURCE, Dimension.ZONE)
    held = {key: each.mib_seconds for key, each in found.items()}
    assert held == {
        ("ada", "home", "us-east-1a"): 100 * MIB * 36_000,
        ("ada", "snapshot", ""): 30 * MIB * 8 * 3600,
        ("bob", "home", "us-east-1b"): 50 * MIB * 36_000,
    }
    home = found["ada", "home", "us-east-1a"]
    assert home.nano_usd == storage_nano_usd(home.mib_seconds, 0.08, BEGIN.date())
    assert home.nano_usd == home.comparable_nano_usd == home.on_demand_nano_usd, "no saving"
    assert home.microseconds == home.gpu_microseconds == 0, "it is no time of an instance"


async def test_totals_follow_the_lines(store: Store) -> None:
    await store.ledger.add_storage(counted(0, 3), UNKNOWN)
    await store.ledger.add_storage(counted(3, 10), PRICES)
    by = (Dimension.RESOURCE, Dimension.DAY)
    of_lines = await store.ledger.costs(*EVER, by, {Dimension.USER: ["ada", "bob"]})
    assert await store.ledger.costs(*EVER, by) == of_lines, "without a filter, totals are read"
    assert {each.key[0] for each in of_lines} == {"home", "snapshot"}


async def test_a_repeated_period_counts_once(store: Store) -> None:
    first = await store.ledger.add_storage(counted(0, 3), PRICES)
    assert await store.ledger.add_storage(counted(0, 3), PRICES) == first
    assert (await store.load()).storage_counted_until == BEGIN + 3 * HOUR


@pytest.mark.parametrize("period", [(2, 4), (4, 5)])
async def test_a_period_that_does_not_follow_is_refused(
    store: Store, period: tuple[int, int]
) -> None:
    await store.ledger.add_storage(counted(0, 2), PRICES)
    await store.ledger.add_storage(counted(2, 3), PRICES)
    before = await spent(store)
    with pytest.raises(StoreError):
        await store.ledger.add_storage(counted(*period), PRICES)
    assert await spent(store) == before


async def test_an_unknown_price_is_unknown_until_the_day_has_one(store: Store) -> None:
    await store.ledger.add_storage(counted(0, 3), UNKNOWN)
    found = await spent(store)
    assert {key: (each.nano_usd, each.unknown) for key, each in found.items()} == {
        ("ada",): (0, 2),
        ("bob",): (0, 1),
    }
    await store.ledger.add_storage(counted(3, 5), PRICES)
    bob = (await spent(store))[("bob",)]
    assert (bob.nano_usd, bob.unknown) == (
        storage_nano_usd(50 * MIB * 5 * 3600, 0.08, BEGIN.date()),
        0,
    )


async def test_a_known_cost_survives_an_unknown_price(store: Store) -> None:
    await store.ledger.add_storage(counted(0, 3), PRICES)
    known = (await spent(store))[("bob",)].nano_usd
    assert known > 0
    for since in (3, 4):
        await store.ledger.add_storage(counted(since, since + 1), UNKNOWN)
        bob = (await spent(store))[("bob",)]
        assert (bob.nano_usd, bob.unknown) == (known, 1)
        assert bob.mib_seconds == 50 * MIB * (since + 1) * 3600
    await store.ledger.add_storage(counted(5, 6), PRICES)
    bob = (await spent(store))[("bob",)]
    cost = storage_nano_usd(50 * MIB * 6 * 3600, 0.08, BEGIN.date())
    assert (bob.nano_usd, bob.unknown) == (cost, 0)
    assert bob.mib_seconds == 50 * MIB * 6 * 3600, "the line of its own is gone"
    by = (Dimension.RESOURCE, Dimension.DAY)
    of_lines = await store.ledger.costs(*EVER, by, {Dimension.USER: ["ada", "bob"]})
    assert await store.ledger.costs(*EVER, by) == of_lines, "totals follow"


async def test_a_restarted_hub_knows_what_it_has_counted(store: Store, url: str) -> None:
    sums = await store.ledger.add_storage(counted(0, 3), PRICES)
    loaded = await store.load(costs_since=BEGIN.date())
    assert loaded.storage_counted_until == BEGIN + 3 * HOUR
    assert loaded.storage_costs == tuple(sums) == loaded.costs


async def test_a_period_in_which_nothing_existed_moves_the_count(store: Store) -> None:
    await store.ledger.add_storage(Counted(BEGIN, BEGIN + HOUR, {}), {})
    assert (await store.load()).storage_counted_until == BEGIN + HOUR
    assert await spent(store) == {}
