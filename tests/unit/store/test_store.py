"""What the provisioner relies on from its store: kept, held by one hub, clear when it fails."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from ec2spawner.core.ledger.cost_rows import Cause
from ec2spawner.core.ledger.lease_costs import overhead_costs
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.limits.admission import Obstacle, Refusal
from ec2spawner.core.limits.bounds import Kind
from ec2spawner.core.sleep.continuation import TakenOver
from ec2spawner.provisioner.model.leases.denied_start import DeniedStart
from ec2spawner.provisioner.model.leases.lease import (
    ENDED_LATELY,
    INTERRUPTED_LATELY,
    Binding,
    Home,
    IntentState,
    LeaseState,
    StepEvent,
)
from ec2spawner.provisioner.store import tables
from ec2spawner.provisioner.store.store import KeyAlreadyBound, Store, StoreError, StoreHeldError
from ec2spawner.wire import Market, Step, Stop
from tests.harness import TREE
from tests.stored import NOW, SECOND, SPEC, dump, intent, lease, other_program, sleeping, story
from tests.unit.provisioner.monitoring.counters import counted

# --- opening ---


async def test_id_and_content_survive_a_restart_of_the_hub(url: str) -> None:
    first = await Store.open(url, now=NOW)
    await first.save_lease(lease())
    await first.close()
    second = await Store.open(url, now=NOW)
    try:
        assert second.store_id == first.store_id
        assert (await second.load()).leases == (lease(),)
    finally:
        await second.close()


async def test_two_stores_have_two_ids(tmp_path: Path) -> None:
    ids = set()
    for name in ("one", "two"):
        opened = await Store.open(f"sqlite:///{tmp_path / name}", now=NOW)
        ids.add(opened.store_id)
        await opened.close()
    assert len(ids) == 2


async def test_a_second_hub_is_refused_with_the_name_of_the_holder(store: Store, url: str) -> None:
    with pytest.raises(StoreHeldError, match=f"process {os.getpid()}"):
        await Store.open(url, now=NOW)
    await store.hold()
    await store.save_lease(lease())  # and the first one continues


async def test_a_refused_hub_can_open_it_once_the_first_is_gone(url: str) -> None:
    for _ in range(10):  # PostgreSQL ends a session some time after its client has left
        first = await Store.open(url, now=NOW)
        with pytest.raises(StoreError):
            await Store.open(url, now=NOW)
        await first.close()
    second = await Store.open(url, now=NOW)
    await second.close()


async def test_an_unreadable_refused_start_keeps_no_hub_from_starting(url: str) -> None:
    refusal = Refusal("user:ada", Obstacle.LIMIT, Kind.SERVERS, 1, 0, 1)
    readable, broken = (
        DeniedStart(NOW, "lease", "ada", server, "Small", refusal) for server in ("", "broken")
    )
    first = await Store.open(url, now=NOW)
    await first.save_denied_starts([readable, broken])
    await first.close()
    with other_program(url) as database, database.begin():
        table = tables.denied_start_table
        statement = table.update().where(table.c.server_name == "broken")
        database.execute(statement.values(denied={"refusal": "of another version"}))
    second = await Store.open(url, now=NOW)
    try:
        assert (await second.load()).denied_starts == (readable,)
    finally:
        await second.close()


async def test_an_unreadable_sleeping_session_keeps_no_hub_from_starting(url: str) -> None:
    first = await Store.open(url, now=NOW)
    for server in ("", "broken"):
        await first.save_sleeping_session(sleeping(server))
    await first.close()
    with other_program(url) as database, database.begin():
        table = tables.sleeping_session_table
        statement = table.update().where(table.c.server_name == "broken")
        database.execute(statement.values(session={"trigger": "of another version"}))
    second = await Store.open(url, now=NOW)
    try:
        assert (await second.load()).sleeping == (sleeping(""),)
    finally:
        await second.close()


async def test_a_forgotten_sleeping_session_is_not_loaded(store: Store) -> None:
    for server in ("", "other"):
        await store.save_sleeping_session(sleeping(server))
    for _ in range(2):
        await store.forget_sleeping_session("ada", "")
        assert (await store.load()).sleeping == (sleeping("other"),)


async def test_a_newer_schema_is_refused_and_left_as_it_is(url: str) -> None:
    opened = await Store.open(url, now=NOW)
    await opened.save_lease(lease())
    await opened.close()
    with other_program(url) as database, database.begin():
        database.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    before = dump(url)
    with pytest.raises(StoreError, match=r"newer ec2spawner \(schema 9999\).*install"):
        await Store.open(url, now=NOW)
    assert dump(url) == before


async def test_a_database_of_another_program_is_refused_and_left_as_it_is(url: str) -> None:
    """JupyterHub keeps a revision of its schema in a table of the same name."""
    await (await Store.open(url, now=NOW)).close()
    with other_program(url) as database, database.begin():
        database.execute(text("UPDATE alembic_version SET version_num = '4621fec11365'"))
    before = dump(url)
    with pytest.raises(StoreError, match=r"another program, such as JupyterHub.*of its own"):
        await Store.open(url, now=NOW)
    assert dump(url) == before


async def test_a_migration_that_fails_changes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("secrets.token_hex", None)
        with pytest.raises(TypeError):
            await Store.open(url, now=NOW)
    assert dump(url) == {}
    await (await Store.open(url, now=NOW)).close()


async def test_migrations_make_the_tables_that_the_code_expects(url: str) -> None:
    await (await Store.open(url, now=NOW)).close()
    with other_program(url) as database:
        assert compare_metadata(MigrationContext.configure(database), tables.metadata) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hub.sqlite", "sqlite:///ec2spawner.sqlite"),
        ("mysql://hub:s3cret@db/hub", "mysql is not supported"),
    ],
)
async def test_an_invalid_url_is_refused_with_a_valid_example(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as refused:
        await Store.open(url, now=NOW)
    assert "s3cret" not in str(refused.value)


async def test_a_copied_store_is_refused_on_another_host(url: str) -> None:
    """Both hubs would end what only the other one knows: their stores have one id."""
    first = await Store.open(url, now=NOW, agents_at="10.0.0.5:8081")
    await first.close()
    before = dump(url)
    with pytest.raises(StoreError, match=r"Is it a copy.*hub_moved_from = \"10\.0\.0\.5:8081\""):
        await Store.open(url, now=NOW, agents_at="10.0.0.77:8081")
    assert dump(url) == before
    await (await Store.open(url, now=NOW, agents_at="10.0.0.5:8081")).close()


async def test_a_moved_hub_logs_it_once(url: str) -> None:
    await (await Store.open(url, now=NOW, agents_at="old:8081")).close()
    moved: Any = {"agents_at": "new:8081", "moved_from": "old:8081"}
    await (await Store.open(url, now=NOW, **moved)).close()
    await (await Store.open(url, now=NOW, agents_at="new:8081")).close()
    with pytest.raises(StoreError, match="Is it a copy"):  # though the configuration came along
        await Store.open(url, now=NOW, agents_at="staging:8081", moved_from="old:8081")


async def test_a_closed_store_raises_an_error(url: str) -> None:
    opened = await Store.open(url, now=NOW)
    await opened.close()
    await opened.close()
    with pytest.raises(StoreError, match="closed"):
        await opened.load()


# --- leases, intents, bindings, homes ---


async def test_saving_a_lease_again_replaces_it(store: Store) -> None:
    segment = Segment("i-1", Market.SPOT, None, NOW)
    await store.save_lease(lease(events=story(1, 2, 3, 4), segments=(segment, segment)))
    changed = lease(
        state=LeaseState.ENDING,
        stop=Stop(reason="idle", message="Idle for an hour."),
        events=story(1, 2, 3, 4)[:2],
        segments=(replace(segment, usd_per_hour=0.2, end=NOW + SECOND),),
    )
    await store.save_lease(changed)
    assert (await store.load()).leases == (changed,)


async def test_leases_that_want_the_same_share_it_in_memory(store: Store) -> None:
    other = replace(SPEC, disk_gib=200)
    await store.save_lease(lease("lease-1"))
    await store.save_lease(lease("lease-2"))
    await store.save_lease(lease("lease-3", spec=other))
    first, second, third = (await store.load()).leases
    assert first.spec is second.spec
    assert (first.spec, third.spec) == (SPEC, other)


async def test_load_separates_open_leases_from_the_newest_ended_of_each_server(
    store: Store,
) -> None:
    ended = {"state": LeaseState.ENDED}
    await store.save_lease(lease("old", ended_at=NOW, **ended))
    await store.save_lease(lease("new", ended_at=NOW + SECOND, **ended))
    await store.save_lease(
        lease("named", server="gpu", ended_at=NOW, events=story(1, 2, 3, 4), **ended)
    )
    long_ago = NOW - ENDED_LATELY - timedelta(days=1)
    await store.save_lease(lease("long-ago", server="cpu", ended_at=long_ago, **ended))
    await store.save_lease(lease("open", requested_at=NOW + 2 * SECOND))
    loaded = await store.load()
    assert [one.lease_id for one in loaded.leases] == ["open"]
    assert {one.lease_id for one in loaded.ended_lately} == {"new", "named"}
    assert {len(one.events) for one in loaded.ended_lately} == {0, 5}


async def test_load_has_the_lease_with_which_a_server_ended_not_the_one_closed_last(
    store: Store,
) -> None:
    ended = {"state": LeaseState.ENDED}
    moved = TakenOver(is_handed_over=True)
    for server, over in (("moved", moved), ("stayed", TakenOver())):
        continued = {"continues": f"{server}-1", "taken_over": over}
        await store.save_lease(
            lease(f"{server}-2", server=server, ended_at=NOW, **ended, **continued)
        )
        await store.save_lease(lease(f"{server}-1", server=server, ended_at=NOW + SECOND, **ended))
    loaded = await store.load()
    assert {one.lease_id for one in loaded.ended_lately} == {"moved-2", "stayed-1"}


async def test_load_has_the_servers_that_interruptions_ended_within_a_day(store: Store) -> None:
    taken = {"state": LeaseState.ENDED, "stop": Stop(reason="interruption", message="taken")}
    of_user = {"state": LeaseState.ENDED, "stop": Stop(reason="user", message="stopped")}
    await store.save_lease(lease("first", ended_at=NOW - SECOND, **taken))
    await store.save_lease(lease("second", ended_at=NOW, **taken))
    await store.save_lease(lease("stopped", ended_at=NOW + SECOND, **of_user))
    long_ago = NOW - INTERRUPTED_LATELY - timedelta(days=1)
    await store.save_lease(lease("long-ago", ended_at=long_ago, **taken))
    found = (await store.load()).interrupted
    assert {each.lease_id for each in found} == {"first", "second"}


async def test_an_unanswered_intent_is_loaded_at_any_age(url: str) -> None:
    opened = await Store.open(url, now=NOW, recent=timedelta(hours=1))
    kept = [
        intent("open-old", IntentState.OPEN, NOW - timedelta(days=9)),
        intent("answered-new", IntentState.ANSWERED, NOW - timedelta(minutes=59)),
    ]
    gone = intent("answered-old", IntentState.ANSWERED, NOW - timedelta(minutes=61))
    for one in (*kept, gone):
        await opened.save_intent(one)
    assert (await opened.load()).intents == tuple(kept)
    answered = replace(kept[0], state=IntentState.FAILED, instance_ids=("i-1",))
    await opened.save_intent(answered)
    assert (await opened.load()).intents == (kept[1],)
    await opened.close()


async def test_the_first_key_stays_bound(store: Store) -> None:
    first = Binding("i-1", "aa", NOW)
    await store.save_binding(first)
    await store.save_binding(replace(first, bound_at=NOW + SECOND))  # a repeated claim
    with pytest.raises(KeyAlreadyBound, match="i-1"):
        await store.save_binding(Binding("i-1", "bb", NOW))
    assert (await store.load()).bindings == (first,)


async def test_of_two_keys_at_once_one_wins(store: Store) -> None:
    results = await asyncio.gather(
        *(store.save_binding(Binding("i-1", f"key-{n}", NOW)) for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, KeyAlreadyBound) for result in results) == 7
    assert len((await store.load()).bindings) == 1


async def test_an_old_binding_is_kept_and_loaded_while_its_instance_is_leased(
    store: Store,
) -> None:
    old = Binding("i-old", "aa", NOW - timedelta(days=90))
    await store.save_binding(old)
    assert (await store.load()).bindings == ()
    with pytest.raises(KeyAlreadyBound):
        await store.save_binding(Binding("i-old", "bb", NOW))
    await store.save_lease(lease(instance_id="i-old", state=LeaseState.READY))
    assert (await store.load()).bindings == (old,)


async def test_a_volume_belongs_to_one_home(store: Store) -> None:
    home = Home("home-1", "ada", "", "ebs", 20, NOW)
    await store.save_home(home)
    await store.save_home(replace(home, volume_id="vol-1", zone="us-east-1a"))
    with pytest.raises(StoreError):
        await store.save_home(Home("home-2", "bob", "", "ebs", 20, NOW, volume_id="vol-1"))
    assert (await store.load()).homes == (replace(home, volume_id="vol-1", zone="us-east-1a"),)


async def test_overhead_is_kept_apart_and_closed_in_place(store: Store) -> None:
    running = Segment("i-1", Market.ON_DEMAND, 0.5, NOW)
    await store.ledger.save_overhead([running], "boot")
    await store.ledger.save_overhead([replace(running, end=NOW + SECOND)], "boot")
    await store.ledger.save_overhead([Segment("i-2", Market.SPOT, None, NOW - SECOND, NOW)], "boot")
    await store.save_lease(lease(segments=(Segment("i-3", Market.SPOT, 0.1, NOW),)))
    assert await store.ledger.overhead(NOW) == (replace(running, end=NOW + SECOND),)
    assert len(await store.ledger.overhead(NOW - SECOND)) == 2


async def test_overhead_reported_again_after_a_clock_change_is_the_same(store: Store) -> None:
    before = Segment("i-1", Market.SPOT, 0.5, NOW, NOW + SECOND)
    await store.ledger.save_overhead([before], "boot lease-1")
    again = replace(before, start=NOW - SECOND)
    await store.ledger.save_overhead([again], "boot lease-1")
    after = replace(before, start=NOW - SECOND, usd_per_hour=0.4)
    await store.ledger.save_overhead([after], "boot lease-2")
    assert await store.ledger.overhead(NOW - SECOND) == (again, after)


async def test_overhead_of_one_boot_is_refunded(store: Store) -> None:
    """After any lease, at any price, and once."""
    stored = {
        ("i-1", "boot"): 0.36,
        ("i-1", "boot lease-1"): None,
        ("i-1", "boot-2 lease-2"): 0.36,
        ("i-2", "boot"): 0.36,
    }
    for (instance_id, key), price in stored.items():
        segment = Segment(instance_id, Market.SPOT, price, NOW, NOW + SECOND)
        costs = overhead_costs([segment], Cause.RETENTION, NOW, UTC)
        await store.ledger.save_overhead([segment], key, costs)
    [refunded] = await store.ledger.refund_overhead("i-1", "boot", "free")
    assert (refunded.key, refunded.nano_usd) == ((NOW.date().isoformat(), "", "hub"), 100_000)
    assert (refunded.unknown, refunded.microseconds) == (1, 2_000_000)
    [left] = await store.ledger.costs(NOW.date(), NOW.date(), ())
    assert (left.nano_usd, left.unknown, left.microseconds) == (200_000, 0, 4_000_000)
    prices = sorted(each.usd_per_hour or 0.0 for each in await store.ledger.overhead(NOW))
    assert prices == [0.0, 0.0, 0.36, 0.36]
    assert await store.ledger.refund_overhead("i-1", "boot", "free") == ()


async def test_the_last_used_instance_follows_the_order_of_accounts(store: Store) -> None:
    """The hub's clock was set back between the two."""
    first = Segment("i-1", Market.SPOT, 0.5, NOW, NOW + 60 * SECOND)
    second = replace(first, start=NOW + SECOND, end=NOW + 10 * SECOND)
    await store.save_lease(lease("lease-1", segments=(first,)))
    await store.save_lease(lease("lease-2", segments=(second,)))
    await store.ledger.save_overhead([replace(first, end=NOW + 90 * SECOND)], "boot lease-2")
    assert await store.last_served("i-1") == ("lease-2", second.end)
    assert await store.last_served("i-2") is None


