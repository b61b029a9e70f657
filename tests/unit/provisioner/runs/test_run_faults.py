"""Runs when something comes in between: at an await, twice, too often, or too late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.leases.run import Run, RunState
from ec2spawner.provisioner.runs.runs import Owner, TooManyRuns
from ec2spawner.provisioner.state import run_bytes
from ec2spawner.provisioner.state import runs as registry
from ec2spawner.provisioner.store.databases.database import StoreTimeoutError
from ec2spawner.provisioner.store.store import StoreError
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

ADA = Owner("ada")


@pytest.fixture(autouse=True)
def _runs_are_allowed(world: World) -> None:
    allow_runs(world, stop_timeout=0.0)


async def test_a_run_that_is_cancelled_while_its_lease_is_read_stays_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    assert agent.lease is not None
    async with world.no_pass:
        await world.stop(world.now(agent.lease), "lost")
        await world.state(agent.lease, LeaseState.ENDED)
        await world.kill()
    stored_lease = type(world.store).stored_lease
    reached, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(self: Any, lease_id: str) -> Lease | None:
        reached.set()
        await may_answer.wait()
        return await stored_lease(self, lease_id)

    monkeypatch.setattr(type(world.store), "stored_lease", slow)
    await world.start()
    await reached.wait()
    await world.provisioner.runs.cancel(ADA, number)
    may_answer.set()
    await until(lambda: run_of(world, number).is_cleared, "nothing left")
    run = run_of(world, number)
    assert (run.state, run.outcome) == (RunState.ENDED, "cancelled")


async def test_progress_that_comes_too_late_changes_no_words(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    save = world.store.runs.save_result

    async def slow(*arguments: Any) -> None:
        await world.provisioner.runs.cancel(ADA, number)
        await save(*arguments)

    monkeypatch.setattr(world.store.runs, "save_result", slow)
    late = await report(agent, "progress", cells_done=1, cells_total=2, message="x", result="eA==")
    assert late is None
    assert seen(world, number).message == "You cancelled it"


async def test_a_run_that_is_cancelled_while_its_document_is_read_does_not_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    read = world.store.runs.document

    async def slow(*arguments: Any) -> str:
        await world.provisioner.runs.cancel(ADA, number)
        return await read(*arguments)

    monkeypatch.setattr(world.store.runs, "document", slow)
    assert await report(agent, "begin") is None
    assert seen(world, number).message == "You cancelled it"


async def test_a_run_whose_end_is_stored_late_frees_its_instance_then(world: World) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    world.run_sql(
        "CREATE TRIGGER full BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    with pytest.raises(StoreError):
        await world.provisioner.runs.cancel(ADA, number)
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id], "a restart would begin the run again"
    world.run_sql("DROP TRIGGER full")
    await until(lambda: not world.cloud.running(), "the end of its instance")
    await until(lambda: run_of(world, number).is_cleared, "nothing left")
    assert run_of(world, number).outcome == "cancelled"


async def test_a_result_that_cannot_be_stored_while_progress_is_stored_is_stored_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [number] = await submit(world)
    agent = await executor(world, number)
    save = world.store.runs.save
    reached, may_write = asyncio.Event(), asyncio.Event()

    async def slow(run: Run, result: str | None, now: datetime) -> None:
        if result is not None:
            raise StoreTimeoutError("the disk is busy")
        reached.set()
        await may_write.wait()
        await save(run, result, now)

    monkeypatch.setattr(world.store.runs, "save", slow)
    await report(agent, "progress", cells_done=1, cells_total=2)
    await reached.wait()
    with pytest.raises(StoreTimeoutError):
        await complete(agent, "ZG9uZQ==")
    may_write.set()
    await world.settle()
    monkeypatch.setattr(world.store.runs, "save", save)
    await until(lambda: world.provisioner._state.runs.is_stored(number), "the result in the store")
    assert await world.provisioner.runs.result(ADA, number) == "ZG9uZQ=="


async def test_a_submission_of_which_it_is_not_known_whether_it_is_stored_is_made_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = world.store.runs.add

    async def late(*arguments: Any) -> None:
        await add(*arguments)
        raise StoreTimeoutError("what was asked for may still happen")

    monkeypatch.setattr(world.store.runs, "add", late)
    with pytest.raises(StoreTimeoutError):
        await submit(world, 2, request_id="r")
    monkeypatch.setattr(world.store.runs, "add", add)
    assert await submit(world, 2, request_id="r") == [1, 2]
    await world.restart()
    assert [each.number for each in world.provisioner.runs.of_user(ADA, 10)] == [2, 1]


async def test_one_user_cannot_fill_the_queue_however_many_requests_are_sent_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_OPEN", 25)
    sent = await asyncio.gather(*(submit(world, 2) for _ in range(4)), return_exceptions=True)
    [first, second, *refused] = sorted(sent, key=lambda each: isinstance(each, BaseException))
    assert (first, second) == ([1, 2], [3, 4])
    for each in refused:
        assert isinstance(each, TooManyRuns)
        assert "you have 4 runs" in str(each)
        assert "at most 5 may" in str(each)
    await world.provisioner.runs.cancel(ADA, 1, all_of_array=True)
    await until(lambda: run_of(world, 2).is_cleared, "free places")
    assert await submit(world, 3)


async def test_five_users_who_take_what_they_can_leave_a_place_for_everybody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_OPEN", 100)
    for user, most in zip("abcde", (20, 16, 13, 11, 8), strict=True):
        assert await submit(world, most, user=user)
        with pytest.raises(TooManyRuns, match=f"at most {most} may"):
            await submit(world, user=user)
    for user in "fghijklmno":
        assert await submit(world, user=user)


async def test_runs_that_are_kept_have_a_bound_for_all_users_and_for_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody submits arrays and cancels all but one run of each, again and again."""
    monkeypatch.setattr(registry, "MAX_KNOWN", 100)
    runs = world.provisioner._state.runs
    for _ in range(8):
        array = await submit(world, 5)
        for each in array[1:]:
            await world.provisioner.runs.cancel(ADA, each)
        await until(partial(_are_cleared, world, array[1:]), "their end")
        assert len(runs.of_user("ada")) <= 20
    assert [run.number for run in runs.of_user("ada") if run.number % 5 == 1] == [*range(36, 0, -5)]
    await until(lambda: not runs.forgotten, "the end of their records")
    [(stored,)] = world.run_sql("SELECT count(*) FROM run")
    assert stored == len(runs.of_user("ada"))
    await world.restart()
    assert await submit(world, user="eve") == [41], "no number is given twice"


