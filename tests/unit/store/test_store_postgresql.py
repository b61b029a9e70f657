"""A store on a PostgreSQL server: sessions that are lost, hubs that follow each other, errors."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from ec2spawner.provisioner.store.databases import postgresql
from ec2spawner.provisioner.store.store import Store, StoreAwayError, StoreError, StoreHeldError
from tests.postgresql_server import PASSWORD, PostgreSQL, database_of
from tests.stored import NOW, lease, other_program


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "RETRY_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _the_password_is_in_no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, "ec2spawner")
    yield
    assert PASSWORD not in caplog.text


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    return postgresql.new_database()


def end_sessions(server: PostgreSQL, url: str) -> None:
    """As a restarted server does, or a network that forgets connections."""
    server.sql(
        "postgres",
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE datname = '{database_of(url)}'",
    )


async def test_a_lost_session_is_replaced_and_requests_are_carried_out(
    store: Store, url: str, postgresql: PostgreSQL
) -> None:
    await store.save_lease(lease("before"))
    end_sessions(postgresql, url)
    await store.save_lease(lease("after"))
    end_sessions(postgresql, url)
    await store.hold()
    assert {each.lease_id for each in (await store.load()).leases} == {"before", "after"}
    with pytest.raises(StoreHeldError):
        await Store.open(url, now=NOW)


async def test_a_superseded_hub_never_writes_again(
    store: Store, url: str, postgresql: PostgreSQL
) -> None:
    """What it knows is older than what is stored."""
    end_sessions(postgresql, url)
    follower = await Store.open(url, now=NOW)
    with pytest.raises(StoreHeldError, match="another hub holds"):
        await store.hold()
    with pytest.raises(StoreHeldError):
        await store.save_lease(lease("late"))
    await follower.save_lease(lease("of the follower"))
    await follower.close()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"was held by another hub.*Restart it"):
            await store.save_lease(lease("late"))
    with pytest.raises(StoreError, match="was held by another hub"):
        await store.hold()
    third = await Store.open(url, now=NOW)
    assert [each.lease_id for each in (await third.load()).leases] == ["of the follower"]
    await third.close()


async def test_a_pooler_that_shares_sessions_is_refused(url: str, postgresql: PostgreSQL) -> None:
    """The lock would be held by a session that the next transaction need not get."""
    name = database_of(url)
    postgresql.sql(name, "CREATE SEQUENCE sessions")
    postgresql.sql(
        name,
        "CREATE FUNCTION pg_backend_pid() RETURNS integer LANGUAGE sql "
        "AS 'SELECT nextval(''sessions'')::integer'",
    )
    postgresql.sql(name, f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
    with pytest.raises(StoreError, match=r"pooler.*session mode"):
        await Store.open(url, now=NOW)


async def test_a_database_outage_is_logged_and_recovered_from(
    url: str, postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    secret = lease(token_sha256="5ea1ed" * 8)
    opened = await Store.open(url, now=NOW)
    postgresql.stop()
    try:
        for _ in range(3):
            with pytest.raises(StoreAwayError, match="start the database server") as failed:
                await opened.save_lease(secret)
            said = "".join(traceback.format_exception(failed.value))
            assert PASSWORD not in said
            assert secret.token_sha256 not in said
        with pytest.raises(StoreError):
            await opened.hold()
        with pytest.raises(StoreAwayError):
            await Store.open(url, now=NOW)
    finally:
        postgresql.start()
    await opened.hold()
    assert "answers again" in caplog.text, "without a write, of which an idle hub has none"
    await opened.save_lease(lease())
    assert caplog.text.count("Running servers keep running") == 1
    assert caplog.text.count("answers again") == 1
    await opened.close()


async def test_a_read_only_database_answers_again_with_a_write(
    store: Store, url: str, postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading works meanwhile."""
    setting = f"ALTER DATABASE {database_of(url)} SET default_transaction_read_only"
    postgresql.sql("postgres", f"{setting} = on")
    end_sessions(postgresql, url)
    with pytest.raises(StoreError, match="name the primary server"):
        await store.save_lease(lease())
    await store.hold()
    await store.load()
    assert "answers again" not in caplog.text
    postgresql.sql("postgres", f"{setting} = off")
    end_sessions(postgresql, url)
    await store.save_lease(lease())
    assert caplog.text.count("answers again") == 1


async def test_a_long_table_lock_is_an_error_that_passes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", 0.3)
    opened = await Store.open(url, now=NOW)
    with other_program(url) as database, database.begin():
        database.execute(text("LOCK TABLE lease"))
        with pytest.raises(StoreError, match="another session locks the store's tables"):
            await opened.save_lease(lease())
    await opened.save_lease(lease())
    assert (await opened.load()).leases == (lease(),)
    await opened.close()


async def test_a_nul_character_from_an_instance_can_be_stored(
    store: Store,
) -> None:
    await store.save_lease(lease(profile_name="T4\0"))
    [kept] = (await store.load()).leases
    assert kept.profile_name == "T4\N{REPLACEMENT CHARACTER}"


async def test_two_stores_of_one_database_live_in_two_schemas(
    url: str, postgresql: PostgreSQL
) -> None:
    postgresql.sql(database_of(url), "CREATE SCHEMA second")
    one = await Store.open(url, now=NOW)
    two = await Store.open(f"{url}?options=-csearch_path%3Dsecond", now=NOW)
    await one.save_lease(lease())
    assert (await two.load()).leases == ()
    assert one.store_id != two.store_id
    await one.close()
    await two.close()


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (f":{PASSWORD}@", ":another@", r"password authentication failed.*\.pgpass"),
        ("hub:", "nobody:", "password authentication failed"),
        ("/store_", "/no_store_", "does not exist.*createdb"),
        ("127.0.0.1", "no-such-host.invalid", "correct the host's name"),
    ],
)
async def test_a_failure_to_open_is_reported_with_its_fix(
    url: str, wrong: str, right: str, said: str
) -> None:
    with pytest.raises(StoreError, match=said) as refused:
        await Store.open(url.replace(wrong, right), now=NOW)
    assert PASSWORD not in "".join(traceback.format_exception(refused.value))


async def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install \"ec2spawner\[postgresql\]\"") as refused:
        await Store.open(f"postgresql://hub:{PASSWORD}@db.example.org/hub", now=NOW)
    assert PASSWORD not in str(refused.value)
