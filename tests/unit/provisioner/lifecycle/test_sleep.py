"""A session that is saved before its server stops, and what the hub keeps of it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from ec2spawner.config import Options
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.core.sleep.session_end import SessionEnd
from ec2spawner.hub.pages.spawn_page.asleep import Expired, expired
from ec2spawner.hub.pages.spawn_page.session_asleep import last_session
from ec2spawner.hub.spawn.home_choice import release_home
from ec2spawner.provisioner.model.leases.events import SessionEnded, SessionSlept
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.sleeping_session import EXPIRY_SHOWN, SleepingSession
from ec2spawner.provisioner.sleeping import CannotSleep
from ec2spawner.provisioner.state import sleeping_sessions
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.wire import IdlePolicy, LostVariable, SavedSession, Stop
from tests.stored import sleeping
from tests.unit.provisioner.lifecycle.test_continuation import boot_for, notice, successor
from tests.unit.provisioner.world import Agent, World
from tests.user_accounts import fake_user
from tests.virtual_time import virtual_loop

DAY = 86400.0
RULES = SleepRules(save_seconds=300, max_bytes=2**30, keep_seconds=30 * DAY)
SLEEPS = IdlePolicy(server_seconds=3600, then="sleep")


def saved(world: World, session_id: str = "s-1") -> SavedSession:
    return sleeping().session.model_copy(update={"id": session_id, "slept_at": world.clock()})


async def serving(world: World, **changes: Any) -> tuple[Lease, Agent]:
    return await world.ready(home_kind="ebs", **{"idle": SLEEPS, "sleep": RULES, **changes})


async def asleep(world: World, session_id: str = "s-1", **changes: Any) -> Lease:
    """A server that has stopped, with what its agent has saved."""
    lease, agent = await serving(world, **changes)
    world.clock.advance(60)
    await world.provisioner.end(lease.lease_id, Stop(reason="user", sleep="user"))
    await agent.event("stopped", session=saved(world, session_id))
    return await world.state(lease, LeaseState.ENDED)


def found(world: World, server: str = "") -> SleepingSession | None:
    return world.provisioner.sleeping.of("ada", server)


# --- the stop ---


async def test_an_idle_server_saves_its_session_first(world: World) -> None:
    lease, agent = await serving(world)
    idle_since = world.clock()
    for _ in range(60):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    stop = (await world.state(lease, LeaseState.ENDING)).stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.save_seconds) == ("idle", "idle", 300)
    assert (await agent.heartbeat(idle_since)).stop == stop, "the agent gets it"


async def test_a_server_that_is_too_old_saves_its_session_first(world: World) -> None:
    lease, agent = await serving(world, idle=replace_age(SLEEPS, 600))
    await agent.heartbeat_often(600)
    stop = (await world.state(lease, LeaseState.ENDING)).stop
    assert stop is not None
    assert (stop.reason, stop.sleep) == ("max-age", "limit")


def replace_age(policy: IdlePolicy, seconds: float) -> IdlePolicy:
    return policy.model_copy(update={"max_age_seconds": seconds})


async def test_a_stop_by_the_user_saves_nothing(world: World) -> None:
    lease, _ = await serving(world)
    await world.stop(lease)
    stop = world.now(lease).stop
    assert stop is not None
    assert (stop.sleep, stop.save_seconds) == (None, 0)


async def test_a_start_that_is_ended_saves_nothing(world: World) -> None:
    lease = await world.request(idle=SLEEPS, sleep=RULES)
    await world.stop(lease, "budget")
    stop = await world.stop_of(lease)
    assert stop.sleep is None


async def test_the_agent_is_awaited_for_as_long_as_it_may_save(world: World) -> None:
    world.silence_agents()
    await world.restart(stop_timeout=10.0)
    lease, _ = await serving(world, sleep=replace(RULES, save_seconds=30.0))
    began = virtual_loop().time()
    await world.stop(lease, "idle")
    assert world.provisioner.stop_seconds(lease.lease_id) == 40.0
    await world.state(lease, LeaseState.ENDED)
    assert virtual_loop().time() - began >= 40.0
    assert world.cloud.running() == []


async def test_a_second_stop_does_not_shorten_a_sleep(world: World) -> None:
    lease, agent = await serving(world)
    await world.stop(lease, "idle")
    await world.stop(lease, "user")
    assert world.provisioner.stop_seconds(lease.lease_id) == world.settings.stop_timeout + 300
    await world.watch_passes(2)
    assert world.cloud.running() == [agent.instance_id], "it still saves"
    await agent.event("stopped", session=saved(world))
    assert (await world.stop_of(lease)).reason == "idle"
    assert found(world) is not None


@pytest.mark.parametrize("saved_for", [20.0, 61.0, 200.0])
async def test_a_save_that_is_cut_short_leaves_all_of_the_stops_own_time(
    world: World, saved_for: float
) -> None:
    lease, agent = await serving(world)
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    await pass_time(world, saved_for)
    cut_at = await cut_short(world, agent)
    await world.state(lease, LeaseState.ENDED)
    took = virtual_loop().time() - cut_at
    assert world.settings.stop_timeout <= took < world.settings.stop_timeout + 10


async def test_a_save_that_is_cut_short_after_its_time_lengthens_no_stop(world: World) -> None:
    await world.restart(stop_timeout=60.0)
    lease, agent = await serving(world)
    began = virtual_loop().time()
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    await pass_time(world, 350)
    await cut_short(world, agent)
    await world.state(lease, LeaseState.ENDED)
    assert virtual_loop().time() - began < 370, "300 to save, and 60"


async def test_a_save_that_is_cut_short_before_the_hub_is_restarted_is_awaited_once(
    world: World,
) -> None:
    lease, agent = await serving(world)
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    await pass_time(world, 200)
    await cut_short(world, agent)
    for left in (60, 30):  # `RETURN_GRACE` at least, and less than anew
        await world.restart()
        again = virtual_loop().time()
        assert (await agent.heartbeat()).stop is not None
        await pass_time(world, left - 10)
        assert world.now(lease).state is LeaseState.ENDING
        await pass_time(world, 5 if left == 60 else 0)
    await world.state(lease, LeaseState.ENDED)
    assert virtual_loop().time() - again < 60


async def test_a_home_that_is_flushed_after_a_cut_is_awaited_as_after_any_stop(
    world: World,
) -> None:
    lease, agent = await serving(world)
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    await pass_time(world, 290)
    await cut_short(world, agent)
    for _ in range(10):
        await agent.heartbeat(dirty_bytes=2**30)
        await pass_time(world, 10)
    assert world.now(lease).state is LeaseState.ENDING
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)


async def test_after_a_cut_nothing_waits_for_a_silent_agent_longer_than_its_lease_lasts(
    world: World,
) -> None:
    """JupyterHub would complete the stop that waits so long, on the server that is started next."""
    lease, agent = await serving(world)
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    waits = world.provisioner.wait_agent_stopped(lease.lease_id, 7.0 + RULES.save_seconds)
    waiting = asyncio.create_task(waits)
    await pass_time(world, 20)
    await cut_short(world, agent)
    await world.state(lease, LeaseState.ENDED)
    ended_at = virtual_loop().time()
    await waiting
    assert virtual_loop().time() - ended_at < 1.0


async def pass_time(world: World, seconds: float) -> None:
    """On the loop's clock and the hub's, with passes."""
    now = virtual_loop().time()
    end = now + seconds
    while now < end:
        await asyncio.sleep(min(5.0, end - now))
        if end - now > 5.0:
            await world.run_passes(1)
        before, now = now, virtual_loop().time()
        world.clock.advance(now - before)


async def cut_short(world: World, agent: Agent) -> float:
    """When that was, on the loop's clock."""
    await world.provisioner.sleeping.cut_short("ada", "")
    stop = (await agent.heartbeat()).stop
    assert stop is not None
    assert stop.sleep is None
    return virtual_loop().time()