def _are_cleared(world: World, numbers: Sequence[int]) -> bool:
    return all(run_of(world, number).is_cleared for number in numbers)


async def test_a_result_makes_room_for_itself_among_those_that_are_in_the_home(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_bytes, "MAX_BYTES", 5 * (len(SOURCE) + 20))
    runs = world.provisioner.runs
    for number in (1, 2):
        assert await submit(world) == [number]
        await complete(await executor(world, number), result="A" * 12)
        await until(lambda n=number: run_of(world, n).is_cleared, "its end")  # type: ignore[misc]
        if number == 1:
            await runs.deliver(ADA, "", 1)
    assert await runs.result(ADA, 1) == ""
    assert not seen(world, 1).has_result
    assert await runs.result(ADA, 2) == "A" * 12

    assert await submit(world) == [3]
    await complete(await executor(world, 3), result="B" * 12)
    ended = seen(world, 3)
    assert (ended.outcome, ended.has_result) == ("succeeded", False)
    assert "It is done. Its result was not kept: your runs and their results take" in ended.message
    assert await runs.result(ADA, 2) == "A" * 12, "it waits for its server"
    with pytest.raises(TooManyRuns, match="no more is free for you"):
        await world.provisioner._state.runs.add([run_of(world, 3)], "C" * 24)
    await world.restart()
    with pytest.raises(TooManyRuns, match="no more is free for you"):
        await world.provisioner._state.runs.add([run_of(world, 3)], "C" * 24)


