"""The store cannot be written for a while: servers keep running, ends are stored later."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from ec2spawner.core.ledger.rehearsals import KEY
from ec2spawner.provisioner.model.leases.lease import IntentState, LeaseState
from ec2spawner.provisioner.state import start_durations
from ec2spawner.provisioner.store.databases import postgresql, sqlite
from ec2spawner.provisioner.store.store import Store, StoreError
from ec2spawner.wire import IdlePolicy, Step
from tests.postgresql_server import PostgreSQL
from tests.small_disk import mounted, use_up_bytes
from tests.unit.provisioner.world import Agent, World, until


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(postgresql, "RETRY_SECONDS", 0.0)


@contextlib.contextmanager
def locked(world: World) -> Iterator[None]:
    """Another program holds the file: as with a full disk, nothing can be written."""
    with contextlib.closing(
        sqlite3.connect(world.folder / world.database, isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# --- starts ---


async def test_a_start_that_cannot_be_stored_fails_and_is_never_bought(world: World) -> None:
    with locked(world):
        with pytest.raises(StoreError, match="locked"):
            await world.request()
        await world.complete_passes(1)
    await world.complete_passes(2)
    assert world.cloud.of("launch") == []
    assert list(world.provisioner._state.leases.open()) == []
    await world.restart()
    assert list(world.provisioner._state.leases.open()) == []
    lease, _ = await world.ready()
    assert lease.state is LeaseState.READY


async def test_a_rehearsal_that_cannot_be_stored_is_refused_and_costs_nothing(
    world: World,
) -> None:
    lease, _ = await world.ready()
    rehearsals, ledger = world.provisioner.rehearsals, world.store.ledger
    with locked(world), pytest.raises(StoreError, match="locked"):
        await rehearsals.charge(lease, 2, by_owner=True)
    assert not rehearsals.is_rehearsed(lease)
    await world.complete_passes(1)
    assert lease.instance_id is not None
    assert not await ledger.overhead_costs(lease.instance_id, KEY)
    await rehearsals.charge(lease, 2, by_owner=True)
    [stored] = await ledger.overhead_costs(lease.instance_id, KEY)
    assert stored.nano_usd == 200_000_000


async def test_a_start_that_waits_buys_nothing_until_the_call_can_be_stored(world: World) -> None:
    window, time = 0.6, asyncio.get_running_loop().time
    await world.restart(batch_window=window)
    await world.watch_passes(
        1
    )  # a window that has begun before would end before the file is locked
    request, due = await world.request(), time() + window
    with locked(world):
        await until(lambda: time() > due, "the call to be due")
        await world.watch_passes(1)
        assert world.cloud.of("launch") == []
    [instance_id] = await world.boot()
    await Agent(world, instance_id).serve()
    assert world.now(request).state is LeaseState.READY


async def test_a_hub_on_a_full_disk_refuses_starts_keeps_servers_and_recovers(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk", mebibytes=4) as disk:
        await world.kill()
        shutil.copy(world.folder / world.database, disk)
        world.folder = disk
        await world.start()
        staying, agent = await world.ready("staying")
        leaving, other = await world.ready("leaving")
        launches = len(world.cloud.of("launch"))
        use_up_bytes(disk)
        with pytest.raises(StoreError, match="make room on its disk"):
            await world.request("new")
        await world.complete_passes(2)
        assert (await agent.heartbeat()).cost is not None
        await world.stop(leaving)
        await other.event("stopped")
        await world.state(leaving, LeaseState.ENDED)
        assert len(world.cloud.of("launch")) == launches
        (disk / "big").unlink()
        await world.complete_passes(2)
        await world.restart()
        assert world.now(staying).state is LeaseState.READY
        assert world.provisioner._state.leases.last_ended("leaving", "") is not None
        lease, _ = await world.ready("new")
        assert lease.state is LeaseState.READY
        await world.kill()
        world.folder = tmp_path
        await world.start()


# --- servers that run ---


async def test_running_servers_continue_and_a_stopped_one_is_closed_in_the_account(
    world: World,
) -> None:
    staying, agent = await world.ready("staying")
    leaving, other = await world.ready("leaving")
    with locked(world):
        world.clock.advance(60)
        assert (await agent.heartbeat()).cost is not None
        await world.stop(leaving)
        await other.event("stopped")
        ended = await world.state(leaving, LeaseState.ENDED)
        await until(lambda: world.cloud.running() == [agent.instance_id], "its instance to end")
        assert world.now(staying).state is LeaseState.READY
    await world.complete_passes(2)
    await world.restart()
    kept = world.provisioner._state.leases.last_ended("leaving", "")
    assert kept == ended
    assert kept.segments[-1].end is not None
    assert world.now(staying).state is LeaseState.READY


async def test_usual_durations_are_available_while_the_store_is_read_only(
    world: World,
) -> None:
    await world.ready()
    usual = await world.provisioner.start_durations.of_steps("t4")
    assert usual
    with locked(world):
        assert await world.provisioner.start_durations.of_steps("t4") == usual


async def test_a_slow_store_is_queried_once_for_many_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read, answers = 0, Store.start_durations, asyncio.Event()

    async def slow(store: Store, profile: str) -> Mapping[Step, float]:
        nonlocal reads
        reads += 1
        await answers.wait()
        return await read(store, profile)

    monkeypatch.setattr(Store, "start_durations", slow)
    monkeypatch.setattr(start_durations, "TIMEOUT", 0.01)
    await world.ready()
    usual = world.provisioner.start_durations
    for _ in range(3):
        assert await usual.of_starts(["t4", "t4"]) == {}
    assert reads == 1
    answers.set()
    await world.settle()
    monkeypatch.setattr(start_durations, "TIMEOUT", 5.0)
    assert await usual.of_steps("t4")
    assert reads == 2


# --- what has happened ---


async def test_an_unstored_response_is_stored_later_and_not_requested_again(
    world: World,
) -> None:
    world.run_sql(
        "CREATE TRIGGER full BEFORE UPDATE ON intent BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    world.fix_store()
    await world.complete_passes(1)
    await world.restart()
    [intent] = world.provisioner._state.launches.intents.values()
    assert intent.state is IntentState.ANSWERED
    await Agent(world, instance_id).serve()
    assert world.now(lease).state is LeaseState.READY
    assert len(world.cloud.of("launch")) == 1


async def test_the_cost_of_an_unneeded_instance_is_accounted_for_later(world: World) -> None:
    begun = world.clock()
    lease = await world.request()
    [instance_id] = await world.boot()
    world.clock.advance(60)
    with locked(world):
        await world.stop(lease, "failed")
        await until(lambda: not world.cloud.running(), "the instance to end")
        await world.complete_passes(1)
    await world.complete_passes(1)
    [segment] = await world.store.ledger.overhead(begun)
    assert segment.instance_id == instance_id
    assert segment.end is not None


async def test_its_cost_is_accounted_for_even_if_the_store_is_unreadable_at_its_end(
    world: World,
) -> None:
    begun = world.clock()
    lease = await world.request()
    [instance_id] = await world.boot()
    world.clock.advance(60)
    world.run_sql("ALTER TABLE segment RENAME TO hidden")
    await world.stop(lease, "failed")
    await until(lambda: not world.cloud.running(), "the instance to end")
    await world.complete_passes(1)
    del world.cloud.machines[instance_id]  # no listing shows it any more
    await world.complete_passes(1)
    world.run_sql("ALTER TABLE hidden RENAME TO segment")
    await world.complete_passes(1)
    [segment] = await world.store.ledger.overhead(begun)
    assert segment.instance_id == instance_id
    assert segment.end is not None
    assert (segment.end - segment.start).total_seconds() == pytest.approx(60, abs=1)


async def test_a_server_is_ready_once_that_is_stored_and_its_agent_says_it_until_then(
    world: World,
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    wait = world.provisioner._starts.wait_ready(lease.lease_id, 60)
    waiting = asyncio.create_task(wait)
    world.break_store()
    for _ in range(2):
        with pytest.raises(StoreError):
            await agent.event("ready")
    await world.complete_passes(1)
    assert not waiting.done(), "JupyterHub believes what the next process would not know"
    waiting.cancel()
    await world.kill()
    world.fix_store()
    await world.start()
    assert world.now(lease).state is LeaseState.STARTING
    await agent.event("ready")
    ready = await world.provisioner._starts.wait_ready(lease.lease_id, 60)
    assert ready.state is LeaseState.READY
    [stored] = (await world.store.load()).leases
    assert stored.state is LeaseState.READY


# --- a database server ---


@pytest.fixture
async def on_postgresql(tmp_path: Path, postgresql: PostgreSQL) -> AsyncIterator[World]:
    running = World(tmp_path)
    running.store_url = postgresql.new_database()
    await running.start()
    yield running
    await running.kill()


async def test_a_database_outage_ends_no_server_and_requests_are_carried_out(
    on_postgresql: World, postgresql: PostgreSQL
) -> None:
    """Another hub may hold the store meanwhile, and know more."""
    world = on_postgresql
    world.silence_agents()
    silent, silent_agent = await world.ready("silent")
    leaving, agent = await world.ready(
        "leaving", idle=IdlePolicy(server_seconds=3600), home_kind="ebs"
    )
    postgresql.stop()
    try:
        await world.watch_passes(1)  # one under way has read the store, and would see the jump
        world.clock.advance(timedelta(days=1).total_seconds())
        await world.watch_passes(3)
        assert world.now(silent).state is LeaseState.READY
        with pytest.raises(StoreError, match="start the database server"):
            await world.request("new")
        assert (await agent.heartbeat()).stop is None
        await world.stop(leaving)
        await agent.event("stopped")
        await world.state(leaving, LeaseState.ENDED)
        await until(lambda: world.cloud.running() == [silent_agent.instance_id], "its end")
    finally:
        await asyncio.to_thread(postgresql.start)
    assert (await world.stop_of(silent)).reason == "lost"
    await world.complete_passes(2)
    assert world.cloud.running() == []
    await world.restart()
    for user in ("silent", "leaving"):
        kept = world.provisioner._state.leases.last_ended(user, "")
        assert kept is not None
        assert kept.segments[-1].end is not None


async def test_a_hub_that_lost_its_store_to_another_terminates_nothing(
    on_postgresql: World, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_seconds = "ec2spawner.provisioner.store.databases.postgresql.RETRY_SECONDS"
    world = on_postgresql
    _, agent = await world.ready()
    postgresql.stop()
    with pytest.raises(StoreError):
        await world.store.hold()
    monkeypatch.setattr(retry_seconds, 3600.0)  # it does not come back before the other one
    follower = World(world.folder)
    # With a clock of its own: it must not take the silent agent of the older lease for lost.
    follower.cloud, follower.store_url = world.cloud, world.store_url
    reconcile = world.provisioner._reconciler.reconcile
    world.provisioner._reconciler.reconcile = _never  # type: ignore[method-assign]
    await asyncio.to_thread(postgresql.start)
    await follower.start()
    try:
        lease, newer = await follower.ready("new")
        monkeypatch.setattr(retry_seconds, 0.0)
        world.provisioner._reconciler.reconcile = reconcile  # type: ignore[method-assign]
        world.clock.advance(world.settings.recovery_grace + 1)  # of a lease that it does not know
        with pytest.raises(StoreError, match="another hub holds"):
            await world.provisioner._reconciler.reconcile()
        assert set(world.cloud.running()) == {agent.instance_id, newer.instance_id}
        assert follower.now(lease).state is LeaseState.READY
    finally:
        await follower.kill()


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
