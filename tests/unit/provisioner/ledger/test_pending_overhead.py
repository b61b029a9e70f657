"""Overhead counts from the moment it is known, and once, whether its write has landed or not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.core.ledger.amount import Amount, add_to_day, assumed_amount_of
from ec2spawner.core.ledger.cost_rows import HUB, Cause, CostRow, Dimension, sum_rows
from ec2spawner.core.ledger.instance_end import InstanceEnd
from ec2spawner.core.ledger.lease_costs import HUBS, overhead_costs
from ec2spawner.core.ledger.segments import OverheadKey, Segment, overhead_key
from ec2spawner.provisioner.instances.overhead import Overhead
from ec2spawner.provisioner.instances.overhead_period import Period
from ec2spawner.provisioner.store.databases.database import StoreTimeoutError
from ec2spawner.provisioner.usage import PART
from ec2spawner.wire import Market
from tests.unit.provisioner.costs import accept, refuse
from tests.unit.provisioner.world import World, until
from tests.virtual_time import virtual_loop

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

KEYS = [("i-1", "boot"), ("i-1", "boot lease-1"), ("i-2", "boot")]

BY = [(), (Dimension.DAY, Dimension.PURPOSE), (Dimension.PAYER,), (Dimension.SERVER,)]
"""Sums with totals of days, of longer periods, and without totals."""


@dataclass(slots=True)
class Instances:
    """Instances that run for nobody, and the sums that their cost should be."""

    world: World
    begin: datetime
    latest: dict[OverheadKey, Segment] = field(default_factory=dict)

    @property
    def overhead(self) -> Overhead:
        return self.world.provisioner._retention.overhead

    async def run_until(self, key: OverheadKey, end: datetime, usd_per_hour: float = 0.2) -> None:
        segment = Segment(key[0], Market.ON_DEMAND, usd_per_hour, self.begin, end, gpus=1.0)
        self.latest[key] = replace(segment, disk_usd_per_month=7.2, on_demand_usd_per_hour=0.5)
        period = Period(key[1], (self.latest[key],), (Cause.RETENTION, HUBS))
        await self.overhead.save(period)

    def lines(self) -> list[CostRow]:
        now = self.world.clock()
        found = (overhead_costs([x], Cause.RETENTION, now, UTC) for x in self.latest.values())
        return [row for rows in found for row in rows]

    async def are_counted_once(self) -> None:
        lines, usage = self.lines(), self.world.provisioner.usage
        for by in BY:
            found = await usage.costs(self.begin.date() - PART, usage.today(), by)
            assert found == sum_rows(lines, by)
        assert self.spent() == amounts(lines)

    def spent(self) -> Mapping[date, Amount]:
        state = self.world.provisioner._state
        return state.spending.by_day(HUB, state.leases)

    def pending(self) -> int:
        return len(self.world.provisioner._state.spending.pending_overhead.all())


def amounts(lines: list[CostRow]) -> Mapping[date, Amount]:
    days: dict[date, Amount] = {}
    for row in lines:
        add_to_day(days, row.day, assumed_amount_of(row))
    return days


@pytest.fixture
def instances(world: World) -> Instances:
    return Instances(world, world.clock() - 3 * DAY)


@pytest.mark.parametrize("seed", range(3))
async def test_sums_before_and_after_the_write_are_equal(instances: Instances, seed: int) -> None:
    randomness, world = random.Random(seed), instances.world
    ends = dict.fromkeys(KEYS, instances.begin)
    seen = set[bool]()
    for _ in range(12):
        accept(world)
        if randomness.random() < 0.6:
            refuse(world)
        key = randomness.choice(KEYS)
        ends[key] += HOUR * randomness.uniform(0.1, 20)
        await instances.run_until(key, ends[key], randomness.choice([0.2, 0.3]))
        seen.add(instances.pending() > 0)
        await instances.are_counted_once()
    assert seen == {True, False}
    accept(world)
    await until(lambda: not instances.pending(), "stored")
    await instances.are_counted_once()
    await world.restart()
    await instances.are_counted_once()


@pytest.mark.parametrize("by", BY)
async def test_a_write_that_lands_between_two_reads_counts_once(
    instances: Instances, by: tuple[Dimension, ...]
) -> None:
    """The reads begin before it, and one of several parts is read after it."""
    world, store, usage = instances.world, instances.world.store, instances.world.provisioner.usage
    await instances.run_until(KEYS[0], instances.begin + 5 * HOUR)
    refuse(world)
    await instances.run_until(KEYS[0], instances.begin + 30 * HOUR)
    assert instances.pending()
    virtual_loop().hold_work()
    reading = asyncio.create_task(usage.costs(instances.begin.date() - PART, usage.today(), by))
    await asyncio.sleep(0)  # its first read waits for the store
    accept(world)
    landing = asyncio.create_task(store.write_behind.retry())
    virtual_loop().continue_work()
    assert await reading == sum_rows(instances.lines(), by)
    await landing
    await until(lambda: not instances.pending(), "stored")
    await instances.are_counted_once()


async def test_a_read_that_waits_behind_the_write_counts_it_once(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    await instances.run_until(KEYS[0], instances.begin + 5 * HOUR)
    ledger = instances.world.store.ledger
    write = ledger.save_overhead

    async def held(*changes: Any) -> Any:
        virtual_loop().hold_work()
        return await write(*changes)

    monkeypatch.setattr(ledger, "save_overhead", held)
    end = instances.begin + 30 * HOUR
    writing = asyncio.create_task(instances.run_until(KEYS[0], end))
    await until(instances.pending)
    reading = asyncio.create_task(instances.are_counted_once())
    await asyncio.sleep(0)  # its first read waits for the store
    virtual_loop().continue_work()
    await reading
    await writing
    await instances.are_counted_once()


async def test_users_are_charged_nothing_of_it(instances: Instances) -> None:
    refuse(instances.world)
    await instances.run_until(KEYS[0], instances.begin + HOUR)
    usage = instances.world.provisioner.usage
    days = instances.begin.date(), usage.today()
    assert await usage.costs(*days, (), {Dimension.USER: ["ada"]}) == ()
    [hub] = await usage.costs(*days, (), {Dimension.PAYER: [HUB]})
    assert hub.nano_usd == sum(row.nano_usd or 0 for row in instances.lines()) > 0


def lose_answer(world: World, name: str = "save_overhead") -> None:
    """The next such write lands, and the store does not answer in time."""
    write = getattr(world.store.ledger, name)

    async def late(*changes: Any) -> None:
        setattr(world.store.ledger, name, write)
        await write(*changes)
        raise StoreTimeoutError("the store did not answer in time")

    setattr(world.store.ledger, name, late)


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_write_whose_answer_is_lost_counts_once(
    instances: Instances, is_first: bool
) -> None:
    world = instances.world
    if not is_first:
        await instances.run_until(KEYS[0], instances.begin + 5 * HOUR)
    lose_answer(world)
    await instances.run_until(KEYS[0], instances.begin + 30 * HOUR)
    await instances.are_counted_once()
    await until(lambda: not instances.pending(), "repeated")
    await instances.are_counted_once()


async def test_a_longer_time_takes_the_place_of_a_write_whose_answer_is_lost(
    instances: Instances,
) -> None:
    lose_answer(instances.world)
    for hours in (30, 40, 50):
        await instances.run_until(KEYS[0], instances.begin + hours * HOUR)
        await instances.are_counted_once()


@pytest.mark.parametrize("lost", ["refund_overhead", "save_overhead"])
async def test_a_refund_counts_once_though_an_answer_is_lost(
    instances: Instances, lost: str
) -> None:
    world, begin = instances.world, instances.begin
    boot = ("i-1", overhead_key(begin, ""))
    await instances.run_until(boot, begin + HOUR / 4)
    end = InstanceEnd("i-1", begin, begin + HOUR / 2, was_interrupted=True)
    lose_answer(world, lost)
    await instances.run_until(boot, begin + HOUR / 2)
    await instances.overhead.refund(end)
    refund = f"refund of {end.instance_id}"
    await until(lambda: not world.store.write_behind.is_pending(refund), "repeated")
    found = await world.provisioner.usage.costs(begin.date(), begin.date(), (Dimension.RESOURCE,))
    assert {each.key: each.nano_usd > 0 for each in found} == {
        ("disk",): True,
        ("instance",): False,
    }
    spent = sum(each.nano_usd for each in instances.spent().values())
    assert spent == sum(each.nano_usd for each in found), "its disks are charged"
    await instances.overhead.refund(end)
    assert sum(each.nano_usd for each in instances.spent().values()) == spent
