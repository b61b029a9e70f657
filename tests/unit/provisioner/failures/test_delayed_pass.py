"""What a slow or failing EC2 and store may not hold up, repeat or take away."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.cost_rows import CostRow
from ec2spawner.provisioner.instances.inventory import take_stock
from ec2spawner.provisioner.launch import controller
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.state.instances.launches import Round
from ec2spawner.provisioner.state.instances.stock import Stock
from ec2spawner.provisioner.state.state import State
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, Agent, World, until

ON_DEMAND = (Market.ON_DEMAND,)
G5 = replace(SPEC, instance_types=("g5.xlarge",), markets=ON_DEMAND)
"""Sold out in these tests."""
G4 = replace(SPEC, markets=ON_DEMAND)
STOPPED = AfterStop("stop", 6000, 1)
OVER = {LeaseState.ENDING, LeaseState.ENDED}

Begin = Callable[..., Awaitable[World]]


@pytest.fixture
def begin(tmp_path: Path, empty_store: Path) -> Begin:
    """EC2 answers at once where it is not held up."""

    async def world_with(**settings: float) -> World:
        shutil.copy(empty_store, tmp_path / "store.sqlite")
        world = World(tmp_path)
        world.cloud.call_seconds = lambda: 0.0
        await world.start(price_interval=300.0, **settings)
        for market in Market:
            world.cloud.sell_out(market, "g5.xlarge")
        return world

    return world_with


async def hold_up_a_termination(world: World, lease: Lease) -> asyncio.Event:
    """EC2 does not answer the termination of the instance that the lease leaves behind."""
    await asyncio.sleep(3)
    gate = world.cloud.hold("terminate")
    await world.stop(lease)
    await until(lambda: world.cloud.of("terminate"))
    return gate


async def after(seconds: float, world: World, lease: Lease) -> LeaseState:
    await asyncio.sleep(seconds)
    state = world.now(lease).state
    refuse_the_store(None)
    await world.kill()
    return state


def refuse_the_store(error: StoreError | None) -> None:
    asyncio.get_running_loop().refusal = error  # type: ignore[attr-defined]


def fill_the_disk(world: World, statement: str) -> None:
    world.run_sql(
        f"CREATE TRIGGER full BEFORE {statement} BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )


# --- a call to EC2 that hangs ---


async def test_a_start_without_remaining_offers_ends(begin: Begin) -> None:
    world = await begin()
    other = await world.request("ada")
    await world.boot(1)
    launch = world.cloud.hold("launch")
    lease = await world.request("bob", spec=G5)
    await until(lambda: len(world.cloud.of("launch")) == 2)
    terminate = await hold_up_a_termination(world, other)
    launch.set()
    assert await after(50, world, lease) in OVER
    terminate.set()


async def test_a_start_whose_agent_stops_ends(begin: Begin) -> None:
    world = await begin(replacements=0)
    lease = await world.request("bob")
    [instance_id] = await world.boot(1)
    agent = Agent(world, instance_id)
    await agent.claim()
    other = await world.request("ada")
    await world.boot(2)
    terminate = await hold_up_a_termination(world, other)
    await agent.event("stopped")
    assert await after(50, world, lease) in OVER
    terminate.set()


async def test_a_retained_instance_is_stopped(begin: Begin) -> None:
    world = await begin()
    spec = replace(SPEC, markets=ON_DEMAND)
    lease, agent = await world.ready("eve", after_stop=STOPPED, spec=spec)
    await agent.heartbeat()
    other = await world.request("ada")
    await world.boot(2)
    terminate = await hold_up_a_termination(world, other)
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    assert await after(50, world, lease) in OVER
    assert world.cloud.of("stop")
    terminate.set()


async def test_an_instance_assigned_meanwhile_is_not_terminated(begin: Begin) -> None:
    """A claim comes while EC2 terminates what was retained, after the pass took stock."""
    world = await begin()
    lease, agent = await world.ready("eve", after_stop=AfterStop("linger", 600))
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await world.state(lease, LeaseState.ENDED)
    other = await world.request("ada")
    await world.boot(2)
    [surplus] = set(world.cloud.running()) - {agent.instance_id}
    state = world.provisioner._state
    await until(lambda: surplus in state.instances.listed)
    state.settings = replace(state.settings, batch_window=40.0)
    await asyncio.sleep(1)
    await world.stop(other)
    await world.state(other, LeaseState.ENDED)
    await world.provisioner.give_up_retained("eve", "")
    claim = asyncio.create_task(Agent(world, surplus).claim(wait=200))
    gate = world.cloud.hold("terminate")
    await until(lambda: world.cloud.of("terminate"))
    await asyncio.sleep(0.5)
    got = await world.request("carl")
    await asyncio.sleep(0.5)
    instance_id = world.now(got).instance_id
    gate.set()
    await asyncio.sleep(3)
    assert instance_id != surplus or surplus in world.cloud.running()
    claim.cancel()
    await world.kill()


async def test_starts_of_many_kinds_that_fail_together_take_stock_together(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, taken = await begin(batch_window=1.0), []

    def counted(state: State, without: Collection[Round]) -> Stock:
        taken.append(state)
        return take_stock(state, without)

    monkeypatch.setattr(controller, "take_stock", counted)
    kinds = [replace(G5, disk_gib=100 + n) for n in range(20)]
    leases = await asyncio.gather(
        *(world.request(f"bob-{kind.disk_gib}", spec=kind) for kind in kinds)
    )
    await until(lambda: all(world.now(lease).state in OVER for lease in leases))
    assert len(taken) <= len(kinds) / 2
    # What comes after the first has failed is known to be sold out.
    launched = Counter(request.spec.disk_gib for request in world.cloud.requests())
    assert set(launched.values()) == {1}, "no pass launched for them again"
    await world.kill()


async def test_failed_starts_are_not_launched_for_again_while_their_ends_are_stored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await begin()
    world.cloud.fail("launch", CloudError("InvalidParameterValue", "no", retryable=False), 50)
    save = world.store.save_lease

    async def save_slowly(lease: Lease, costs: Sequence[CostRow] = ()) -> None:
        if lease.state is LeaseState.ENDING:
            await asyncio.sleep(0.03)
        await save(lease, costs)

    leases = await asyncio.gather(*(world.request(f"bob-{n}", spec=G4) for n in range(40)))
    monkeypatch.setattr(world.store, "save_lease", save_slowly)
    await until(lambda: all(world.now(lease).state in OVER for lease in leases))
    await asyncio.sleep(10)
    assert len(world.cloud.of("launch")) == 1
    await world.kill()


async def test_an_instance_assigned_while_failed_starts_are_stored_is_kept(begin: Begin) -> None:
    world = await begin()
    other = await world.request("ada")
    [surplus] = await world.boot(1)
    await asyncio.sleep(3)
    launch = world.cloud.hold("launch")
    failing = await asyncio.gather(*(world.request(f"bob-{n}", spec=G5) for n in range(20)))
    await asyncio.sleep(5)
    ended = asyncio.create_task(world.stop(other))
    await asyncio.sleep(0.03)
    launch.set()
    await until(lambda: any(world.now(lease).state in OVER for lease in failing))
    request = asyncio.create_task(world.request("carl"))
    claim = asyncio.create_task(Agent(world, surplus).claim(wait=30))
    await asyncio.sleep(10)
    await asyncio.gather(ended, request)
    if world.now(request.result()).instance_id == surplus:
        assert surplus in world.cloud.running()
    claim.cancel()
    await asyncio.gather(claim, return_exceptions=True)
    await world.kill()


# --- a store that is away or full ---


async def test_without_the_store_a_start_without_remaining_offers_ends(begin: Begin) -> None:
    world = await begin()
    launch = world.cloud.hold("launch")
    lease = await world.request("bob", spec=G5)
    await until(lambda: world.cloud.of("launch"))
    refuse_the_store(StoreError("away"))
    launch.set()
    assert await after(120, world, lease) in OVER


async def test_without_the_store_a_start_whose_agent_stops_ends(begin: Begin) -> None:
    world = await begin(replacements=0)
    lease = await world.request("bob")
    [instance_id] = await world.boot(1)
    agent = Agent(world, instance_id)
    await agent.claim()
    await asyncio.sleep(5)
    refuse_the_store(StoreError("away"))
    await agent.event("stopped")
    assert await after(100, world, lease) in OVER


async def test_a_late_start_ends_though_another_users_instance_cannot_be_stored(
    begin: Begin,
) -> None:
    world = await begin(ready_timeout=30.0)
    spec = replace(SPEC, markets=ON_DEMAND)
    retained, agent = await world.ready("eve", after_stop=STOPPED, spec=spec)
    await agent.heartbeat()
    await asyncio.gather(world.stop(retained), agent.event("stopped"))
    await world.state(retained, LeaseState.ENDED)
    await until(lambda: world.cloud.stopped())
    await asyncio.sleep(5)
    lease = await world.request("bob")
    await until(lambda: world.cloud.running())
    [instance_id] = set(world.cloud.running()) - {agent.instance_id}
    await Agent(world, instance_id).claim()
    await asyncio.sleep(3)
    fill_the_disk(world, "UPDATE ON kept")
    await world.request("eve", after_stop=STOPPED, spec=spec)
    for _ in range(30):
        world.clock.advance(5)
        await asyncio.sleep(5)
    assert await after(0, world, lease) in OVER


# --- what fails again and again ---


async def test_a_launch_that_cannot_be_stored_is_not_repeated_at_once(begin: Begin) -> None:
    world = await begin()
    await asyncio.sleep(1)
    fill_the_disk(world, "INSERT ON intent")
    await world.request("bob")
    await asyncio.sleep(1)
    before = world.passes
    await asyncio.sleep(60)
    assert world.passes - before < 60
    await world.kill()


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_launch_that_raises_is_not_repeated_at_once(
    begin: Begin, after_effect: bool
) -> None:
    world = await begin(launch_pause=0.1)
    world.cloud.fail("launch", KeyError("a bug"), times=10**6, after=after_effect)
    await world.request("bob")
    await asyncio.sleep(5)
    assert len(world.cloud.machines) <= 2
    assert len(world.cloud.of("launch")) <= 4
    await world.kill()


async def test_an_exception_without_a_message_does_not_block_other_starts(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, seen = await begin(), asyncio.Event()

    def broken(*_args: object, **_more: object) -> None:
        seen.set()
        raise KeyError("a bug in the words of one failure")

    monkeypatch.setattr(controller, "launch_failure", broken)
    await world.request("bob", spec=G5)
    await until(seen.is_set)
    await asyncio.sleep(6)
    await world.request("carl")
    await asyncio.sleep(60)
    assert world.cloud.running()
    await world.kill()