# --- usual durations ---


async def test_usual_durations_are_medians_of_the_newest_ready_starts(
    store: Store,
) -> None:
    starts = [(1, 10, 2, 3), (3, 30, 4, 5), (2, 20, 9, 4), (500, 500, 500, 500)]
    for age, seconds in enumerate(starts):
        begun = NOW - timedelta(hours=age)
        events = story(*seconds, start=begun)
        await store.save_lease(lease(f"l{age}", ready_at=events[-1].at, events=events))
    failed = story(900, 900, 900, 900)[:-1]
    await store.save_lease(lease("failed", state=LeaseState.ENDED, events=failed))
    moved = story(900, 900, 900, 900)
    await store.save_lease(lease("moved", replaced=1, ready_at=moved[-1].at, events=moved))
    waited_for = story(0, 0, 1, 1)
    await store.save_binding(Binding("i-pool", "key", NOW - timedelta(days=1)))
    await store.save_lease(
        lease("pool", instance_id="i-pool", ready_at=waited_for[-1].at, events=waited_for)
    )
    other = story(7, 7, 7, 7)
    await store.save_lease(lease("b", profile="a10g", ready_at=other[-1].at, events=other))

    assert await store.start_durations("t4", limit=3) == {
        Step.REQUEST: 2,
        Step.BOOT: 20,
        Step.HOME: 4,
        Step.NOTEBOOK: 4,
    }
    assert await store.start_durations("never used") == {}