async def test_results_that_the_store_does_not_take_do_not_fill_the_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_UNSTORED_BYTES", 10)
    agents = [await executor(world, (await submit(world))[0]) for _ in range(3)]
    world.run_sql(
        "CREATE TRIGGER full BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    for agent in agents:
        with pytest.raises(StoreError):
            await complete(agent, result="A" * 8)
    states = [run_of(world, number).state for number in (1, 2, 3)]
    assert states == [RunState.ENDED, RunState.ENDED, RunState.STARTED]
    world.run_sql("DROP TRIGGER full")
    await until(lambda: run_of(world, 2).is_cleared, "the others in the store")
    await complete(agents[2], result="A" * 8)
    assert seen(world, 3).has_result


async def test_what_many_ended_runs_of_one_user_push_out_is_never_anothers(world: World) -> None:
    [number] = await submit(world, user="ann")
    agent = await executor(world, number)
    await complete(agent)
    mine = await submit(world, 20)
    await world.provisioner.runs.cancel(ADA, mine[0], all_of_array=True)
    await until(lambda: all(run_of(world, x).is_cleared for x in [number, *mine]), "all over")
    runs = world.provisioner._state.runs
    runs.forget_ended(5, world.clock() - timedelta(days=30))
    assert len(world.provisioner.runs.of_user(ADA, 100)) == 5
    assert runs.count_undelivered("ann", "") == 1
    runs.forget_ended(5, world.clock() + timedelta(days=1))
    assert world.provisioner.runs.of_user(Owner("ann"), 100) == []
    assert runs.count_undelivered("ann", "") == 0


async def test_an_array_is_forgotten_as_a_whole_once_all_of_it_has_ended(world: World) -> None:
    array = await submit(world, 5, notify=True, request_id="sweep")
    for each in array[:4]:
        await world.provisioner.runs.cancel(ADA, each)
    await until(lambda: all(run_of(world, x).is_cleared for x in array[:4]), "the end of four")
    runs, everything = world.provisioner._state.runs, world.clock() + timedelta(days=1)
    runs.forget_ended(2, everything)
    assert [each.number for each in world.provisioner.runs.array(ADA, array[4])] == array
    assert await submit(world, 5, request_id="sweep") == array, "a repeated submission"
    await world.provisioner.runs.cancel(ADA, array[4])
    await until(lambda: run_of(world, array[4]).is_cleared, "its end")
    [ended] = runs.ended_to_report(world.clock() - timedelta(days=1))
    assert [each.number for each in ended] == array
    runs.forget_ended(2, everything)
    assert world.provisioner.runs.of_user(ADA, 10) == []


@pytest.mark.parametrize("runs", [1, 2])
async def test_what_was_executed_goes_with_the_last_run_of_its_submission(
    world: World, runs: int
) -> None:
    first, *others = await submit(world, runs)
    for each in others:
        await world.provisioner.runs.cancel(ADA, each)
    await until(lambda: all(run_of(world, each).is_cleared for each in others), "their end")
    assert await world.store.runs.document("source", first) != ""
    await world.provisioner.runs.cancel(ADA, first)

    async def is_gone() -> bool:
        return await world.store.runs.document("source", first) == ""

    for _ in range(100):
        if await is_gone():
            break
        await world.watch_passes(1)
    assert await is_gone()


async def test_a_pause_moves_with_the_clock_of_the_hub(world: World) -> None:
    world.cloud.refuse("InsufficientInstanceCapacity")
    [number] = await submit(world)
    await start_due(world)
    await until(lambda: run_of(world, number).not_before is not None, "a pause")
    world.clock.jump(-7200)
    world.provisioner._state.wake()

    def is_soon() -> bool:
        not_before = run_of(world, number).not_before
        return not_before is not None and not_before - world.clock() < timedelta(minutes=1)

    await until(is_soon, "the pause to follow")