async def test_its_user_puts_a_running_server_to_sleep(world: World) -> None:
    lease, agent = await serving(world, idle=IdlePolicy(then="stop"))
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    stop = world.now(lease).stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.save_seconds) == ("user", "user", 300)
    with pytest.raises(CannotSleep, match="is being stopped"):
        await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "")
    await agent.event("stopped", session=saved(world))
    await world.state(lease, LeaseState.ENDED)


async def test_a_server_that_cannot_save_is_not_stopped_instead(world: World) -> None:
    lease, _ = await world.ready()
    with pytest.raises(CannotSleep, match="cannot keep the variables"):
        await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "")
    assert world.now(lease).state is LeaseState.READY
    with pytest.raises(CannotSleep):
        await world.provisioner.sleeping.put_to_sleep("lease-of-nobody", "")


# --- what is recorded ---


async def test_a_session_is_recorded_with_its_end_and_outlives_the_hub(world: World) -> None:
    lease = await asleep(world)
    session = found(world)
    assert session is not None
    assert (session.lease_id, session.session.id) == (lease.lease_id, "s-1")
    assert session.expires_at == session.session.slept_at + timedelta(days=30)
    assert session.woken_at is None
    await world.kill()
    await world.start()
    assert found(world) == session


async def test_a_session_is_replaced_only_by_another_one(world: World) -> None:
    await asleep(world)
    first = found(world)
    lease, agent = await serving(world, sleep=replace(RULES, wake="no"))
    await world.stop(lease, "idle")
    await agent.event("stopped")  # it could not save
    await world.state(lease, LeaseState.ENDED)
    assert found(world) == first
    await asleep(world, "s-2")
    second = found(world)
    assert second is not None
    assert second.session.id == "s-2"


