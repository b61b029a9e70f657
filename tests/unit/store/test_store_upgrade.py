"""A store of the first released schema, opened by today's code."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.lease import IntentState, LeaseState
from ec2spawner.provisioner.store.store import Store
from tests.postgresql_server import PostgreSQL
from tests.stored import dump, write_schema_0001

WRITTEN_AT = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        made = f"sqlite:///{tmp_path / 'ec2spawner.sqlite'}"
    else:
        server: PostgreSQL = request.getfixturevalue("postgresql")
        made = server.new_database()
    write_schema_0001(made)
    return made


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


async def test_an_old_store_is_upgraded_once(url: str) -> None:
    await (await Store.open(url, now=WRITTEN_AT)).close()
    upgraded = dict(dump(url))
    await (await Store.open(url, now=WRITTEN_AT)).close()
    del upgraded["store"]
    again = dict(dump(url))
    [(_, epoch, _)] = again.pop("store")
    assert again == upgraded
    assert epoch == 2
