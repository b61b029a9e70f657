"""Instances of the pool wait for users who are expected, with their homes, and for nobody else."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.core.instances.retention_rules import Kept
from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.provisioner.instances.claims import InstanceUnwanted
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.wire import Market
from tests.unit.provisioner.costs import SPOT, costs
from tests.unit.provisioner.pool.pool_world import Pool, of_pool, rules, standing
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until

WEEK = 7 * 86400.0
IN_A = replace(SPEC, subnets=("subnet-a",))
LOST = CloudError("ConnectionClosedError", "no answer", retryable=True)
REFUSED = CloudError("UnauthorizedOperation", "denied", retryable=False)


async def worked(world: World, user: str) -> None:
    """A server with a home in zone a was ready and has ended."""
    lease, agent = await world.ready(user, home_kind="ebs", spec=IN_A)
    await world.stop(lease)
    await until(lambda: world.now(lease).state is LeaseState.ENDING)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running(), "its instance ends")


async def regulars(world: World, *users: str) -> None:
    """These have started a server ten minutes later than now, in the last two weeks."""
    for later in (0, 600):
        for user in users:
            await worked(world, user)
        world.clock.advance(WEEK - later)
        await world.complete_passes(1)


async def begin(world: World, running: int = 1, homes_ahead: int = 1, **fields: Any) -> Pool:
    """The hub starts again with such a pool in zone a, and its instances wait."""
    await world.restart(pool=rules(running, homes_ahead=homes_ahead, **fields))
    name_specs(world)
    pool = Pool(world)
    await until(lambda: world.provisioner.pool.standings(), "targets")
    await boot(pool, running)
    return pool


async def boot(pool: Pool, number: int) -> None:
    """So many agents of new instances have claimed, and wait."""
    await until(lambda: len(pool.world.cloud.running()) >= number, f"{number} instances")
    for instance_id in pool.world.cloud.running():
        if instance_id not in pool.agents:
            pool.agents[instance_id] = Agent(pool.world, instance_id)
            assert await pool.agents[instance_id].claim(wait=10.0) is None


def name_specs(world: World, **changes: Any) -> None:
    world.provisioner.pool.set_specs({"t4": replace(IN_A, **changes)}, {}, homes_bind=True)


def holder(world: World, user: str = "ada") -> str | None:
    """The instance that EC2 has the user's home on."""
    home = world.provisioner.homes.of(user, "")
    assert home is not None
    assert home.volume_id is not None
    return world.cloud.volumes[home.volume_id].attached_to


def kept(world: World) -> Sequence[Kept]:
    return [each for each in world.provisioner._state.retained.all() if each.is_ahead]


async def by_cause(world: World) -> dict[str, float]:
    found = await costs(world, Dimension.CAUSE)
    return {key[0]: each.nano_usd / 1e9 for key, each in found.items()}


async def attached(world: World, number: int = 1) -> None:
    """So many homes, and the start of their server makes no call for them any more."""
    state = world.provisioner._state
    await until(lambda: world.provisioner.pool.standings(), "targets")

    def shown() -> bool:
        found = [
            ahead.volume_id in state.instances.listed[ahead.instance_id].volumes.values()
            for ahead in state.homes.ahead.values()
        ]
        return found == [True] * number

    await until(lambda: len(standing(world).ahead) == number, f"{number} kept ahead")
    await until(shown, f"{number} homes attached ahead")


def calls(world: World) -> dict[str, int]:
    return {
        name: len(world.cloud.of(name)) for name in ("attach_volume", "detach_volume", "volume")
    }


async def test_a_user_who_is_expected_gets_the_instance_with_the_home_on_it(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world, running=2)
    await attached(world)
    mine = holder(world)
    assert mine in pool.agents
    before = calls(world)
    lease = await world.request("ada", home_kind="ebs", spec=IN_A)
    other = next(each for each in pool.agents if each != mine)
    assert await pool.agents[other].claim(wait=10.0) is None, "not its instance"
    ready = await pool.agents[mine or ""].serve()
    assert ready.lease_id == lease.lease_id
    assert calls(world) == before, "no call for the home while it starts"
    await until(lambda: not kept(world), "it is an ordinary lease")
    assert (await world.store.load()).kept == ()
    await until(lambda: not world.provisioner._state.homes.ahead, "and an ordinary home")


async def test_the_instance_that_waits_for_the_user_is_woken(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world, running=2)
    await attached(world)
    claims = {x: asyncio.create_task(agent.claim()) for x, agent in pool.agents.items()}
    await world.request("ada", home_kind="ebs", spec=IN_A)
    assert await claims.pop(holder(world) or "") is not None
    for task in claims.values():
        task.cancel()


