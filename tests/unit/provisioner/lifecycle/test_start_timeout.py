"""Starts that do not get ready end within a documented time, and say why."""

from __future__ import annotations

import threading

import pytest

from ec2spawner.core.text import boot_log
from ec2spawner.core.text.boot_log import MAX_LINE
from ec2spawner.provisioner.instances import boot_logs
from ec2spawner.provisioner.lifecycle.start_timeout import STOPPED_GRACE
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import GONE, POWERED_OFF, InstanceState
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.state.instances.launches import RESPONSE_GRACE
from tests.unit.provisioner.world import Agent, World, until

pytestmark = pytest.mark.asyncio

LOG = (
    "[   9.1] cloud-init[7]: E: No space left on device\r\n"
    "[  10.2] cloud-init[7]: this instance powers off\n"
)


def power_off(world: World, instance_id: str, log: str = LOG) -> None:
    world.cloud.consoles[instance_id] = log
    world.cloud._end(instance_id, POWERED_OFF)


async def test_an_instance_that_powers_off_is_replaced_once_and_then_reported(
    world: World,
) -> None:
    lease = await world.request()
    [first] = await world.boot()
    await world.complete_passes(1)
    power_off(world, first)
    await until(lambda: world.now(lease).replaced == 1, "replaced")
    events = [event for event in world.now(lease).events if "getting another" in event.message]
    assert "No space left on device / this instance powers off" in events[-1].detail
    [second] = await world.boot()
    await world.complete_passes(1)
    power_off(world, second)
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert stop.message == (
        "2 instances ended before your server was ready. Try again; if it ends so again, an admin "
        "should look at the image. The end of its boot log: "
        "E: No space left on device / this instance powers off"
    )
    await world.complete_passes(2)
    assert len(world.cloud.requests()) == 2
    assert world.cloud.running() == []


async def test_an_instance_shut_down_during_the_start_is_replaced(world: World) -> None:
    """Its agent says so before a listing does."""
    lease = await world.request()
    [first] = await world.boot()
    agent = Agent(world, first)
    await agent.claim()
    await agent.event("stopped")
    await until(lambda: world.now(lease).replaced == 1, "replaced")
    await until(lambda: first not in world.cloud.running(), "the first is terminated")
    [second] = await world.boot()
    served = await Agent(world, second).serve()
    assert served.lease_id == lease.lease_id


@pytest.mark.parametrize("claimed", [False, True])
async def test_an_instance_that_ec2_ended_for_the_configuration_ends_the_start(
    world: World, claimed: bool
) -> None:
    """The next one would be encrypted with the same key."""
    lease = await world.request()
    [instance_id] = await world.boot()
    if claimed:
        await Agent(world, instance_id).claim()
    await world.complete_passes(1)
    said = "Client.InvalidKMSKey.InvalidState: The KMS key is in an incorrect state"
    world.cloud.end(instance_id, "Client.InvalidKMSKey.InvalidState", said)
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    for words in (said, "tell an admin", "KMS key", "AWSServiceRoleForEC2Spot"):
        assert words in stop.message
    await world.complete_passes(3)
    assert len(world.cloud.requests()) == 1


async def test_an_instance_that_ended_before_its_launch_call_was_answered_counts(
    world: World,
) -> None:
    """No pass has seen it alive."""
    answer = world.cloud.hold("launch", after=True)
    lease = await world.request()
    await until(world.cloud.running, "it is launched")
    [instance_id] = world.cloud.running()
    world.cloud.end(instance_id, "Client.InvalidKMSKey.InvalidState", "The KMS key is disabled")
    listed = world.provisioner.instance
    await until(lambda: (x := listed(instance_id)) and x.state in GONE, "a listing shows that")
    await world.watch_passes(1)
    answer.set()
    assert "The KMS key is disabled" in (await world.stop_of(lease)).message
    await world.complete_passes(2)
    assert len(world.cloud.requests()) == 1


async def test_an_instance_that_ec2_could_not_run_is_replaced_by_another_offer(
    world: World,
) -> None:
    lease = await world.request()
    [first] = await world.boot()
    await world.complete_passes(1)
    bought = world.cloud.machines[first].instance
    world.cloud.end(first, "Server.InternalError", "Server.InternalError: Internal error on launch")
    await until(lambda: world.now(lease).replaced == 1, "replaced")
    [second] = await world.boot()
    other = world.cloud.machines[second].instance
    assert (other.instance_type, other.zone, other.market) != (
        bought.instance_type,
        bought.zone,
        bought.market,
    )


async def test_nothing_is_bought_during_the_diagnosis(world: World) -> None:
    lease = await world.request()
    [first] = await world.boot()
    await world.complete_passes(1)
    gate = world.cloud.hold("console_output")
    power_off(world, first)
    await until(lambda: world.cloud.of("console_output"), "asked for the boot log")
    await world.run_passes(6)  # a log is awaited for some seconds only
    assert world.cloud.running() == []
    assert world.now(lease).state is LeaseState.WAITING
    gate.set()
    [second] = await world.boot()
    assert await Agent(world, second).serve()


async def test_an_unreadable_boot_log_delays_nothing(world: World) -> None:
    lease = await world.request()
    for number in range(2):
        [instance_id] = await world.boot()
        await world.complete_passes(1)
        refused = CloudError("UnauthorizedOperation", "no", retryable=False)
        world.cloud.fail("console_output", refused)
        power_off(world, instance_id)
        await until(lambda n=number: world.now(lease).replaced > n or over(world, lease), "")  # type: ignore[misc]
    assert (await world.stop_of(lease)).message == (
        "2 instances ended before your server was ready. Try again; if it ends so again, an admin "
        "should look at the image."
    )


