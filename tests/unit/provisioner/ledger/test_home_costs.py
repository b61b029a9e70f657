"""Homes and snapshots cost from creation to deletion, with or without a hub, and are paid once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.core.ledger.cost_rows import HUB, CostSum, Dimension
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.names import tag_value
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.core.tags import HOME, PAYER, STORE, USER
from ec2spawner.hub.app.user_account import account_of
from ec2spawner.provisioner.homes.storage_costs import StorageCosts
from ec2spawner.provisioner.homes.volume_listing import PAYERS_TAGGED, VolumeListing
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.volume import VolumeSnapshot
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import HomeRules
from ec2spawner.provisioner.runtime.cooperative_iteration import BATCH
from tests.unit.provisioner.world import World, until
from tests.user_accounts import fake_user
from tests.virtual_time import virtual_loop

GIB_MONTH = 0.08
DAYS_OF_NOVEMBER = 30
HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
async def homely(world: World) -> World:
    """At noon of 20 November: ada has a home of 20 GiB, and no server."""
    world.cloud.prices = {("g4dn.xlarge", f"us-east-1{zone}"): 0.2 for zone in "ab"}
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    world.silence_agents()
    lease, _ = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    return world


async def scan(world: World, seconds: float = HOUR) -> None:
    world.clock.advance(seconds)
    await world.complete_passes(1)


async def stored(world: World, resource: str = "home", user: str = "ada") -> float:
    """USD in the ledger."""
    by = (Dimension.USER, Dimension.RESOURCE)
    sums = await world.store.ledger.costs(date.min, date.max, by)
    return sum(each.nano_usd for each in sums if each.key == (user, resource)) / 1e9


def remembered(world: World, user: str = "ada") -> float:
    """USD of this month, as limits and heartbeats count them."""
    state = world.provisioner._state
    month = state.spending.of(user, state.leases).month
    assert month is not None
    return month


def costs_of(gib: float, seconds: float, days: int = DAYS_OF_NOVEMBER) -> float:
    return gib * GIB_MONTH * seconds / (days * DAY)


def volume_of(world: World, user: str = "ada") -> str:
    home = world.provisioner._state.homes.of(user, "")
    assert home is not None
    assert home.volume_id is not None
    return home.volume_id


def age(world: World, volume_id: str) -> float:
    made = world.cloud.volumes[volume_id].created_at
    assert made is not None
    return (world.clock() - made).total_seconds()


def counts(world: World) -> StorageCosts:
    """What counts in this process."""
    found = (getattr(each, "costs", None) for each in world.provisioner._reconciler.controllers)
    return next(each for each in found if isinstance(each, StorageCosts))


async def test_a_home_costs_while_its_user_is_away(homely: World) -> None:
    world = homely
    before = remembered(world)
    for _ in range(3):
        await scan(world, DAY)
    assert await stored(world) == pytest.approx(
        costs_of(20, age(world, volume_of(world))), rel=1e-3
    )
    grown = remembered(world) - before
    assert grown == pytest.approx(costs_of(20, 3 * DAY), rel=1e-3), "as limits and pages see it"


async def test_a_user_sees_what_their_home_costs_and_nothing_of_others(homely: World) -> None:
    world = homely
    await scan(world)
    overview = world.provisioner.overview
    found = overview.storage("ada")
    assert found is not None
    assert (found.home_gib, found.snapshot_gib) == (20, 0)
    assert found.usd_per_month == pytest.approx(20 * GIB_MONTH)
    other = overview.storage("bob")
    assert other is not None
    assert (other.home_gib, other.usd_per_month) == (0, 0)
    volume = world.cloud.volumes[volume_of(world)]
    for volume_type, usd in (("gp2", pytest.approx(20 * 0.10)), ("io2", None)):
        world.cloud.volumes[volume.volume_id] = replace(volume, volume_type=volume_type)
        await scan(world)
        found = overview.storage("ada")
        assert found is not None
        assert found.usd_per_month == usd, "unknown is never 0"


async def test_a_week_of_downtime_is_filled_and_counts_once(homely: World) -> None:
    world = homely
    await scan(world)
    await world.kill()
    world.clock.advance(7 * DAY)
    await world.start()
    await scan(world, HOUR)
    cost = costs_of(20, age(world, volume_of(world)))
    assert await stored(world) == pytest.approx(cost, rel=1e-3)
    days = await world.store.ledger.costs(date.min, date.max, (Dimension.DAY, Dimension.RESOURCE))
    assert len([each for each in days if each.key[1] == "home"]) == 8
    for _ in range(3):
        spent = remembered(world)
        await world.restart()
        assert remembered(world) == pytest.approx(spent), "a restart adds nothing"


async def test_a_hub_that_is_killed_before_it_writes_loses_nothing(homely: World) -> None:
    world = homely
    for _ in range(8):
        await world.restart()
        await scan(world, 1000)
    await scan(world)
    cost = costs_of(20, age(world, volume_of(world)))
    assert await stored(world) == pytest.approx(cost, rel=1e-3)


async def test_a_home_that_was_deleted_costs_no_more(homely: World) -> None:
    world = homely
    await scan(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    await world.provisioner._state.homes.leave(home)
    for _ in range(6):
        await scan(world, 900)
    await scan(world)
    after = await stored(world)
    assert after > 0
    await scan(world, 5 * DAY)
    assert await stored(world) == after


async def test_a_volume_deleted_while_no_hub_ran_costs_until_it_was_seen_last(
    homely: World,
) -> None:
    world = homely
    await scan(world)
    before = await stored(world)
    await world.kill()
    del world.cloud.volumes[volume_of(world)]
    world.clock.advance(7 * DAY)
    await world.start()
    await scan(world)
    assert await stored(world) == before


async def test_an_error_of_ec2_is_no_deletion(homely: World) -> None:
    world = homely
    lost = CloudError("RequestLimitExceeded", "later", retryable=True)
    await scan(world)
    world.cloud.fail("list_volumes", lost, 2)
    for _ in range(4):
        await scan(world)
    cost = costs_of(20, age(world, volume_of(world)))
    assert await stored(world) == pytest.approx(cost, rel=2e-3)


async def test_a_grown_home_costs_its_new_size_from_then_on(homely: World) -> None:
    world = homely
    await scan(world)
    before = await stored(world)
    volume_id = volume_of(world)
    world.cloud.volumes[volume_id] = replace(world.cloud.volumes[volume_id], size_gib=40)
    await scan(world, 0.1 * HOUR)
    for _ in range(10):
        await scan(world)
    assert await stored(world) - before == pytest.approx(costs_of(40, 10 * HOUR), rel=0.15)


async def test_snapshots_cost_the_largest_of_a_home(homely: World) -> None:
    """They share blocks: three snapshots of 1 GiB are not 3 GiB."""
    world = homely
    await world.restart(home=HomeRules(schedule=Schedule(every=3600, keep=3)))
    volume_id = volume_of(world)
    for _ in range(6):
        held = world.cloud.volumes[volume_id]
        world.cloud.volumes[volume_id] = replace(held, state="in-use", attached_to="i-ada")
        await scan(world)
    assert len(world.cloud.snapshots) >= 3
    before = await stored(world, "snapshot")
    await scan(world, DAY)
    await scan(world, DAY)
    grown = await stored(world, "snapshot") - before
    assert grown == pytest.approx(1.0 * 0.05 * 2 / DAYS_OF_NOVEMBER, rel=0.1)


async def test_homes_of_a_lost_store_cost_the_hub_until_they_are_handed_over(
    homely: World,
) -> None:
    world = homely
    ours, now = world.cloud.volumes[volume_of(world)], world.clock()
    tags = {**ours.tags, STORE: "another", HOME: "home-x", USER: "bob"}
    foreign = replace(ours, volume_id="vol-x", tags=tags, size_gib=900, created_at=now)
    world.cloud.volumes["vol-x"] = foreign
    world.cloud.snapshots["snap-x"] = VolumeSnapshot(
        "snap-x", "vol-x", "completed", 100, now, 900, 30.0, tags
    )
    account_of(world.provisioner.accounts, fake_user("bob"))
    for _ in range(2):
        await scan(world, DAY)
    assert await stored(world) == pytest.approx(costs_of(20, age(world, ours.volume_id)), rel=1e-3)
    assert await stored(world, user="bob") == 0
    of_hub = await stored(world, user="")
    assert of_hub == pytest.approx(costs_of(900, 2 * DAY), rel=1e-3)
    copies = await stored(world, "snapshot", "")
    assert copies == pytest.approx(30 * 0.05 * 2 / DAYS_OF_NOVEMBER, rel=1e-3)
    state = world.provisioner._state
    hub = state.spending.by_day(HUB, state.leases).values()
    assert sum(each.storage_nano_usd for each in hub) / 1e9 == pytest.approx(
        of_hub + copies + await stored(world)
    )
    handed_over = {**tags, STORE: world.store.store_id}
    world.cloud.volumes["vol-x"] = replace(foreign, tags=handed_over)
    await scan(world, DAY)
    assert await stored(world, user="") == of_hub
    assert await stored(world, user="bob") == pytest.approx(costs_of(900, DAY), rel=1e-3)


async def test_a_home_without_a_record_is_charged_to_the_user_whose_tag_it_has(
    homely: World,
) -> None:
    """As in a backup of the store that is older than the home. `ü` is not allowed in a tag."""
    world = homely
    ours, created = world.cloud.volumes[volume_of(world)], world.clock()
    for name, gib in (("müller", 40), ("nobody", 80)):
        tags = {**ours.tags, HOME: f"home-{name}", USER: tag_value(name)}
        world.cloud.volumes[name] = replace(
            ours, volume_id=name, tags=tags, size_gib=gib, created_at=created
        )
    account_of(world.provisioner.accounts, fake_user("müller"))
    for _ in range(3):
        await scan(world, DAY)
    expected = pytest.approx(costs_of(40, 3 * DAY), rel=1e-2)
    assert await stored(world, user="müller") == expected
    assert remembered(world, "müller") == expected
    by = (Dimension.USER, Dimension.PAYER, Dimension.RESOURCE)
    sums = await world.store.ledger.costs(date.min, date.max, by)
    homes = {each.key[:2]: each.nano_usd / 1e9 for each in sums if each.key[2] == "home"}
    assert homes.keys() == {("ada", "user:ada"), ("müller", "user:müller"), ("", HUB)}
    assert homes["", HUB] == pytest.approx(costs_of(80, 3 * DAY), rel=1e-2), "of no user"


async def test_a_group_pays_for_the_homes_of_its_members(homely: World) -> None:
    world = homely
    world.provisioner._state.homes.payers_of = lambda users: dict.fromkeys(users, "group:lab")
    await scan(world)
    await scan(world)
    sums = await world.store.ledger.costs(date.min, date.max, (Dimension.PAYER, Dimension.RESOURCE))
    assert {each.key for each in sums if each.key[1] == "home"} >= {("group:lab", "home")}
    state = world.provisioner._state
    lab = state.spending.by_day("group:lab", state.leases)
    assert sum(each.storage_nano_usd for each in lab.values()) > 0


async def test_the_tag_of_a_homes_payer_follows_the_ledger(homely: World) -> None:
    world, volume_id = homely, volume_of(homely)
    ours = world.cloud.volumes[volume_id]
    assert ours.tags[PAYER] == "user:ada"
    others = {**ours.tags, STORE: "another"}
    world.cloud.volumes["vol-x"] = replace(ours, volume_id="vol-x", tags=others)
    world.provisioner._state.homes.payers_of = lambda users: dict.fromkeys(users, "group:lab")
    await scan(world)
    await until(lambda: world.cloud.volumes[volume_id].tags[PAYER] == "group:lab", "the tag")
    made = len(world.cloud.of("tag"))
    await scan(world)
    await scan(world)
    assert len(world.cloud.of("tag")) == made, "once"
    assert world.cloud.volumes["vol-x"].tags == others, "another store's"


async def test_a_payer_that_cannot_be_tagged_leaves_no_other_untagged(homely: World) -> None:
    world, cloud = homely, homely.cloud
    state = world.provisioner._state
    listing, ours = VolumeListing(state, cloud), state.homes.of("ada", "")
    assert ours is not None
    users = [f"user{number:03}" for number in range(PAYERS_TAGGED + 10)]
    for user in users:
        volume_id, tags = f"vol-{user}", {HOME: user, STORE: state.store_id}
        await state.homes.save(replace(ours, home_id=user, user=user, volume_id=volume_id))
        like = cloud.volumes[volume_of(world)]
        cloud.volumes[volume_id] = replace(like, volume_id=volume_id, tags=tags)

    async def tagged(*errors: CloudError) -> tuple[int, int]:
        """Calls of one comparison, and homes without the tag after it."""
        before = len(cloud.of("tag"))
        for error in errors:
            cloud.fail("tag", error)
        volumes = tuple(cloud.volumes.values())
        await listing.tag_payers(volumes)
        untagged = sum(PAYER not in each.tags for each in cloud.volumes.values())
        return len(cloud.of("tag")) - before, untagged

    throttled = CloudError("RequestLimitExceeded", "slow down", retryable=True)
    gone = CloudError("InvalidVolume.NotFound", "no such volume", retryable=False)
    assert await tagged(throttled) == (1, 60)
    assert await tagged(*[gone] * 3) == (50, 13), "three failed"
    assert await tagged() == (13, 0)
    assert await tagged() == (0, 0)


async def test_unknown_prices_are_unknown_and_filled_in_on_the_same_day(homely: World) -> None:
    world = homely
    counts(world).prices = ResourcePrices
    await scan(world)
    await scan(world)
    await scan(world)
    by = (Dimension.USER, Dimension.RESOURCE)
    [home] = [
        x for x in await world.store.ledger.costs(date.min, date.max, by) if x.key[1] == "home"
    ]
    assert home.unknown == 1
    state = world.provisioner._state
    assert state.spending.of("ada", state.leases).month is None
    counts(world).prices = lambda: ResourcePrices(disk_usd_per_gib_month=GIB_MONTH)
    await scan(world)
    cost = costs_of(20, age(world, volume_of(world)))
    assert await stored(world) == pytest.approx(cost, rel=1e-2)


async def test_a_lost_price_takes_no_known_cost_away(homely: World) -> None:
    world = homely
    await scan(world)
    before, listed = await stored(world), counts(world).prices
    assert before > 0
    counts(world).prices = ResourcePrices
    for _ in range(3):
        await scan(world)
    assert await stored(world) == before
    counts(world).prices = listed
    await scan(world)
    cost = costs_of(20, age(world, volume_of(world)))
    assert await stored(world) == pytest.approx(cost, rel=1e-2)


async def test_a_volume_without_a_price_delays_nobodys_costs(homely: World) -> None:
    world = homely
    ours = world.cloud.volumes[volume_of(world)]
    tags = {**ours.tags, "ec2spawner:home": "home-x", "ec2spawner:user": "bob"}
    world.cloud.volumes["vol-x"] = replace(
        ours, volume_id="vol-x", tags=tags, volume_type="io2", created_at=world.clock()
    )
    await scan(world)
    await scan(world)  # the first write waits for the price
    for _ in range(4):
        await scan(world)
        cost = costs_of(20, age(world, ours.volume_id))
        assert await stored(world) == pytest.approx(cost, rel=1e-3)


async def test_a_write_that_fails_is_repeated_and_counts_once(homely: World) -> None:
    world = homely
    await scan(world)
    world.run_sql(
        "CREATE TRIGGER full BEFORE UPDATE OF storage_counted_until ON store BEGIN "
        "SELECT RAISE(ABORT, 'disk is full'); END"
    )
    before = await stored(world)
    await scan(world)
    await scan(world)
    assert await stored(world) == before
    world.fix_store()
    await scan(world)
    cost = costs_of(20, age(world, volume_of(world)))
    assert await stored(world) == pytest.approx(cost, rel=1e-3)
    spent = remembered(world)
    await world.restart()
    assert remembered(world) == pytest.approx(spent)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata"])
async def test_days_are_those_of_the_hub(homely: World, zone: str) -> None:
    world = homely
    await world.restart(time_zone=ZoneInfo(zone))
    for _ in range(3):
        await scan(world, DAY)
    days = await world.store.ledger.costs(date.min, date.max, (Dimension.DAY, Dimension.RESOURCE))
    found = {e.key[0]: e.mib_seconds for e in days if e.key[1] == "home"}
    today = world.clock().astimezone(ZoneInfo(zone)).date()
    assert found[str(today - timedelta(days=1))] == 20 * 1024 * 86_400


async def test_a_home_can_use_up_a_limit_and_stays(homely: World) -> None:
    world = homely
    bounds = Bounds(usd_per_month=costs_of(20, DAY))
    await world.restart(limits=Limits(bounds), spending_days=31)
    for _ in range(3):
        await scan(world, DAY)
    with pytest.raises(LimitReached) as refused:
        await world.request(home_kind="ebs")
    assert refused.value.refusal.is_filled_by_storage
    assert volume_of(world) in world.cloud.volumes


async def test_a_home_that_uses_up_a_credit_in_months_does_so_after_a_restart(
    homely: World,
) -> None:
    world = homely
    limits = Limits(scopes={"user:ada": Bounds(credit_usd=costs_of(20, 50 * DAY))})
    await world.restart(limits=limits, spending_days=limits.days)
    for _ in range(9):
        await scan(world, 7 * DAY)
    for _ in range(2):
        with pytest.raises(LimitReached) as refused:
            await world.request(home_kind="ebs")
        assert refused.value.refusal.is_filled_by_storage
        await world.restart()


async def test_a_new_store_counts_from_the_first_of_the_month(homely: World) -> None:
    world = homely
    volume_id = volume_of(world)
    old = datetime(2025, 1, 1, tzinfo=world.clock().tzinfo)
    world.cloud.volumes[volume_id] = replace(world.cloud.volumes[volume_id], created_at=old)
    await world.kill()
    world.run_sql("UPDATE store SET storage_counted_until = NULL")
    world.run_sql("DELETE FROM cost WHERE resource = 'home'")
    await world.start()
    await scan(world)
    since = world.clock().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    cost = costs_of(20, (world.clock() - since).total_seconds())
    assert await stored(world) == pytest.approx(cost, rel=1e-3)


async def test_sums_of_many_homes_leave_the_event_loop_to_others(world: World) -> None:
    state, today = world.provisioner._state, world.clock().date()
    sums = [
        CostSum((str(today), f"user-{n}", f"user:user-{n}"), 10**9, 0, 0, 0, 0, 0.0)
        for n in range(1000)
    ]
    turns = virtual_loop().turns
    counting = asyncio.create_task(state.spending.count_storage(sums))
    for _ in range(4):
        await asyncio.sleep(0)  # it is under way
    counting.cancel()
    await state.spending.count_storage(sums)
    assert virtual_loop().turns - turns >= (len(sums) - 1) // BATCH
    hub = state.spending.by_day(HUB, state.leases)[today]
    assert hub.nano_usd == hub.storage_nano_usd == 1000 * 10**9, "once, although it was cancelled"
    grown = [sums[0]._replace(nano_usd=3 * 10**9), *sums[1:]]
    await state.spending.count_storage(grown)
    assert state.spending.by_day(HUB, state.leases)[today].nano_usd == 1002 * 10**9