async def test_an_agent_cannot_date_its_session(world: World) -> None:
    lease, agent = await serving(world)
    await world.stop(lease, "idle")
    late = saved(world).model_copy(update={"slept_at": world.clock() + timedelta(days=4000)})
    await agent.event("stopped", session=late)
    session = found(world)
    assert session is not None
    assert session.session.slept_at == world.clock()


async def test_nothing_is_recorded_of_a_server_that_may_not_save(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease, "idle")
    await agent.event("stopped", session=saved(world))
    await world.state(lease, LeaseState.ENDED)
    assert found(world) is None


async def test_a_session_is_recorded_although_the_store_fails_meanwhile(world: World) -> None:
    lease, agent = await serving(world)
    await world.stop(lease, "idle")
    world.run_sql(
        "CREATE TRIGGER full BEFORE INSERT ON sleeping_session BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    await agent.event("stopped", session=saved(world))
    await world.state(lease, LeaseState.ENDED)
    assert (await world.store.load()).sleeping == ()
    world.run_sql("DROP TRIGGER full")
    await world.complete_passes(1)
    assert (await world.store.load()).sleeping == (found(world),)


# --- the next start ---


async def test_it_is_woken_once_the_server_that_wakes_it_is_ready(world: World) -> None:
    await asleep(world)
    lease = await world.request(home_kind="ebs", idle=SLEEPS, sleep=RULES)
    agent = Agent(world, (await world.boot())[0])
    session = found(world)
    assert session is not None
    assert session.woken_at is None
    await agent.serve()
    assert found(world) is None, "nothing is offered"
    last = world.provisioner.sleeping.last("ada", "")
    assert last == replace(session, woken_at=world.now(lease).ready_at)
    assert (await world.store.load()).sleeping == (last,)


async def test_it_is_woken_by_a_server_that_was_ready_when_the_hub_was_killed(
    world: World,
) -> None:
    await asleep(world)
    lease, _ = await serving(world)
    await world.kill()
    # As if the process had ended just before that was stored.
    world.run_sql("UPDATE sleeping_session SET woken_at = NULL")
    await world.start()
    assert found(world) is None
    last = world.provisioner.sleeping.last("ada", "")
    assert last is not None
    assert last.woken_at == lease.ready_at
    assert (await world.store.load()).sleeping == (last,)


async def test_it_is_woken_by_a_server_whose_readiness_could_not_be_stored(world: World) -> None:
    await asleep(world)
    before = counted("woken")
    await world.request(home_kind="ebs", idle=SLEEPS, sleep=RULES)
    agent = Agent(world, (await world.boot())[0])
    world.run_sql(
        "CREATE TRIGGER full BEFORE UPDATE ON lease WHEN NEW.ready_at IS NOT NULL "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    with pytest.raises(StoreError):
        await agent.serve()
    world.fix_store()
    await agent.event("ready")
    await world.complete_passes(2)
    assert found(world) is None
    assert counted("woken") == before + 1
    assert (await world.store.load()).sleeping == (world.provisioner.sleeping.last("ada", ""),)


async def test_a_fresh_start_leaves_it_asleep(world: World) -> None:
    await asleep(world)
    session = found(world)
    await serving(world, sleep=replace(RULES, wake="no"))
    await world.complete_passes(1)
    assert found(world) == session


@pytest.mark.parametrize("saves", [True, False])
async def test_a_server_that_was_started_fresh_and_continues_wakes_only_its_own(
    world: World, saves: bool
) -> None:
    await asleep(world)
    left = found(world)
    fresh = replace(RULES, wake="no", after_interruption="resume")
    lease, agent = await serving(world, sleep=fresh)
    await notice(world, agent)
    other = await boot_for(world, lease)
    world.clock.advance(60)  # longer than it had been there before the notice
    moving = asyncio.create_task(other.serve())
    await world.state(lease, LeaseState.ENDING)
    await agent.event("stopped", session=saved(world, "s-2") if saves else None)
    await moving
    await world.watch_passes(1)
    last = world.provisioner.sleeping.last("ada", "")
    if saves:
        assert last is not None
        assert (last.session.id, found(world)) == ("s-2", None)
        assert last.woken_at == world.now(successor(world, lease)).ready_at
    else:
        assert found(world) == last == left


async def test_sessions_of_two_servers_are_apart(world: World) -> None:
    await asleep(world)
    await serving(world, server="other")
    assert found(world) is not None
    assert found(world, "other") is None


async def test_what_servers_of_one_user_say_of_their_sessions_has_a_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agents are the user's: they may say as much as a body can have."""
    monkeypatch.setattr(sleeping_sessions, "MAX_BYTES", 100_000)
    sessions = world.provisioner._state.sleeping
    [kernel] = sleeping().session.kernels
    lost = [LostVariable(name="x" * 200, code="large")] * 10
    long = saved(world).model_copy(
        update={"kernels": [kernel.model_copy(update={"lost": lost})] * 4, "kernel_count": 4}
    )
    place = sleeping()
    for number in range(20):
        name = f"server-{number}"
        session = long.model_copy(update={"id": name})
        await sessions.record(replace(place, server=name, session=session))
    await sessions.record(replace(place, user="eve", session=long))
    of_ada = [sessions.last("ada", f"server-{number}") for number in range(20)]
    sizes = [len(each.session.model_dump_json()) for each in of_ada if each is not None]
    assert len(sizes) == 20, "all can be woken"
    assert sum(sizes) <= 100_000 / 5 + 20 * sleeping_sessions.MIN_BYTES
    assert all(each is not None and each.session.kernel_count == 4 for each in of_ada)
    eve = sessions.last("eve", "")
    assert eve is not None
    assert len(eve.session.kernels[0].lost) == 10


# --- it follows its home ---


async def test_it_follows_a_renamed_server(world: World) -> None:
    await asleep(world, server="old")
    before = found(world, "old")
    assert before is not None
    home = world.provisioner.homes.of("ada", "old")
    assert home is not None
    await world.provisioner.homes.rename(home, "new")
    assert found(world, "old") is None
    assert found(world, "new") == replace(before, server="new")
    assert (await world.store.load()).sleeping == (found(world, "new"),)


@pytest.mark.parametrize("table", ["home", "sleeping_session"])
async def test_a_rename_that_cannot_be_stored_takes_both_or_neither(
    world: World, table: str
) -> None:
    """What sleeps is summarized where its home is, also while the store is full."""
    await asleep(world, server="old")
    home = world.provisioner.homes.of("ada", "old")
    assert home is not None
    for event in ("INSERT", "UPDATE"):
        world.run_sql(
            f"CREATE TRIGGER full_{event} BEFORE {event} ON {table} "
            "BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    refuses = pytest.raises(StoreError) if table == "home" else contextlib.nullcontext()
    with refuses:
        await world.provisioner.homes.rename(home, "new")
    where = "old" if table == "home" else "new"
    assert world.provisioner.homes.of("ada", where) is not None
    assert found(world, where) is not None
    for event in ("INSERT", "UPDATE"):
        world.run_sql(f"DROP TRIGGER full_{event}")
    await world.complete_passes(2)
    assert (await world.store.load()).sleeping == (found(world, where),)


async def test_what_an_old_lease_saved_does_not_replace_what_a_later_one_did(world: World) -> None:
    old, first = await serving(world)
    await world.stop(old)
    await first.event("stopped")
    await world.state(old, LeaseState.ENDED)
    late = saved(world, "s-0")
    world.clock.advance(60)
    await asleep(world)
    newer = found(world)
    assert newer is not None
    await first.event("stopped", session=late)
    assert found(world) == newer


async def test_a_deleted_user_whose_home_is_kept_leaves_the_record(world: World) -> None:
    """By it, a later account of that name is known not to be its owner's."""
    await asleep(world)
    await release_home(world.provisioner, "ebs", "ada", "")
    assert world.provisioner.homes.of("ada", "") is not None
    assert found(world) is not None


async def test_it_goes_with_its_home(world: World) -> None:
    await asleep(world)
    home = world.provisioner.homes.of("ada", "")
    assert home is not None
    await world.provisioner.homes.delete(home)
    assert found(world) is None
    assert (await world.store.load()).sleeping == ()


# --- it expires ---


def expiry_shown(world: World) -> Expired | None:
    """As the spawn page has it."""
    return expired(world.provisioner.sleeping.last("ada", ""), world.clock())


async def expire(world: World) -> SleepingSession:
    """A session that has just expired, before a pass has seen that."""
    await asleep(world)
    session = found(world)
    assert session is not None
    world.clock.advance((session.expires_at - world.clock()).total_seconds() - 1)
    await world.complete_passes(1)
    assert found(world) == session
    assert expiry_shown(world) is None
    world.clock.advance(1)
    assert found(world) is None
    return session


async def test_its_expiry_is_shown_for_a_month(world: World) -> None:
    session = await expire(world)
    shown = Expired(session.session.slept_at, session.expires_at)
    assert expiry_shown(world) == shown
    await world.complete_passes(2)
    assert expiry_shown(world) == shown
    await world.restart()
    last = world.provisioner.sleeping.last("ada", "")
    assert last is not None
    assert last.session.kernels == [], "names are kept no longer than needed"
    await world.complete_passes(1)
    world.clock.advance(EXPIRY_SHOWN.total_seconds() - 1)
    await world.complete_passes(1)
    assert expiry_shown(world) == shown
    world.clock.advance(1)
    await world.complete_passes(1)
    assert world.provisioner.sleeping.last("ada", "") is None
    assert (await world.store.load()).sleeping == ()


async def test_its_expiry_is_reported_once(world: World) -> None:
    ends = [(each, counted(each)) for each in ("expired", "replaced", "woken")]
    events = world.provisioner.lease_events
    session = await expire(world)
    await world.complete_passes(2)
    batch, _ = await events.next_batch()
    [end] = [each for each in batch if isinstance(each, SessionEnded)]
    assert (end.outcome, end.at) == (SessionEnd.EXPIRED, session.expires_at)
    for _ in range(2):
        await world.restart()
        await world.complete_passes(1)
    await asleep(world, "s-2")  # a start that was to wake it, and another session in its place
    assert found(world) is not None
    assert [(each, counted(each)) for each, _ in ends] == [(ends[0][0], ends[0][1] + 1), *ends[1:]]


async def test_what_expired_while_no_hub_ran_is_reported_and_forgotten(world: World) -> None:
    await asleep(world)
    before = counted("expired")
    await world.kill()
    world.clock.advance(RULES.keep_seconds + EXPIRY_SHOWN.total_seconds())
    await world.start()
    await world.complete_passes(2)
    assert counted("expired") == before + 1
    assert (await world.store.load()).sleeping == ()


async def test_what_was_woken_is_forgotten_when_it_expires(world: World) -> None:
    await asleep(world)
    before = counted("expired")
    lease, agent = await serving(world)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    assert world.provisioner.sleeping.last("ada", "") is not None
    world.clock.advance(RULES.keep_seconds)
    await world.complete_passes(1)
    assert world.provisioner.sleeping.last("ada", "") is None
    assert counted("expired") == before


async def test_a_new_account_does_not_see_the_expiry_of_a_deleted_one(world: World) -> None:
    def of_account(jupyterhub_id: int) -> SleepingSession | None:
        account = fake_user("ada", id=jupyterhub_id)
        options = Options.model_validate({"region": "us-east-1", "subnets": ["subnet-a"]})
        return last_session(world.provisioner, options, account, "")

    session = await expire(world)
    assert of_account(1) == world.provisioner.sleeping.last("ada", "") == session
    assert of_account(2) is None


# --- its end is reported ---


async def test_the_end_of_each_sleep_is_reported_once(world: World) -> None:
    await asleep(world)
    await world.restart()  # what was reported before is not reported again
    events = world.provisioner.lease_events
    await asleep(world, "s-2", sleep=replace(RULES, wake="no"))
    await asleep(world, "s-3")
    batch, _ = await events.next_batch()
    reported = [each for each in batch if isinstance(each, SessionSlept | SessionEnded)]
    assert [(type(each), each.sleeping.session.id) for each in reported] == [
        *((SessionEnded, "s-1"), (SessionSlept, "s-2")),
        *((SessionEnded, "s-2"), (SessionSlept, "s-3")),
    ]
    ends = [each.outcome for each in reported if isinstance(each, SessionEnded)]
    assert ends == [SessionEnd.REPLACED, SessionEnd.WOKEN]


async def test_a_report_that_is_repeated_is_recorded_once(world: World) -> None:
    lease, agent = await serving(world)
    before = REGISTRY.get_sample_value("ec2spawner_sessions_slept_total", {"trigger": "idle"}) or 0
    await world.stop(lease, "idle")
    for _ in range(2):
        await agent.event("stopped", session=saved(world))
    slept = REGISTRY.get_sample_value("ec2spawner_sessions_slept_total", {"trigger": "idle"})
    assert slept == before + 1


def counted(outcome: str) -> float:
    labels = {"outcome": outcome}
    return REGISTRY.get_sample_value("ec2spawner_sessions_ended_total", labels) or 0