async def test_several_events_of_a_step_are_one_step(store: Store) -> None:
    at = [NOW + timedelta(seconds=n) for n in (0, 2, 5, 6)]
    events = (
        StepEvent(Step.REQUEST, at[0], "spot"),
        StepEvent(Step.REQUEST, at[1], "on-demand"),
        StepEvent(Step.BOOT, at[2], "booting"),
        StepEvent(Step.READY, at[3], "ready"),
    )
    await store.save_lease(lease(events=events, ready_at=at[3]))
    assert await store.start_durations("t4") == {Step.REQUEST: 5, Step.BOOT: 1}


async def test_a_move_of_the_home_is_no_part_of_usual_durations(store: Store) -> None:
    at = [NOW + timedelta(seconds=n) for n in (0, 2, 900, 901, 903)]
    events = (
        StepEvent(Step.REQUEST, at[0], "looking"),
        StepEvent(Step.MOVE, at[1], "moving", "0 % copied"),
        StepEvent(Step.REQUEST, at[2], "looking there"),
        StepEvent(Step.BOOT, at[3], "booting"),
        StepEvent(Step.READY, at[4], "ready"),
    )
    await store.save_lease(lease(events=events, ready_at=at[4]))
    assert await store.start_durations("t4") == {Step.REQUEST: 3, Step.BOOT: 2}


