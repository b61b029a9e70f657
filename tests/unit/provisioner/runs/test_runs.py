"""Runs: from the queue through lost instances to their one result."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from ec2spawner.core.alarms.alarm import Kind
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.runs.queue import QueueRules
from ec2spawner.hub.app.server_rename import rename_server
from ec2spawner.hub.spawn.home_choice import release_home
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.leases.run import RunState
from ec2spawner.provisioner.model.settings import HomeRules
from ec2spawner.provisioner.runs.runs import LIMIT_PAUSE, NoSuchRun, Owner
from ec2spawner.provisioner.store.store import StoreError
from tests.unit.provisioner.costs import paid_for_nothing
from tests.unit.provisioner.monitoring.test_alarms import evaluate, raised
from tests.unit.provisioner.runs.submitted import (
    SOURCE,
    allow_runs,
    complete,
    executor,
    report,
    run_of,
    seen,
    start_due,
    submit,
)
from tests.unit.provisioner.world import World, until


@pytest.fixture(autouse=True)
def _runs_are_allowed(world: World) -> None:
    allow_runs(world, stop_timeout=0.0)


def ended(world: World, number: int) -> bool:
    return run_of(world, number).state is RunState.ENDED


async def until_cleared(world: World, number: int) -> None:
    await until(lambda: run_of(world, number).is_cleared, "nothing left")


# --- the usual way ---


async def test_a_run_ends_with_its_result_and_its_instance_with_it(world: World) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    work = await report(agent, "begin")
    assert work is not None
    assert (work.document, work.attempt, work.parameters) == (SOURCE, 1, {"seed": 0})
    await report(agent, "progress", cells_done=1, cells_total=3, message="Cell 2", result="aGFs")
    assert (seen(world, number).state, seen(world, number).message) == ("running", "Cell 2")
    assert await world.provisioner.runs.result(Owner("ada"), number) == "aGFs"

    await complete(agent)

    await until_cleared(world, number)
    assert world.cloud.running() == []
    found = seen(world, number)
    assert (found.state, found.outcome, found.attempts) == ("ended", "succeeded", 1)
    assert await world.provisioner.runs.result(Owner("ada"), number) == "ZG9uZQ=="


async def test_the_runs_of_one_submission_are_an_array_and_bought_together(world: World) -> None:
    numbers = await submit(world, 5)
    assert numbers == [1, 2, 3, 4, 5]
    await start_due(world)
    await until(lambda: len(world.cloud.running()) == 5, "instances")
    assert len(world.cloud.requests()) == 1
    assert {each.array for each in world.provisioner.runs.array(Owner("ada"), 3)} == {1}
    [last] = await submit(world)
    assert (last, seen(world, last).array) == (6, 0)


async def test_no_more_have_an_instance_than_the_hub_allows(world: World) -> None:
    allow_runs(world, QueueRules(at_once=2))
    first, *_ = await submit(world, 3)
    await start_due(world)
    assert len(world.provisioner.runs.due()) == 0
    await until(lambda: len(world.cloud.running()) == 2, "instances")
    await world.provisioner.runs.cancel(Owner("ada"), first + 1)
    await until(lambda: len(world.provisioner.runs.due()) == 1, "a free place")


async def test_the_result_waits_for_the_home_of_the_server(world: World) -> None:
    _, server = await world.ready()
    [number] = await submit(world)
    agent = await executor(world, number)
    before = await server.heartbeat()
    assert before.undelivered_runs == 0
    held = asyncio.ensure_future(server.heartbeat(hold=30.0))
    await complete(agent)
    assert (await held).undelivered_runs == 1, "at once"

    [waiting] = world.provisioner.runs.undelivered(Owner("ada"), "", 10)
    assert waiting.number == number
    await world.provisioner.runs.deliver(Owner("ada"), "lab", number)
    assert not seen(world, number).delivered, "that is another home"
    await world.provisioner.runs.deliver(Owner("ada"), "", number)
    assert (await server.heartbeat()).undelivered_runs == 0
    await world.restart()
    assert seen(world, number).delivered


# --- lost instances ---


async def test_an_interrupted_run_begins_again_and_is_charged_for_both(priced: World) -> None:
    world = priced
    [number] = await submit(world)
    first = await executor(world, number)
    await first.heartbeat_often(4000)  # more than the first hour, which EC2 would not charge
    world.cloud.end(first.instance_id)
    await until(lambda: run_of(world, number).state is RunState.QUEUED, "queued again")
    assert await report(first, "end", succeeded=True, result="b2xk") is None, "it has no say"

    second = await executor(world, number)
    work = await report(second, "begin")
    assert work is not None
    assert work.attempt == 2
    world.clock.advance(600)
    await complete(second)
    await until_cleared(world, number)

    found = seen(world, number)
    assert (found.outcome, found.attempts) == ("succeeded", 2)
    assert found.usd == pytest.approx(0.20 * 4600 / 3600, rel=0.02)
    assert [each.reason for each in run_of(world, number).attempts] == ["interruption", ""]


async def test_a_run_that_loses_every_instance_fails_in_the_end(world: World) -> None:
    [number] = await submit(world, retries=1)
    for _ in range(2):
        agent = await executor(world, number)
        world.cloud.end(agent.instance_id)
        await until(lambda: run_of(world, number).state is not RunState.STARTED, "its end")
    assert (seen(world, number).outcome, seen(world, number).attempts) == ("failed", 2)


async def test_a_run_that_finds_no_capacity_waits_for_it(world: World) -> None:
    world.cloud.refuse("InsufficientInstanceCapacity")
    [number] = await submit(world)
    await start_due(world)
    await until(lambda: run_of(world, number).state is RunState.QUEUED, "queued again")
    run = run_of(world, number)
    assert run.not_before is not None
    assert run.not_before > world.clock()
    assert (run.tries.waits, run.attempts) == (1, ())
    assert world.provisioner.runs.due() == []


async def test_a_limit_lets_a_run_wait(world: World) -> None:
    await world.restart(limits=Limits(Bounds(servers=1)), runs=QueueRules(20))
    await world.ready()
    [number] = await submit(world)
    await start_due(world)
    assert world.provisioner.runs.due() == []
    assert (seen(world, number).state, run_of(world, number).not_before) == ("queued", None)
    assert "server" in seen(world, number).message
    world.clock.advance(2 * LIMIT_PAUSE.total_seconds())
    assert [run.number for run in world.provisioner.runs.due()] == [number]


# --- cancel, cap, deadline ---


async def test_one_run_of_an_array_is_cancelled_or_all_of_them(world: World) -> None:
    first, second, third = await submit(world, 3)
    await start_due(world)
    await until(lambda: len(world.cloud.running()) == 3, "instances")
    ada, runs = Owner("ada"), world.provisioner.runs
    assert [each.number for each in await runs.cancel(ada, first)] == [first]
    await until(lambda: len(world.cloud.running()) == 2, "the instances of the others")
    found = await runs.cancel(ada, third, all_of_array=True)
    assert [each.number for each in found] == [first, second, third]
    assert {each.outcome for each in found} == {"cancelled"}
    await until(lambda: world.cloud.running() == [], "no instance")


async def test_users_see_and_change_their_own_runs_only(world: World) -> None:
    [number] = await submit(world)
    runs = world.provisioner.runs
    with pytest.raises(NoSuchRun):
        runs.one(Owner("eve"), number)
    with pytest.raises(NoSuchRun):
        await runs.cancel(Owner("eve"), number)
    with pytest.raises(NoSuchRun):
        await runs.result(Owner("eve"), number)
    with pytest.raises(NoSuchRun):
        await runs.deliver(Owner("eve"), "", number)
    assert runs.of_user(Owner("eve"), 10) == []


async def test_runs_follow_their_server_to_its_new_name(world: World) -> None:
    [done] = await submit(world, server="lab")
    await complete(await executor(world, done))
    [waiting] = await submit(world, server="lab", request_id="r-1")
    await rename_server(world.provisioner, "ebs", "ada", "lab", "gpu")
    for _ in range(2):
        runs = world.provisioner.runs
        assert runs.of_user(Owner("ada", server="lab"), 10) == []
        assert len(runs.of_user(Owner("ada", server="gpu"), 10)) == 2
        assert [x.number for x in runs.undelivered(Owner("ada"), "gpu", 10)] == [done]
        assert [x.number for x in runs.submitted(Owner("ada", server="gpu"), "r-1")] == [waiting]
        await world.restart()


@pytest.mark.parametrize("home_kind", ["ebs", "efs", "none"])
async def test_a_server_has_runs_of_a_deleted_one_of_its_name_only_with_its_files(
    world: World, home_kind: str
) -> None:
    lab = Owner("ada", server="lab")
    await world.ready(server="lab", home_kind=home_kind)
    [number] = await submit(world, server="lab")
    await release_home(world.provisioner, home_kind, "ada", "lab")
    await world.restart(home=HomeRules(delete_forever=True))
    is_kept = home_kind != "none"
    assert [x.number for x in world.provisioner.runs.of_user(lab, 10)] == [number] * is_kept
    if home_kind == "ebs":
        await release_home(world.provisioner, home_kind, "ada", "lab")
        assert world.provisioner.runs.of_user(lab, 10) == []
    assert seen(world, number).state == "queued", "its user sees it as before"


async def test_a_dollar_cap_holds(priced: World) -> None:
    world = priced
    [number] = await submit(world, max_usd=0.10)
    agent = await executor(world, number)
    for _ in range(1000):
        if ended(world, number):
            break
        world.clock.advance(5.0)
        await agent.heartbeat()
        await world.watch_passes(1)
    await until_cleared(world, number)
    found = seen(world, number)
    assert found.outcome == "cost-cap"
    assert found.usd is not None
    assert 0.09 < found.usd <= 0.10


async def test_a_limit_in_dollars_ends_servers_and_runs_and_refuses_the_next_start(
    priced: World,
) -> None:
    world, lab = priced, "group:lab"
    await world.restart(limits=Limits(scopes={lab: Bounds(usd_per_month=0.45)}), spending_days=31)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.settle()
    server, of_server = await world.ready("bob", payer=lab)
    own, of_own = await world.ready("bob", server="own")
    [number] = await submit(world, payer=lab)
    of_run = await executor(world, number)
    await report(of_run, "progress", cells_done=1, message="Cell 2", result="aGFs")
    for _ in range(100):
        if ended(world, number) and world.now(server).state is LeaseState.ENDED:
            break
        world.clock.advance(60.0)
        for agent in (of_server, of_own, of_run):
            await agent.heartbeat()
        await world.watch_passes(1)
    await until_cleared(world, number)
    assert (await world.stop_of(server)).reason == "budget"
    found = seen(world, number)
    assert (found.outcome, found.attempts) == ("limit", 1)
    assert "$0.45 per month of group lab is used up" in found.message
    assert await world.provisioner.runs.result(Owner("ada"), number) == "aGFs"
    assert world.now(own).state is LeaseState.READY, "it is charged to bob"

    with pytest.raises(LimitReached, match="limit of group:lab"):
        await world.request(payer=lab)
    [waiting] = await submit(world, payer=lab)
    await start_due(world)
    assert seen(world, waiting).state == "queued"
    assert "$0 left of the limit of group lab" in seen(world, waiting).message


@pytest.mark.parametrize("starts", [True, False])
async def test_a_run_ends_at_its_deadline_done_or_not(world: World, starts: bool) -> None:
    [number] = await submit(world, deadline=world.clock() + timedelta(hours=1))
    if starts:
        await executor(world, number)
    world.clock.advance(3601)
    world.provisioner._state.wake()
    await until_cleared(world, number)
    assert seen(world, number).outcome == "deadline"
    assert world.cloud.running() == []


async def test_what_was_bought_for_a_run_whose_deadline_is_reached_is_its_users(
    priced: World,
) -> None:
    [number] = await submit(priced, deadline=priced.clock() + timedelta(hours=1))
    await start_due(priced)
    await priced.boot()
    priced.clock.advance(3601)
    priced.provisioner._state.wake()
    await until_cleared(priced, number)
    assert await paid_for_nothing(priced) == {"ada"}


# --- the hub is killed, or its store fails ---


async def test_what_a_killed_hub_has_begun_is_neither_lost_nor_done_twice(world: World) -> None:
    [number] = await submit(world)
    await world.restart()
    agent = await executor(world, number)
    await world.restart()
    assert run_of(world, number).begun
    async with world.no_pass:
        await report(agent, "progress", cells_done=1, cells_total=2, result="aGFsZg==")
        await complete(agent)
        await world.kill()
    await world.start()
    await until_cleared(world, number)
    assert world.cloud.running() == []
    assert await world.provisioner.runs.result(Owner("ada"), number) == "ZG9uZQ=="
    assert seen(world, number).outcome == "succeeded"


async def test_an_attempt_that_ended_as_the_hub_was_killed_is_charged(priced: World) -> None:
    world = priced
    [number] = await submit(world)
    agent = await executor(world, number)
    lease = agent.lease
    assert lease is not None
    world.clock.advance(1800)
    async with world.no_pass:
        await world.stop(world.now(lease), "interruption")
        await world.state(lease, LeaseState.ENDED)
        await world.kill()
    await world.start()
    await until(lambda: run_of(world, number).state is RunState.QUEUED, "queued again")
    assert seen(world, number).usd == pytest.approx(0.10, rel=0.02)


async def test_a_start_that_a_killed_hub_did_not_store_is_made_again(world: World) -> None:
    [number] = await submit(world)
    await world.provisioner._state.runs.change(
        number, state=RunState.STARTED, lease_id="l-never-stored"
    )
    await world.restart()
    await until(lambda: run_of(world, number).state is RunState.QUEUED, "queued again")
    world.clock.advance(60)
    agent = await executor(world, number)
    await complete(agent)
    await until_cleared(world, number)


async def test_a_lease_that_its_run_does_not_know_ends(world: World) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    await world.provisioner._state.runs.change(
        number, state=RunState.QUEUED, lease_id="", not_before=world.clock() + timedelta(days=1)
    )
    world.provisioner._state.wake()
    await until(lambda: world.cloud.running() == [], "no instance")
    assert await report(agent, "begin") is None


async def test_an_end_that_cannot_be_stored_is_reported_again(world: World) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    refuse = "CREATE TRIGGER full BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'full'); END"
    world.run_sql(refuse)
    with pytest.raises(StoreError):
        await complete(agent)
    with pytest.raises(StoreError):
        await complete(agent, result="b3RoZXI=")
    world.run_sql("DROP TRIGGER full")
    await complete(agent, result="b3RoZXI=")
    await world.restart()
    assert seen(world, number).outcome == "succeeded"
    assert await world.provisioner.runs.result(Owner("ada"), number) == "ZG9uZQ==", (
        "the first counts"
    )


async def test_a_second_report_of_the_end_changes_nothing(world: World) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    await complete(agent)
    assert await report(agent, "end", succeeded=False, message="no", result="bm8=") is None
    assert await report(agent, "progress", cells_done=0, cells_total=9, result="bm8=") is None
    found = seen(world, number)
    assert (found.outcome, found.cells_total) == ("succeeded", 0)
    assert await world.provisioner.runs.result(Owner("ada"), number) == "ZG9uZQ=="


# --- its home ---


async def test_the_home_of_a_run_outlives_its_instances_and_ends_with_it(world: World) -> None:
    [number] = await submit(world)
    first = await executor(world, number, home_kind="ebs")
    [volume] = world.cloud.volumes
    world.cloud.end(first.instance_id)
    await until(lambda: run_of(world, number).state is RunState.QUEUED, "queued again")
    second = await executor(world, number, home_kind="ebs")
    assert list(world.cloud.volumes) == [volume], "so that a checkpoint is found"
    await complete(second)
    await until_cleared(world, number)
    await until(lambda: not world.cloud.volumes, "the volume deleted")


async def test_numbers_are_not_used_twice(world: World) -> None:
    await submit(world, 3)
    await world.restart()
    assert await submit(world) == [4]


async def test_a_run_with_a_cap_waits_until_prices_are_known(world: World) -> None:
    [number] = await submit(world, max_usd=0.001)  # spot prices are not known here
    await start_due(world)
    assert (seen(world, number).state, seen(world, number).outcome) == ("queued", None)
    assert "until prices are known" in seen(world, number).message
    assert world.provisioner.runs.due() == []


async def test_a_cap_that_pays_for_no_instance_ends_the_run_at_once(priced: World) -> None:
    [number] = await submit(priced, max_usd=0.001)
    await start_due(priced)
    assert seen(priced, number).outcome == "cost-cap"
    assert priced.cloud.running() == []


# --- submissions, and the message of the end ---


async def test_a_repeated_submission_makes_no_second_run(world: World) -> None:
    first, again = await asyncio.gather(
        submit(world, 2, request_id="r-1"), submit(world, 2, request_id="r-1")
    )
    assert first == again == [1, 2]
    await world.restart()
    assert await submit(world, 2, request_id="r-1") == [1, 2]
    assert await submit(world, user="eve", request_id="r-1") == [3]
    assert await submit(world) == [4]
    assert await submit(world) == [5], "without an id each is another one"


async def test_the_id_of_a_submission_is_unique_for_its_server(world: World) -> None:
    assert await submit(world, request_id="r-1") == [1]
    assert await submit(world, server="lab", request_id="r-1") == [2]
    await world.restart()
    assert await submit(world, server="lab", request_id="r-1") == [2]
    runs = world.provisioner.runs
    assert [each.number for each in runs.submitted(Owner("ada", server="gpu"), "r-1")] == []


async def test_the_end_of_a_run_is_reported_to_who_asked_for_it(world: World) -> None:
    await world.restart(alarm_destinations=("json #1",), runs=QueueRules(20))
    array = await submit(world, 2, notify=True)
    [quiet] = await submit(world)
    runs = world.provisioner.runs
    await runs.cancel(Owner("ada"), array[1])
    await runs.cancel(Owner("ada"), quiet)
    await evaluate(world)
    assert await raised(world) == [], "one of them has not ended"
    await runs.cancel(Owner("ada"), array[0])
    await evaluate(world)
    await evaluate(world)
    assert await raised(world) == [(Kind.RUN_ENDED, "array 1")]


async def test_an_agent_knows_when_the_cap_or_the_deadline_of_its_run_is_reached(
    priced: World,
) -> None:
    world = priced
    in_an_hour = world.clock() + timedelta(hours=1)
    [number] = await submit(world, max_usd=0.10, deadline=in_an_hour)
    agent = await executor(world, number)
    await agent.heartbeat_often(360)
    left = (await agent.heartbeat()).ends_in_seconds
    assert left == pytest.approx(1800 - 360, abs=10), "0.10 USD are half an hour"
    world.provisioner._state.runs.remember(number, max_usd=1.0)
    left = (await agent.heartbeat()).ends_in_seconds
    assert left == pytest.approx(3600 - 360, abs=10)
    world.provisioner._state.runs.remember(number, max_usd=None, deadline=None)
    assert (await agent.heartbeat()).ends_in_seconds is None
