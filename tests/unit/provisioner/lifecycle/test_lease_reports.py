"""Phases, starts and ends of leases: each is reported once, also over a restart of the hub."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.limits.bounds import Bounds, Kind, Limits
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.events import (
    LeaseEnded,
    LeaseEvent,
    PhaseEnded,
    StartDenied,
)
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.leases.start import phases_of
from ec2spawner.provisioner.reports import lease_reports
from ec2spawner.provisioner.state import lease_events
from ec2spawner.wire import Market
from tests.unit.provisioner.costs import SPOT
from tests.unit.provisioner.monitoring.counters import counted
from tests.unit.provisioner.world import SPEC, Agent, World, until

COLD = ["queue", "buy", "pending", "agent", "claim", "home", "listen", "route"]
"""Agents of these tests measure nothing, so their phases are part of those that the hub sees."""

COLD_AFTER_RESTART = ["queue", "buy", "agent", "claim", "home", "listen", "route"]
"""A hub that was restarted knows no more when the instance ran."""


async def events(world: World) -> list[LeaseEvent]:
    """What has been reported since the last call."""
    await world.complete_passes(1)
    queue = world.provisioner.lease_events
    if not queue._waiting:
        return []
    batch, dropped = await queue.next_batch()
    assert not dropped
    return batch


def phases(found: list[LeaseEvent]) -> list[str]:
    return [event.phase.phase for event in found if isinstance(event, PhaseEnded)]


def ends(found: list[LeaseEvent]) -> list[LeaseEnded]:
    return [event for event in found if isinstance(event, LeaseEnded)]


async def test_phases_and_the_end_of_a_server_are_reported_once(world: World) -> None:
    world.cloud.prices = dict(SPOT)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    counts = {
        phase: counted("ec2spawner_start_phase_seconds_count", phase=phase, market="spot")
        for phase in COLD
    }
    lease, agent = await world.ready("ada", server="gpu")
    assert phases(await events(world)) == [], "JupyterHub has not added its route"
    world.provisioner.route_added(lease.lease_id)
    found = await events(world)
    assert phases(found) == COLD
    for phase, before in counts.items():
        name = "ec2spawner_start_phase_seconds_count"
        assert counted(name, phase=phase, market="spot") == before + 1
    last = found[-1]
    assert isinstance(last, PhaseEnded)
    subject = last.subject
    assert (subject.lease_id, subject.user, subject.server) == (lease.lease_id, "ada", "gpu")
    assert (subject.profile, subject.instance_type) == ("t4", "g4dn.xlarge")
    assert (subject.market, subject.zone) == (Market.SPOT, "us-east-1a")
    routed = world.now(lease).marks.routed
    world.clock.advance(2400)
    world.provisioner.route_added(lease.lease_id)  # again, when JupyterHub checks its routes
    assert world.now(lease).marks.routed == routed
    await agent.heartbeat()
    world.clock.advance(1200)
    await agent.heartbeat(idle_since=world.clock() - timedelta(seconds=1200))
    await world.stop(lease, "idle")
    world.clock.advance(36)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    [end] = ends(await events(world))
    assert (end.reason, end.start) == ("idle", "ready")
    assert end.ready_seconds == pytest.approx(3600, abs=1)
    hour = {"used": 0.2 * 2 / 3, "idle": 0.2 / 3, "overhead": 0.002}
    assert end.usd == pytest.approx(hour, abs=1e-4)
    assert await events(world) == []


async def test_a_restart_of_the_hub_reports_nothing_twice(world: World) -> None:
    world.silence_agents()
    lease, _ = await world.ready("ada")
    world.provisioner.route_added(lease.lease_id)
    ready = {"outcome": "ready", "market": "spot"}
    await events(world)
    starts = counted("ec2spawner_start_seconds_count", **ready)
    await world.restart()
    assert await events(world) == []
    assert counted("ec2spawner_start_seconds_count", **ready) == starts
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    assert [end.reason for end in ends(await events(world))] == ["user"]


async def test_a_server_that_continues_on_another_instance_has_no_phases_to_report(
    world: World,
) -> None:
    lease, _ = await world.ready("ada")
    world.provisioner._state.leases.remember(lease.lease_id, continues="lease-0")
    world.provisioner.route_added(lease.lease_id)
    assert phases(await events(world)) == []


async def test_the_route_of_a_server_that_is_stopping_ends_no_start(world: World) -> None:
    lease, _ = await world.ready("ada")
    await world.stop(lease)
    world.provisioner.route_added(lease.lease_id)
    assert world.now(lease).marks.routed is None, "nobody could use it"


async def test_a_start_that_continues_after_a_restart_is_reported_from_there(world: World) -> None:
    lease = await world.request("ada")
    [instance_id] = await world.boot()
    await until(lambda: world.now(lease).marks.answered is not None, "the response")
    await world.complete_passes(1)
    await world.restart()
    await Agent(world, instance_id).serve()
    world.provisioner.route_added(lease.lease_id)
    assert phases(await events(world)) == COLD_AFTER_RESTART


async def test_the_time_of_a_lost_instance_is_reported_as_queue(world: World) -> None:
    lease = await world.request("ada")
    [first] = await world.boot()
    await world.complete_passes(1)
    world.clock.advance(40)
    world.cloud.end(first, "Server.InternalError")
    await until(lambda: first not in world.cloud.running() and world.cloud.running(), "another")
    [second] = world.cloud.running()
    await Agent(world, second).serve()
    world.provisioner.route_added(lease.lease_id)
    found = [event.phase for event in await events(world) if isinstance(event, PhaseEnded)]
    assert [phase.phase for phase in found] == COLD
    assert found[0].seconds == pytest.approx(40, abs=2)
    assert sum(phase.seconds for phase in found[1:]) < 2
    assert phases_of(world.now(lease)).lost == pytest.approx(40, abs=2)


async def test_an_instance_that_waited_has_nothing_to_boot(world: World) -> None:
    cancelled = await world.request("bob")
    [instance_id] = await world.boot()
    async with world.no_pass:  # none may find that nobody needs the instance
        await world.stop(cancelled)
        claiming = asyncio.create_task(Agent(world, instance_id).serve())
        await until(lambda: world.provisioner._state.claims.is_waiting(instance_id), "its claim")
        world.clock.advance(100)
        lease = await world.request("eve")
    await claiming
    world.provisioner.route_added(lease.lease_id)
    found = phases_of(world.now(lease))
    assert [each.phase for each in found.phases] == ["queue", "claim", "home", "listen", "route"]
    assert found.phases[0].seconds > 0, "until its claim was looked at again"
    assert found.total < 5


async def test_a_start_that_a_limit_refuses_at_once_is_reported(world: World) -> None:
    await world.restart(limits=Limits(Bounds(servers=1)), spending_days=31)
    await world.request("ada", payer="group:lab")
    with pytest.raises(LimitReached):
        await world.request("ada", server="second", payer="group:lab")
    [denied] = [each for each in await events(world) if isinstance(each, StartDenied)]
    subject = denied.subject
    assert (subject.user, subject.server, subject.payer) == ("ada", "second", "group:lab")
    assert (denied.scope, denied.limit) == ("user:ada", Kind.SERVERS)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("UnauthorizedOperation", "refused"), ("InsufficientInstanceCapacity", "sold-out")],
)
async def test_a_start_that_got_no_instance(world: World, code: str, outcome: str) -> None:
    labels = {"outcome": outcome, "market": "none"}
    before = counted("ec2spawner_start_seconds_count", **labels)
    if outcome == "refused":
        world.cloud.fail("launch", CloudError(code, "no", retryable=False))
    else:
        world.cloud.sell_out(Market.SPOT)
    lease = await world.request(spec=replace(SPEC, markets=(Market.SPOT,)))
    await world.state(lease, LeaseState.ENDED)
    found = await events(world)
    [phase] = [event.phase for event in found if isinstance(event, PhaseEnded)]
    assert (phase.phase, phase.is_complete) == ("queue", False)
    [end] = ends(found)
    assert (end.start, end.ready_seconds, sum(end.usd.values())) == (outcome, 0, 0)
    assert end.subject.market is None
    assert counted("ec2spawner_start_seconds_count", **labels) == before + 1


async def test_a_defect_in_the_reports_ends_no_pass(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.silence_agents()
    lease, agent = await world.ready("ada")
    await events(world)
    with monkeypatch.context() as broken:
        broken.delattr(lease_reports, "costs_of")
        await world.stop(lease)
        await agent.event("stopped")
        await world.state(lease, LeaseState.ENDED)
        assert ends(await events(world)) == []
    assert caplog.text.count("Reporting a lease failed") == 1
    bob, _ = await world.ready("bob")
    await world.stop(bob)
    await world.state(bob, LeaseState.ENDED)
    assert [end.subject.user for end in ends(await events(world))] == ["bob"]


async def test_the_time_of_gpus_is_counted_by_what_they_do(world: World) -> None:
    def seconds() -> dict[str, float]:
        name = "ec2spawner_gpu_seconds_total"
        return {each: counted(name, purpose=each) for each in ("used", "idle", "overhead")}

    _, ada = await world.ready("ada")
    _, bob = await world.ready("bob", spec=replace(SPEC, instance_types=("g4dn.12xlarge",)))
    await world.request("eve")
    await world.boot(3)
    await bob.heartbeat(idle_since=world.clock() - timedelta(minutes=1))
    await world.complete_passes(1)
    before = seconds()
    world.clock.advance(100)
    await ada.heartbeat()
    await world.complete_passes(1)
    grown = {each: after - before[each] for each, after in seconds().items()}
    assert grown["used"] == pytest.approx(100, rel=0.02)
    assert grown["idle"] == pytest.approx(400, rel=0.02), "of four GPUs"
    assert grown["overhead"] == pytest.approx(100, rel=0.02), "it boots for eve"
    assert world.provisioner.figures().gpus == {"used": 1, "idle": 4, "overhead": 1}


async def test_a_reader_that_is_slow_loses_the_oldest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, _ = await world.ready("ada")
    world.provisioner.route_added(lease.lease_id)
    found = await events(world)
    monkeypatch.setattr(lease_events, "MAX_WAITING", 3)
    queue = lease_events.LeaseEvents()
    for event in found:
        queue.add(event)
    batch, dropped = await queue.next_batch()
    assert batch == found[-3:]
    assert dropped == len(found) - 3