async def test_nobody_else_ever_gets_the_instance(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [(instance_id, agent)] = pool.agents.items()
    lease = await world.request("bob", home_kind="none", spec=IN_A)
    claim = asyncio.create_task(agent.claim())
    [other] = set(await world.boot(2)) - {instance_id}
    served = await Agent(world, other).serve()
    assert served.lease_id == lease.lease_id
    await world.watch_passes(2)
    assert not claim.done()
    # Not once the home is off it, either.
    await world.provisioner.give_up_retained("ada", "")
    await world.request("eve", home_kind="none", spec=IN_A)
    with pytest.raises(InstanceUnwanted):
        await claim
    await until(lambda: instance_id not in world.cloud.running(), "it ends")
    assert holder(world) is None


async def test_it_fills_its_place_of_the_pool(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world, running=2)
    await attached(world)
    await world.complete_passes(3)
    shown = standing(world)
    assert (shown.waiting, shown.missing, len(shown.ahead)) == (1, 0, 1)
    assert sorted(world.cloud.running()) == sorted(pool.agents)


async def test_it_fills_the_place_of_its_zone(world: World) -> None:
    """Else the instance of another zone would be surplus, and one here bought instead of it."""
    await regulars(world, "ada")
    await worked(world, "ben")
    home = world.provisioner.homes.of("ben", "")
    assert home is not None
    await world.provisioner._state.homes.save(replace(home, zone="us-east-1b"))
    volume_id = home.volume_id or ""
    elsewhere = replace(world.cloud.volumes[volume_id], zone="us-east-1b")
    world.cloud.volumes[volume_id] = elsewhere
    await world.restart(pool=rules(2, homes_ahead=1))
    await until(lambda: world.provisioner._state.pool.starts, "starts of the last weeks")
    world.provisioner.pool.set_specs({"t4": SPEC}, {}, homes_bind=True)
    pool = Pool(world)
    await boot(pool, 2)
    pool.advance(61)  # starts are read again
    await attached(world)
    await world.complete_passes(3)
    zones = {world.cloud.machines[each].instance.zone for each in pool.agents}
    assert zones == {"us-east-1a", "us-east-1b"}
    assert sorted(world.cloud.running()) == sorted(pool.agents)
    assert (standing(world).waiting, standing(world).missing) == (1, 0)


async def test_its_time_is_the_pools_until_its_user_comes(world: World) -> None:
    await regulars(world, "ada")
    world.cloud.prices = dict(SPOT)
    before = await by_cause(world)
    pool = await begin(world, homes_ahead=0)
    pool.advance(400)
    await world.restart(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await attached(world)
    pool.advance(800)
    lease = await world.request("ada", home_kind="ebs", spec=IN_A)
    [agent] = pool.agents.values()
    await agent.serve()
    [segment] = world.now(lease).segments
    assert segment.start == lease.requested_at
    await world.complete_passes(1)
    after = await by_cause(world)
    assert after["pool"] == pytest.approx(0.2 * 1200 / 3600, abs=0.001)
    assert after.get("retention") == before.get("retention")


async def test_a_start_that_the_instance_does_not_fit_gets_the_home_elsewhere(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [instance_id] = pool.agents
    spec = replace(IN_A, instance_types=("g5.xlarge",))
    lease = await world.request("ada", home_kind="ebs", spec=spec)
    await until(lambda: holder(world) is None, "it is detached while the other one is bought")
    await world.boot(2)
    others = {x: world.cloud.machines[x].instance for x in world.cloud.running()}
    [other] = [x for x, each in others.items() if each.instance_type == "g5.xlarge"]
    await Agent(world, other).serve()
    assert holder(world) == other
    assert world.now(lease).state is LeaseState.READY
    await until(lambda: instance_id not in world.cloud.running(), "what waited ends")
    await until(lambda: not kept(world), "forgotten")


async def test_if_the_user_does_not_come_it_ends_and_is_replaced(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [instance_id] = pool.agents
    pool.advance(45 * 60)
    await until(lambda: instance_id not in world.cloud.running(), "its user is late")
    await boot(pool, 1)
    await until(lambda: standing(world).waiting == 1, "another one waits")
    assert holder(world) is None
    before = calls(world)
    world.clock.advance(60)
    await world.complete_passes(3)
    assert calls(world) == before, "and for anybody"


async def test_the_time_of_one_whose_user_does_not_come_is_the_pools(world: World) -> None:
    await regulars(world, "ada")
    world.cloud.prices = dict(SPOT)
    pool = await begin(world, homes_ahead=0)
    pool.advance(300)
    await world.restart(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await attached(world)
    pool.advance(900)
    await world.restart(pool=rules(0))
    name_specs(world)
    await until(lambda: not world.cloud.running(), "the hub keeps none any more")
    await world.complete_passes(1)
    assert (await by_cause(world))["pool"] == pytest.approx(0.2 * 1200 / 3600, abs=0.001)


async def test_none_is_kept_that_a_start_is_about_to_get(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world, homes_ahead=0)
    await world.restart(pool=rules(1, homes_ahead=1))
    lease = await world.request("bob", home_kind="none", spec=IN_A)
    name_specs(world)
    await world.watch_passes(3)
    assert not kept(world)
    [agent] = pool.agents.values()
    assert (await agent.serve()).lease_id == lease.lease_id


async def test_a_home_that_was_detached_by_hand_is_attached_again(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [(instance_id, agent)] = pool.agents.items()
    home = world.provisioner.homes.of("ada", "")
    assert home is not None
    await world.cloud.detach_volume(home.volume_id or "", instance_id)
    listed = world.provisioner._state.instances
    assert await listed.next_listing(TIMEOUT, about=instance_id)
    assert await listed.next_listing(TIMEOUT, about=instance_id)
    await world.request("ada", home_kind="ebs", spec=IN_A)
    await agent.serve()
    assert holder(world) == instance_id


async def test_it_does_not_depend_on_what_becomes_of_instances_after_a_stop(world: World) -> None:
    await regulars(world, "ada")
    await world.restart(pool=rules(1, homes_ahead=1), keeps=frozenset())
    name_specs(world)
    await boot(Pool(world), 1)
    await attached(world)
    await world.complete_passes(3)
    assert len(kept(world)) == 1


async def test_only_so_many_as_the_entry_allows(world: World) -> None:
    await regulars(world, "ada", "ben", "eva")
    pool = await begin(world, running=3, homes_ahead=2)
    pool.advance(61)  # starts are read again
    await attached(world, 2)
    world.clock.advance(60)
    await world.complete_passes(3)
    on = [holder(world, user) for user in ("ada", "ben", "eva")]
    assert sorted(map(bool, on)) == [False, True, True]
    assert len(set(filter(None, on))) == 2, "one to an instance"
    assert set(filter(None, on)) < set(pool.agents)


async def test_nothing_is_kept_ahead_where_no_entry_allows_it(world: World) -> None:
    await regulars(world, "ada")
    before = calls(world)
    await begin(world, homes_ahead=0)
    await world.complete_passes(3)
    assert calls(world) == before
    assert not kept(world)


async def test_a_start_that_waits_for_something_else_changes_nothing(world: World) -> None:
    await regulars(world, "ada")
    await world.restart(pool=rules(1, homes_ahead=1))
    await world.request("bob", home_kind="none", spec=replace(IN_A, instance_types=("g5.xlarge",)))
    name_specs(world)
    await until(lambda: of_pool(world), "an instance of the pool")
    [instance_id] = of_pool(world)
    assert await Agent(world, instance_id).claim(wait=10.0) is None
    await attached(world)


async def test_a_home_in_use_or_in_another_zone_stays_where_it_is(world: World) -> None:
    await regulars(world, "ada", "ben")
    home = world.provisioner.homes.of("ben", "")
    assert home is not None
    await world.change_home(world.provisioner.homes.plan_move(home, "us-east-1b"))
    await world.complete_passes(2)
    lease, _ = await world.ready("ada", home_kind="ebs", spec=IN_A)
    await world.restart(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await until(lambda: len(world.cloud.running()) == 2, "an instance of the pool")
    [other] = set(world.cloud.running()) - {lease.instance_id}
    assert await Agent(world, other).claim(wait=10.0) is None
    await world.complete_passes(3)
    assert holder(world) == lease.instance_id
    assert holder(world, "ben") is None
    assert not kept(world)


async def test_a_home_that_moves_gives_its_instance_up(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [instance_id] = pool.agents
    home = world.provisioner.homes.of("ada", "")
    assert home is not None
    await world.change_home(world.provisioner.homes.plan_move(home, "us-east-1b"))
    await until(lambda: instance_id not in world.cloud.running(), "it ends")


@pytest.mark.parametrize("change", [{"image_id": "ami-2"}, {"user_data": "other"}])
async def test_an_outdated_instance_is_given_up(world: World, change: dict[str, Any]) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [instance_id] = pool.agents
    name_specs(world, **change)
    await until(lambda: instance_id not in world.cloud.running(), "it ends")


async def test_an_entry_that_allows_fewer_gives_the_others_up(world: World) -> None:
    await regulars(world, "ada", "ben")
    pool = await begin(world, running=2, homes_ahead=2)
    pool.advance(61)
    await attached(world, 2)
    await world.restart(pool=rules(2, homes_ahead=1))
    name_specs(world)
    await until(lambda: len(kept(world)) == 1, "one is given up")
    await boot(pool, 2)
    await until(lambda: standing(world).waiting == 1, "another one waits for anybody")


# --- kills, and calls that fail ---


async def test_it_is_known_after_a_kill_in_the_midst_of_the_call(world: World) -> None:
    await regulars(world, "ada")
    attaching = world.cloud.hold("attach_volume", after=True)
    pool = await begin(world)
    [(instance_id, agent)] = pool.agents.items()
    await until(lambda: holder(world) == instance_id, "attached, and not answered")
    await world.kill()
    attaching.set()
    await world.start(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await world.request("bob", home_kind="none", spec=IN_A)
    claim = asyncio.create_task(agent.claim())
    await world.watch_passes(3)
    assert not claim.done()
    lease = await world.request("ada", home_kind="ebs", spec=IN_A)
    granted = await claim
    assert granted is not None
    assert granted.lease.lease_id == lease.lease_id


async def test_its_user_gets_it_after_a_restart(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    await world.restart(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await attached(world)
    assert len(world.cloud.of("attach_volume")) == 4, "two of starts, and EC2 confirms it again"
    lease = await world.request("ada", home_kind="ebs", spec=IN_A)
    [agent] = pool.agents.values()
    assert (await agent.serve()).lease_id == lease.lease_id


@pytest.mark.parametrize("error", [LOST, REFUSED])
@pytest.mark.parametrize("after", [False, True])
async def test_without_the_home_its_user_gets_it_nevertheless(
    world: World, error: CloudError, after: bool
) -> None:
    await regulars(world, "ada")
    world.cloud.fail("attach_volume", error, after=after)
    pool = await begin(world)
    await until(lambda: len(world.cloud.of("attach_volume")) == 3, "two of starts, and this")
    await world.complete_passes(3)
    assert len(world.cloud.of("attach_volume")) == 3, "not again at once"
    await world.request("ada", home_kind="ebs", spec=IN_A)
    [(instance_id, agent)] = pool.agents.items()
    await agent.serve()
    assert holder(world) == instance_id


async def test_one_whose_home_does_not_come_off_ends_nevertheless(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [instance_id] = pool.agents
    world.cloud.fail("detach_volume", REFUSED, times=1000)
    pool.advance(45 * 60)
    await until(lambda: instance_id not in world.cloud.running(), "it ends")
    assert holder(world) is None


async def test_no_home_is_attached_before_it_is_stored_for_whom_the_instance_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await regulars(world, "ada")
    saved = asyncio.Event()
    await world.restart(pool=rules(1, homes_ahead=1))

    async def fail(kept: Kept) -> None:
        saved.set()
        raise StoreError("database or disk is full")

    monkeypatch.setattr(world.store, "save_kept", fail)
    name_specs(world)
    pool = Pool(world)
    await boot(pool, 1)
    await saved.wait()
    await world.watch_passes(2)
    assert len(world.cloud.of("attach_volume")) == 2, "of the starts"
    lease = await world.request("bob", home_kind="none", spec=IN_A)
    [agent] = pool.agents.values()
    assert (await agent.serve()).lease_id == lease.lease_id, "it is anybody's"


async def test_a_record_whose_write_only_seemed_to_fail_gives_nobody_a_used_instance(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write took effect, another user has got the instance since, and a restart reads it."""
    await regulars(world, "ada")
    await world.restart(pool=rules(1, homes_ahead=1))
    save = world.store.save_kept

    async def fail(kept: Kept) -> None:
        await save(kept)
        raise StoreError("no answer")

    monkeypatch.setattr(world.store, "save_kept", fail)
    name_specs(world)
    pool = Pool(world)
    await boot(pool, 1)
    await world.request("bob", home_kind="none", spec=IN_A)
    [(instance_id, agent)] = pool.agents.items()
    lease = await agent.serve()
    await world.kill()
    monkeypatch.undo()
    await world.start(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await world.request("ada", home_kind="ebs", spec=IN_A)
    await world.stop(lease)
    await until(lambda: world.now(lease).state is LeaseState.ENDING)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    await until(lambda: instance_id not in world.cloud.running(), "it ends")
    assert instance_id not in [call.arguments[1] for call in world.cloud.of("attach_volume")]


async def test_a_restored_store_gives_nobody_an_instance_with_a_home_on_it(world: World) -> None:
    """The copy is from before the instance was kept: only a tag says that it was."""
    await regulars(world, "ada")
    pool = await begin(world, homes_ahead=0)
    await world.kill()
    shutil.copy(world.folder / world.database, world.folder / "backup.sqlite")
    await world.start(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await attached(world)
    [(instance_id, agent)] = pool.agents.items()
    await world.kill()
    world.database = "backup.sqlite"
    await world.start(pool=rules(1, homes_ahead=1))
    name_specs(world)
    await world.request("bob", home_kind="none", spec=IN_A)
    assert await agent.claim(wait=10.0) is None
    pool.advance(world.settings.recovery_grace + 1)
    await until(lambda: instance_id not in world.cloud.running(), "it ends")


async def test_the_tag_comes_before_the_home(world: World) -> None:
    await regulars(world, "ada")
    world.cloud.fail("tag", REFUSED, times=1000)
    await begin(world)
    await until(lambda: standing(world).ahead, "kept for ada")
    await world.complete_passes(3)
    assert holder(world) is None


# --- what else happens to the pool, and to its users ---


@pytest.mark.parametrize("error", [LOST, REFUSED])
async def test_a_detachment_that_failed_is_made_again(world: World, error: CloudError) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    [instance_id] = pool.agents
    world.cloud.fail("terminate", REFUSED, times=1000)
    world.cloud.fail("detach_volume", error)
    await world.provisioner.give_up_retained("ada", "")
    await until(lambda: holder(world) is None, "it is detached")
    assert instance_id in world.cloud.running()


async def test_what_is_prepared_beside_it_is_stopped(world: World) -> None:
    await regulars(world, "ada")
    await world.restart(pool=rules(2, homes_ahead=1, stopped=1, market=Market.ON_DEMAND))
    name_specs(world)
    await boot(Pool(world), 3)
    await until(lambda: len(world.cloud.stopped()) == 1, "one waits stopped")
    await attached(world)
    assert holder(world) in world.cloud.running()
    assert len(world.cloud.running()) == 2


@pytest.mark.parametrize("after", [False, True])
async def test_a_start_elsewhere_gets_a_home_whose_attachment_was_not_answered(
    world: World, after: bool
) -> None:
    """Though the instance that has it does not end for long."""
    await regulars(world, "ada")
    world.cloud.fail("attach_volume", LOST, after=after)
    pool = await begin(world)
    await until(lambda: len(world.cloud.of("attach_volume")) == 3, "two of starts, and this")
    world.cloud.fail("terminate", REFUSED, times=1000)
    lease = await world.request(
        "ada", home_kind="ebs", spec=replace(IN_A, instance_types=("g5.xlarge",))
    )
    await boot(pool, 1)
    await until(lambda: len(world.cloud.running()) >= 2, "another instance")
    others = {x: world.cloud.machines[x].instance for x in world.cloud.running()}
    [other] = [x for x, each in others.items() if each.instance_type == "g5.xlarge"]
    await Agent(world, other).serve()
    assert holder(world) == other
    assert world.now(lease).state is LeaseState.READY


async def test_a_start_does_not_wait_for_an_agent_that_has_fallen_silent(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world, running=2)
    await attached(world)
    mine = holder(world) or ""
    [other] = set(pool.agents) - {mine}
    world.clock.advance(70)
    world.provisioner._state.claims.heard(other)
    lease = await world.request("ada", home_kind="ebs", spec=IN_A)
    assert (await pool.agents[other].serve()).lease_id == lease.lease_id
    assert holder(world) == other


async def test_one_that_was_given_up_is_not_followed_by_another(world: World) -> None:
    await regulars(world, "ada")
    pool = await begin(world)
    await attached(world)
    await world.provisioner.give_up_retained("ada", "")
    await until(lambda: not kept(world), "given up")
    await boot(pool, 1)
    pool.advance(120)
    await world.complete_passes(3)
    assert not kept(world)


@pytest.mark.parametrize("chosen", [{"markets": (Market.ON_DEMAND,)}, {"disk_gib": 500}])
async def test_none_is_kept_for_who_makes_other_choices(
    world: World, chosen: dict[str, Any]
) -> None:
    await regulars(world, "ada")
    lease, agent = await world.ready("ada", home_kind="ebs", spec=replace(IN_A, **chosen))
    await world.stop(lease)
    await until(lambda: world.now(lease).state is LeaseState.ENDING)
    await agent.event("stopped")
    await until(lambda: not world.cloud.running(), "its instance ends")
    world.clock.advance(WEEK)
    await begin(world)
    await world.complete_passes(3)
    assert standing(world).waiting == 1
    assert not kept(world)
