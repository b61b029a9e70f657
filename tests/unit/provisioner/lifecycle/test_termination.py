"""The one way on which every server ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.core.sleep.step_budgets import FLUSH_SECONDS
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.leases.mounts import Mounts
from ec2spawner.provisioner.state.agent_contact import FLUSH_SILENCE
from tests.unit.provisioner.world import TIMEOUT, World, until
from tests.virtual_time import virtual_loop

THROTTLED = CloudError("RequestLimitExceeded", "slow down", retryable=True)
FORBIDDEN = CloudError("UnauthorizedOperation", "no", retryable=False)


async def test_a_stop_saves_then_detaches_then_terminates(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    [volume] = world.cloud.volumes.values()
    await world.stop(lease)
    await world.watch_passes(2)
    assert world.now(lease).state is LeaseState.ENDING
    assert world.cloud.running() == [agent.instance_id], "the agent still saves"
    await agent.event("stopped")
    ended = await world.state(lease, LeaseState.ENDED)
    names = [call.name for call in world.cloud.calls]
    assert names.index("detach_volume") < names.index("terminate")
    assert world.cloud.of("detach_volume")[0].arguments == (volume.volume_id, agent.instance_id)
    assert world.cloud.running() == []
    assert ended.segments[-1].end == ended.ended_at == world.clock()


async def test_an_unresponsive_agent_is_awaited_for_a_limited_time(world: World) -> None:
    world.silence_agents()
    await world.restart(stop_timeout=15.0)
    lease, _ = await world.ready()
    began = virtual_loop().time()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    assert virtual_loop().time() - began >= world.settings.stop_timeout
    assert world.cloud.running() == []


async def test_a_home_that_may_be_mounted_is_left_to_the_shutdown(world: World) -> None:
    lease, _ = await world.ready(home_kind="ebs")
    world.silence_agents()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.of("detach_volume") == []
    assert world.cloud.running() == []


async def test_a_home_in_use_is_left_to_the_shutdown(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped", home_released=False)
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.of("detach_volume") == []
    assert world.cloud.running() == []


async def test_a_killed_hub_learns_that_a_home_is_in_use(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await world.restart()
    await agent.heartbeat(has_stopped=True, home_released=False)
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.of("detach_volume") == []


async def test_a_flushing_agent_is_awaited_for_longer(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    began = virtual_loop().time()
    stop_of_jupyterhub = asyncio.create_task(
        world.provisioner.wait_ended(lease.lease_id, world.settings.stop_timeout)
    )
    while virtual_loop().time() - began < world.settings.stop_timeout + FLUSH_SECONDS - 60:
        await agent.heartbeat(dirty_bytes=2**30)
        await asyncio.sleep(5)
    assert world.now(lease).state is LeaseState.ENDING
    [shown] = world.provisioner.overview.servers()
    assert "1.1 GB" in shown.busy_because
    assert "1.1 GB" in world.provisioner.flush_progress(lease.lease_id)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    assert len(world.cloud.of("detach_volume")) == 1
    await stop_of_jupyterhub


@pytest.mark.parametrize(
    "files",
    [{"home_kind": "none"}, {"home_kind": "ebs", "mounts": Mounts(temporary_home=True)}],
)
async def test_files_that_end_with_the_lease_are_not_awaited(
    world: World, files: dict[str, Any]
) -> None:
    lease, agent = await world.ready(**files)
    await world.stop(lease)
    began = virtual_loop().time()
    while world.now(lease).state is not LeaseState.ENDED:
        await agent.heartbeat(dirty_bytes=2**30)
        await asyncio.sleep(5)
    assert virtual_loop().time() - began <= world.settings.stop_timeout + 10


async def test_the_lease_pays_while_its_home_is_flushed(priced: World) -> None:
    lease, agent = await priced.ready(home_kind="ebs")
    await priced.stop(lease)
    await agent.heartbeat(dirty_bytes=2**30)
    priced.clock.advance(500)
    spending = priced.provisioner._state.spending.of("ada", priced.provisioner._state.leases)
    assert spending.today == pytest.approx(0.2 * 500 / 3600, rel=0.01), "what limits are judged by"


async def test_an_agent_that_flushes_without_end_is_not_awaited(world: World) -> None:
    """Whoever is root on an instance can have it report anything."""
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    began = virtual_loop().time()
    while world.now(lease).state is not LeaseState.ENDED:
        await agent.heartbeat(dirty_bytes=1)
        await asyncio.sleep(5)
    most = world.settings.stop_timeout + FLUSH_SECONDS
    assert most <= round(virtual_loop().time() - began, 6) <= most + 60
    assert world.cloud.of("detach_volume") == []
    assert world.cloud.running() == []


async def test_restarts_of_the_hub_do_not_begin_the_wait_anew(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    world.clock.advance(world.settings.stop_timeout + FLUSH_SECONDS)
    await world.restart()
    began = virtual_loop().time()
    while world.now(lease).state is not LeaseState.ENDED:
        await agent.heartbeat(dirty_bytes=1)
        await asyncio.sleep(5)
    assert virtual_loop().time() - began <= world.settings.stop_timeout + 60


async def test_an_agent_that_falls_silent_while_it_flushes(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await asyncio.sleep(world.settings.stop_timeout - 5)
    await agent.heartbeat(dirty_bytes=2**30)
    began = virtual_loop().time()
    await world.state(lease, LeaseState.ENDED)
    assert virtual_loop().time() - began <= FLUSH_SILENCE + 10


async def test_what_an_agent_has_reported_to_a_killed_hub_it_repeats(world: World) -> None:
    """The store does not know of it, and a session may take minutes to save."""
    lease, agent = await world.ready()
    await world.stop(lease)
    await world.restart(stop_timeout=600.0)
    await agent.heartbeat()
    await world.watch_passes(2)
    assert world.now(lease).state is LeaseState.ENDING
    await agent.heartbeat(has_stopped=True)
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []


async def test_no_server_that_runs_has_stopped(world: World) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat(has_stopped=True)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY


async def test_the_first_reason_of_a_stop_is_stored_and_reported_once(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease, "idle")
    await world.stop(lease, "user")
    await agent.event("stopped")
    assert (await world.stop_of(lease)).reason == "idle"
    await until(lambda: world.ended)
    await world.complete_passes(1)
    assert [ended.lease_id for ended in world.ended] == [lease.lease_id]
    assert world.now(lease).sealed_start == "", "what it was started with is forgotten"


async def test_a_notebook_that_ends_by_itself_ends_its_server(world: World) -> None:
    lease, agent = await world.ready()
    await agent.event("stopped", "killed for memory")
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []


@pytest.mark.parametrize("error", [THROTTLED, FORBIDDEN])
async def test_a_termination_that_fails_is_repeated_until_it_works(
    world: World, error: CloudError
) -> None:
    lease, agent = await world.ready()
    world.cloud.fail("terminate", error, times=4)
    await world.stop(lease)
    await agent.event("stopped")
    await until(lambda: world.cloud.running() == [])
    assert len(world.cloud.of("terminate")) == 5


async def test_a_termination_that_is_refused_is_not_repeated_at_full_speed(
    world: World,
) -> None:
    lease, agent = await world.ready()
    world.cloud.fail("terminate", FORBIDDEN, times=10_000)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    state = world.provisioner._state
    state.settings = replace(state.settings, busy_interval=1000.0)
    before = len(world.cloud.of("terminate")), len(world.cloud.of("list_instances"))
    for _ in range(50):
        world.provisioner._state.wake()
        await asyncio.sleep(1)
    after = len(world.cloud.of("terminate")), len(world.cloud.of("list_instances"))
    assert after[0] - before[0] <= 2, "one that was due, and one after a listing under way"
    assert after[1] - before[1] <= 2


async def test_claims_of_foreign_instances_do_not_cause_constant_listings(world: World) -> None:
    await world.restart(busy_interval=1000.0)
    before = len(world.cloud.of("list_instances"))
    for _ in range(50):
        world.provisioner._state.instances.refresh_soon()
        await asyncio.sleep(1)
    assert len(world.cloud.of("list_instances")) - before <= 1, "one is due, and then a pause"


async def test_a_failing_detach_does_not_prevent_the_termination(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    world.cloud.fail("detach_volume", THROTTLED)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []
    assert len(world.cloud.volumes) == 1


async def test_a_termination_with_a_failed_step_is_resumed(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    world.cloud.fail("detach_volume", RuntimeError("a bug"))
    await world.stop(lease)
    await agent.event("stopped")
    await until(lambda: world.ended)
    assert world.now(lease).state is LeaseState.ENDED
    assert world.cloud.running() == []


async def test_an_unstored_end_takes_effect_and_is_stored_later(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease)
    world.break_store()
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: world.ended, "JupyterHub is notified")
    assert world.cloud.running() == []
    world.clock.advance(3600)
    await world.complete_passes(1)
    assert world.provisioner._state.leases.get(lease.lease_id) is not None, (
        "not forgotten before it is"
    )
    world.fix_store()
    await world.complete_passes(1)
    await world.restart()
    assert world.provisioner._state.leases.get(lease.lease_id) is None
    assert world.provisioner._state.leases.last_ended("ada", "") is not None


async def test_records_of_ended_leases_are_dropped(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    kept, still_there = await world.ready("kept")
    claims, launches = world.provisioner._state.claims, world.provisioner._state.launches
    assert agent.instance_id in claims.unwanted
    assert len(launches.intents) == 2
    await still_there.heartbeat_often(3599)
    await world.complete_passes(1)
    assert agent.instance_id in claims.unwanted, "EC2 lists it still"
    del world.cloud.machines[agent.instance_id]
    await still_there.heartbeat_often(2)
    await world.complete_passes(1)
    assert claims.unwanted == {}
    assert not claims.is_bound(agent.instance_id)
    assert claims.is_bound(still_there.instance_id)
    [intent] = launches.intents.values()
    assert intent.instance_ids == (still_there.instance_id,)
    assert world.now(kept).state is LeaseState.READY


async def test_waiting_for_a_termination_times_out_with_a_message(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease)
    with pytest.raises(TimeoutError):
        await world.provisioner._termination.wait_ended(lease.lease_id, 0.1)
    waiting = asyncio.create_task(
        world.provisioner._termination.wait_ended(lease.lease_id, TIMEOUT)
    )
    await agent.event("stopped")
    await waiting
    assert world.now(lease).state is LeaseState.ENDED


async def test_the_reason_of_a_stop_survives_a_restart(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease, "idle")
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.settle()
    await world.restart()
    last = world.provisioner._state.leases.last_ended("ada", "")
    assert last is not None
    assert last.stop is not None
    assert last.stop.reason == "idle"


async def test_closing_the_hub_ends_no_server(world: World) -> None:
    lease, _ = await world.ready()
    await asyncio.wait_for(world.provisioner.close(), 60)
    assert len(world.cloud.running()) == 1
    await world.start()
    assert world.now(lease).state is LeaseState.READY


async def test_a_long_ended_lease_is_dropped(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    world.clock.advance(599)
    await world.complete_passes(1)
    assert world.provisioner._state.leases.get(lease.lease_id) is not None, (
        "a late heartbeat gets the reason"
    )
    world.clock.advance(2)
    await world.complete_passes(1)
    assert world.provisioner._state.leases.get(lease.lease_id) is None
