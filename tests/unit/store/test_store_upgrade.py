"""A store of the first released schema, opened by today's code."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.cost import nano_usd
from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.starts.phases import Marks
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.lease import IntentState, LeaseState
from ec2spawner.provisioner.store.read_only import read_starts
from ec2spawner.provisioner.store.store import Store
from tests.stored import dump, other_program, write_schema_0001

WRITTEN_AT = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def url(url: str) -> str:
    """Of a database that has the first schema."""
    write_schema_0001(url)
    return url


async def test_an_old_store_is_read_completely(url: str) -> None:
    store = await Store.open(url, now=WRITTEN_AT)
    loaded = await store.load()
    assert store.store_id == "c1d2135cc12928e7"
    running, waiting = loaded.leases
    assert (running.user, running.state) == ("ada", LeaseState.READY)
    assert running.instance_id == "i-00000000000000002"
    assert running.ready_at == datetime(2026, 11, 20, 12, 0, 0, 2000, tzinfo=UTC)
    assert running.after_stop == AfterStop("terminate")
    assert [segment.end for segment in running.segments] == [None]
    assert (waiting.user, waiting.state) == ("eve", LeaseState.WAITING)
    for lease in loaded.leases:  # what the version before launched for it fits it still
        assert launch_key_of(lease.spec) == lease.launch_key
    [stopped] = loaded.ended_lately
    assert stopped.user == "bob"
    assert stopped.stop is not None
    assert stopped.stop.reason == "user"
    assert [intent.state for intent in loaded.intents] == [
        *(IntentState.ANSWERED, IntentState.ANSWERED, IntentState.OPEN)
    ]
    assert {binding.instance_id for binding in loaded.bindings} >= {running.instance_id}
    [home] = loaded.homes
    assert (home.user, home.volume_id, home.zone) == ("ada", "vol-00000000000000003", "us-east-1a")
    assert home.move is None
    for lease in loaded.leases:
        await store.save_lease(lease)
    await store.save_home(home)
    assert await store.load() == loaded
    await store.close()


async def test_a_start_that_an_older_version_made_is_not_measured(url: str) -> None:
    """One that was in progress is, from its request on."""
    store = await Store.open(url, now=WRITTEN_AT)
    running, waiting = (await store.load()).leases
    assert (running.marks, waiting.marks) == (Marks(), Marks())
    end = WRITTEN_AT + timedelta(hours=1)
    await store.save_lease(replace(running, state=LeaseState.ENDED, ended_at=end))
    marks = Marks(asked=2.0, granted=30.0, mounted=31.0, listening=33.0, routed=33.5)
    await store.save_lease(replace(waiting, state=LeaseState.READY, ready_at=end, marks=marks))
    await store.close()
    [group], [slow] = await read_starts(url, WRITTEN_AT - timedelta(days=1), end, slowest=3)
    assert (group.count, slow.user, slow.start.total) == (1, "eve", 33.5)


async def test_an_old_store_is_upgraded_once(url: str) -> None:
    await (await Store.open(url, now=WRITTEN_AT)).close()
    upgraded = dict(dump(url))
    await (await Store.open(url, now=WRITTEN_AT)).close()
    del upgraded["store"]
    again = dict(dump(url))
    [(_, epoch, *_)] = again.pop("store")
    assert again == upgraded
    assert epoch == 2


async def test_what_had_ended_is_in_the_ledger_of_an_upgraded_store(url: str) -> None:
    zone = "+00:00" if "postgresql" in url else ""
    began, ended = (f"'2026-11-20 12:{minute}:00.000000{zone}'" for minute in ("05", "10"))
    with other_program(url) as database, database.begin():
        database.execute(text(f"UPDATE segment SET usd_per_hour = 0.36, ended_at = {ended}"))
        columns = "instance_id, market, usd_per_hour, started_at, ended_at, source"
        values = f"'i-9', 'spot', 0.36, {began}, {ended}, ''"
        database.execute(text(f"INSERT INTO segment ({columns}) VALUES ({values})"))
    store = await Store.open(url, now=WRITTEN_AT)
    [stopped] = (await store.load()).ended_lately
    [segment] = stopped.segments
    assert (segment.disk_usd_per_month, segment.address_usd_per_hour) == (0.0, 0.0)
    [overhead] = await store.ledger.overhead(datetime(2000, 1, 1, tzinfo=UTC))
    ever = date(2000, 1, 1), date(2100, 1, 1)
    found = {each.key: each.nano_usd for each in await store.ledger.costs(*ever, (Dimension.USER,))}
    later = WRITTEN_AT + timedelta(hours=1)
    assert found == {
        ("bob",): nano_usd(stopped.segments, later),
        ("",): nano_usd([overhead], later),
    }
    assert min(found.values()) > 0
    await store.close()
    again = await Store.open(url, now=WRITTEN_AT)
    sums = await again.ledger.costs(*ever, (Dimension.USER,))
    assert {each.key: each.nano_usd for each in sums} == found
    await again.close()
