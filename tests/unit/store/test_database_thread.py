"""Work on a database: what it answers counts, whatever the event loop does meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ec2spawner.provisioner.store.databases import database_thread
from ec2spawner.provisioner.store.databases.backends import open_database
from ec2spawner.provisioner.store.databases.database import StoreTimeoutError
from ec2spawner.provisioner.store.databases.database_thread import DatabaseThread


@pytest_asyncio.fixture
async def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DatabaseThread]:
    monkeypatch.setattr(database_thread, "ANSWER_SECONDS", 0.05)
    opened = DatabaseThread(open_database(f"sqlite:///{tmp_path / 'store.sqlite'}"))
    yield opened
    monkeypatch.undo()
    await opened.close()


async def test_an_answer_counts_although_the_event_loop_was_blocked(thread: DatabaseThread) -> None:
    """JupyterHub's start with a thousand servers blocks it for longer than the timeout."""
    answer = asyncio.create_task(thread.run(lambda: "answered"))
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - the loop is blocked
    assert await answer == "answered"


async def test_work_that_takes_too_long_is_an_error(thread: DatabaseThread) -> None:
    with pytest.raises(StoreTimeoutError):
        await thread.run(lambda: time.sleep(0.5))