# --- concurrency, faults, crashes ---


async def test_writes_take_effect_in_the_order_requested(store: Store) -> None:
    await asyncio.gather(*(store.save_lease(lease(replaced=n)) for n in range(50)))
    assert [one.replaced for one in (await store.load()).leases] == [49]


async def test_a_shielded_write_happens_though_its_caller_is_cancelled(store: Store) -> None:
    async def start() -> None:
        await asyncio.shield(store.save_lease(lease()))

    task = asyncio.create_task(start())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await store.load()).leases == (lease(),)


async def test_an_instant_without_a_time_zone_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="time zone"):
        await store.save_lease(lease(requested_at=NOW.replace(tzinfo=None)))
    assert (await store.load()).leases == ()


async def test_a_value_that_cannot_be_stored_is_no_failure_of_the_database(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Administrators are alerted when the database fails; a caller's slip is none of that."""
    before = counted("ec2spawner_store_errors_total")
    first_day = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(StoreError, match="cannot be stored") as refused:
        await store.past_leases("ada", first_day, 50)
    assert "SELECT" not in str(refused.value)
    with pytest.raises(StoreError, match="cannot be stored"):
        await store.past_leases("ada", NOW, 2**64)
    assert counted("ec2spawner_store_errors_total") == before
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def open_after_a_death(url: str) -> Store:
    """The lock ends with its holder; a server notices that a moment later."""
    async with asyncio.timeout(90):
        while True:
            try:
                return await Store.open(url, now=NOW)
            except StoreHeldError:
                await asyncio.sleep(0.05)


WRITER = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from tests.stored import NOW, lease, story
from ec2spawner.provisioner.store.store import Store

async def main():
    store = await Store.open(sys.argv[1], now=NOW)
    for number in range(100_000):
        await store.save_lease(lease(f"lease-{number:06}", events=story(1, 2, 3, 4)))
        print(number, flush=True)

asyncio.run(main())
"""


async def test_a_hub_killed_while_writing_keeps_every_confirmed_write(
    url: str,
) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITER, url, str(TREE)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(60):
            for _ in range(25):
                confirmed = int(await child.stdout.readline())
    finally:
        child.kill()
        await child.wait()
    opened = await open_after_a_death(url)
    leases = (await opened.load()).leases
    await opened.close()
    assert len(leases) > confirmed
    assert {len(one.events) for one in leases} == {5}, "a lease was stored in part"
