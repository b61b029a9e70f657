"""A store in a SQLite file: whose it is, and what happens when others use it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
import traceback
from pathlib import Path

import pytest

from ec2spawner.provisioner.store.databases import sqlite
from ec2spawner.provisioner.store.store import Store, StoreError
from tests.small_disk import mounted, use_up_bytes
from tests.stored import NOW, lease


def run_sql(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub" / "ec2spawner.sqlite"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


async def test_only_the_owner_may_read_it(store: Store, path: Path) -> None:
    await store.save_lease(lease())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert f"{path.name}-wal" in modes


async def test_a_file_that_is_no_database_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n" * 100)
    with pytest.raises(StoreError, match="name another file"):
        await Store.open(f"sqlite:///{path}", now=NOW)
    assert path.read_text() == "shopping list\n" * 100


async def test_a_folder_instead_of_the_file_raises_our_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path)):
        await Store.open(f"sqlite:///{tmp_path}", now=NOW)


async def test_a_queued_write_happens_though_its_caller_is_cancelled(url: str, path: Path) -> None:
    opened = await Store.open(url, now=NOW)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    under_way = asyncio.create_task(opened.save_lease(lease("one")))
    waiting = asyncio.create_task(opened.save_lease(lease("two")))
    await asyncio.sleep(0.05)
    waiting.cancel()
    under_way.cancel()
    await asyncio.gather(waiting, under_way, return_exceptions=True)
    closing = asyncio.create_task(opened.close())
    await asyncio.sleep(0.05)
    other.execute("COMMIT")
    other.close()
    await closing
    again = await Store.open(url, now=NOW)
    assert {each.lease_id for each in (await again.load()).leases} == {"one", "two"}
    await again.close()


async def test_a_locked_file_does_not_block_the_loop(store: Store, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    write = asyncio.create_task(store.save_lease(lease()))
    for _ in range(100):  # a store that blocked the loop would never get here
        await asyncio.sleep(0.001)
    assert not write.done()
    other.execute("COMMIT")
    other.close()
    await write
    assert (await store.load()).leases == (lease(),)


async def test_a_long_file_lock_is_an_error_that_passes(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    opened = await Store.open(url, now=NOW)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"locked.*another program holds the file"):
        await opened.save_lease(lease())
    other.execute("ROLLBACK")
    other.close()
    await opened.hold()
    assert "answers again" in caplog.messages[-1]
    await opened.save_lease(lease())
    await opened.close()


async def test_a_full_disk_takes_nothing_and_keeps_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading works meanwhile, and is no sign that there is room again."""

    def messages() -> list[str]:
        return [x.getMessage() for x in caplog.records if x.name.startswith("ec2spawner.")]

    with mounted(tmp_path, mebibytes=2) as disk:
        opened = await Store.open(f"sqlite:///{disk}/hub.sqlite", now=NOW)
        await opened.save_lease(lease("one"))
        use_up_bytes(disk)
        for _ in range(3):
            with pytest.raises(StoreError, match="make room on its disk"):
                await opened.save_lease(lease("two"))
            assert [each.lease_id for each in (await opened.load()).leases] == ["one"]
            await opened.hold()
        assert len(messages()) == 1
        (disk / "big").unlink()
        await opened.save_lease(lease("two"))
        assert "answers again" in messages()[-1]
        await opened.close()
        again = await Store.open(f"sqlite:///{disk}/hub.sqlite", now=NOW)
        assert {each.lease_id for each in (await again.load()).leases} == {"one", "two"}
        await again.close()
        with contextlib.closing(sqlite3.connect(disk / "hub.sqlite")) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_hub_that_starts_on_a_full_disk_can_start_once_there_is_room(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path) as disk:
        use_up_bytes(disk)
        url = f"sqlite:///{disk}/hub/hub.sqlite"
        for _ in range(2):
            with pytest.raises(StoreError, match="make room on its disk"):
                await Store.open(url, now=NOW)
        (disk / "big").unlink()
        await (await Store.open(url, now=NOW)).close()


async def test_an_error_names_the_fix_and_no_stored_value(store: Store, path: Path) -> None:
    run_sql(
        path,
        "CREATE TRIGGER full BEFORE INSERT ON lease BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END",
    )
    secret = "5ea1ed" * 8
    with pytest.raises(StoreError, match="make room on its disk") as failed:
        await store.save_lease(lease(sealed_start=secret, token_sha256=secret))
    assert secret not in "".join(traceback.format_exception(failed.value))
    assert (await store.load()).leases == ()
