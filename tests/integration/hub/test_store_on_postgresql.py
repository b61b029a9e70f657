"""A hub whose store is on a PostgreSQL server: it is killed, and the server goes away and comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Embedded, Hub, demo_config, until
from tests.postgresql_server import PASSWORD, PostgreSQL, database_of

pytestmark = pytest.mark.slow(seconds=35)


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    return postgresql.new_database()


@pytest.fixture
async def hub(embedded: Embedded, tmp_path: Path, url: str) -> AsyncIterator[Hub]:
    config = demo_config(tmp_path / "config", f"c.EC2Spawner.store_url = {url!r}")
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


async def test_an_outage_of_the_database_ends_no_server_and_is_reported(
    hub: Hub, embedded: Embedded, postgresql: PostgreSQL
) -> None:
    await hub.start_server("ann")
    own = {"Authorization": f"token {await hub.user_token('ann')}"}
    launches = len(await embedded.calls("CreateFleet"))
    postgresql.stop()
    try:
        refused = await hub.request_server("eve")
        assert refused.status_code == 503, refused.text
        assert "Tell an admin" in refused.text
        usage = await hub.api.get("/ec2/usage", headers=own)
        assert usage.status_code == 503, usage.text
        assert usage.json()["message"] == "the hub's database does not answer; try again"
        assert (await hub.model("ann") or {})["ready"]
        assert len(await embedded.calls("CreateFleet")) == launches
    finally:
        await asyncio.to_thread(postgresql.start)

    async def starts() -> bool:
        return (await hub.request_server("eve")).is_success

    await until(starts, 30, "a start to be accepted again")
    await hub.wait_ready("eve")
    assert (await hub.model("ann") or {})["ready"]
    assert PASSWORD not in hub.log.read_text()


@pytest.mark.nightly(
    guard="tests/unit/provisioner/failures/test_outages.py::"
    "test_a_database_outage_ends_no_server_and_requests_are_carried_out"
)
async def test_servers_outlive_the_hub_and_a_stop_during_an_outage_is_stored(
    hub: Hub, embedded: Embedded, postgresql: PostgreSQL, url: str
) -> None:
    await asyncio.gather(*(hub.start_server(user) for user in ("ann", "bob")))
    instances = {each["instance_id"] for each in await embedded.instances()}

    await hub.kill()
    await hub.start()
    for user in ("ann", "bob"):
        await hub.wait_ready(user)
    assert {each["instance_id"] for each in await embedded.instances()} == instances

    postgresql.stop()
    try:
        await hub.stop_server("bob")

        async def released() -> bool:
            return len(await embedded.instances()) == 1

        await until(released, 30, "the stopped server's instance to end")
    finally:
        await asyncio.to_thread(postgresql.start)

    async def ended() -> bool:
        found = postgresql.sql(
            database_of(url),
            "SELECT state, ended_at IS NOT NULL FROM lease WHERE user_name = 'bob'",
        )
        return found == [("ended", True)]

    await until(ended, 30, "the end of bob's lease to be stored")
    assert (await hub.model("ann") or {})["ready"]