@pytest.mark.real_time  # on a virtual loop everything runs in one thread
async def test_a_boot_log_is_cleaned_beside_the_event_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 KiB take tens of milliseconds on a busy machine."""
    threads: list[threading.Thread] = []

    def quoted(text: str) -> str:
        threads.append(threading.current_thread())
        return boot_log.quoted(text)

    monkeypatch.setattr(boot_logs, "quoted", quoted)
    world.cloud.consoles["i-1"] = "ec2spawner: no package\n"
    said = await boot_logs.BootLogs(world.cloud).end_of("i-1")
    assert said == "The end of its boot log: ec2spawner: no package"
    assert threads
    assert threading.current_thread() not in threads


async def test_a_hostile_boot_log_is_short_escaped_text(world: World) -> None:
    lease = await world.request()
    for _ in range(2):
        [instance_id] = await world.boot()
        await world.complete_passes(1)
        power_off(world, instance_id, "\x1b[2J<script>\u202e" + "x" * 100_000)
        await until(lambda each=instance_id: each not in world.cloud.running(), "ended")  # type: ignore[misc]
        await world.complete_passes(2)
    stop = await world.stop_of(lease)
    assert "\x1b" not in stop.message
    assert "\u202e" not in stop.message
    assert len(stop.message) < 200 + MAX_LINE


async def test_an_agent_that_never_calls_fails_the_start_with_the_boot_log(
    world: World,
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    world.cloud.consoles[instance_id] = LOG
    world.clock.advance(world.settings.boot_timeout)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.WAITING
    world.clock.advance(1)
    stop = await world.stop_of(lease)
    assert stop.message.startswith(
        f"The machine {instance_id} did not call the hub within 10 minutes of its start"
    )
    assert stop.message.endswith("this instance powers off")
    await world.complete_passes(2)
    assert world.cloud.running() == []
    assert len(world.cloud.requests()) == 1


async def test_hub_downtime_does_not_count(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    await world.kill()
    world.clock.advance(10 * world.settings.boot_timeout)
    await world.start(recovery_grace=10**6)
    await world.complete_passes(2)
    assert world.cloud.running() == [instance_id]
    assert await Agent(world, instance_id).serve()
    assert world.now(lease).state is LeaseState.READY


async def test_an_agent_without_progress_fails_the_start(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim()
    await agent.event("home")
    await agent.event("notebook")
    await world.complete_passes(1)
    world.clock.advance(world.settings.ready_timeout - 1)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.STARTING
    world.clock.advance(1)
    assert (await world.stop_of(lease)).message == (
        "Your server was not ready within 10 minutes of getting its machine: "
        "JupyterLab was still starting."
    )
    await world.complete_passes(2)
    assert world.cloud.running() == []


async def test_an_instance_stopped_by_hand_during_a_start_is_replaced(
    world: World,
) -> None:
    lease = await world.request()
    [first] = await world.boot()
    assert await Agent(world, first).claim()
    await world.complete_passes(1)
    world.cloud.machines[first].ended = InstanceState.STOPPED
    await world.complete_passes(2)
    assert world.now(lease).instance_id == first
    world.clock.advance(STOPPED_GRACE)
    await until(lambda: world.now(lease).replaced == 1, "replaced")
    [second] = await world.boot()
    assert await Agent(world, second).serve()
    await world.complete_passes(2)
    assert world.cloud.machines[first].ended is InstanceState.TERMINATED


async def test_a_hub_killed_between_response_and_listing_buys_nothing_twice(
    world: World,
) -> None:
    world.cloud.listing_lag = 60.0
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.settle()
    await world.restart()
    await world.complete_passes(3)
    assert world.cloud.running() == [instance_id]
    world.clock.advance(60)
    await world.complete_passes(1)
    assert await Agent(world, instance_id).serve()
    assert world.now(lease).instance_id == instance_id
    assert len(world.cloud.requests()) == 1


async def test_an_instance_that_no_listing_confirms_is_awaited_for_two_minutes(
    world: World,
) -> None:
    world.cloud.listing_lag = 86400.0
    await world.request()
    await world.boot()
    await world.settle()
    await world.restart()
    await world.complete_passes(2)
    world.clock.advance(RESPONSE_GRACE.total_seconds() + 1)
    await until(lambda: len(world.cloud.requests()) == 2, "another one is bought")


async def test_launches_of_an_ended_start_do_not_block_others_after_a_restart(
    world: World,
) -> None:
    """EC2 lists an instance that has ended for an unknown time, usually less than an hour."""
    lease = await world.request()
    await world.boot()
    await world.complete_passes(1)
    await world.stop(lease)
    await until(lambda: world.cloud.running() == [], "terminated, as no start waits for it")
    await world.settle()
    world.cloud.machines.clear()
    await world.restart()
    await world.request("bob")
    await until(lambda: len(world.cloud.requests()) == 2, "a machine is bought at once")


async def test_an_unstored_end_is_stored_later_and_leaks_nothing(world: World) -> None:
    world.silence_agents()
    lease, _ = await world.ready()
    world.break_store()
    await world.stop(lease)
    await until(lambda: world.cloud.running() == [], "terminated though nothing can be stored")
    await world.complete_passes(2)
    await world.kill()
    world.fix_store()
    await world.start()
    await until(
        lambda: world.provisioner._state.leases.get(lease.lease_id) is None or over(world, lease)
    )
    assert world.cloud.running() == []
    assert len(world.cloud.requests()) == 1


def over(world: World, lease: Lease) -> bool:
    return world.now(lease).state is LeaseState.ENDED
