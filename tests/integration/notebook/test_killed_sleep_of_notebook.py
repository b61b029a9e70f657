"""A server with real kernels, whose machine ends at each change of the disk while it sleeps."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.notebook import killed_at
from tests.integration.notebook.sleeping_server import REPOSITORY, SleepingServer
from tests.jupyter_by_hand import Kernel

pytestmark = [pytest.mark.slow(seconds=500), pytest.mark.long]

STRIDE = 3
NOTEBOOKS = ("a.ipynb", "b.ipynb")


@pytest.fixture
async def server() -> AsyncIterator[SleepingServer]:
    home = Path(tempfile.mkdtemp(prefix="ec2killed-"))
    server = SleepingServer(home, "tests.integration.notebook.killed_identity.Identity")
    try:
        yield server
    finally:
        await server.end()
        print(server.log()[-4000:])
        shutil.rmtree(home, ignore_errors=True)


async def test_each_kernel_wakes_as_it_was_saved_last_or_now(
    server: SleepingServer, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(killed_at.__file__, site / "sitecustomize.py")
    environment = {
        "EC2SPAWNER_TEST_KILL": str(site),
        "EC2SPAWNER_WAKE": "last",
        "PYTHONPATH": f"{site}:{REPOSITORY}",
    }
    await server.start(**environment)
    for name in NOTEBOOKS:
        await server.notebook(name, "x, texts = 0, ['0'] * 1000\ndef f(): return x")
    await server.sleep()
    await server.end()
    possible = {name: {0} for name in NOTEBOOKS}
    killed = 0
    for number in range(1, 10_000, STRIDE):
        for old in ("groups", "count", "armed"):
            (site / old).unlink(missing_ok=True)
        ada = await server.start(**environment)
        await server.woken()
        _, sessions = await ada.call("GET", "api/sessions")
        for session in sessions:
            name, kernel = session["path"], Kernel(ada, session["kernel"]["id"])
            x = int(await server.value(name, "x if set(texts) == {str(x)} and f() == x else -1"))
            assert x in possible[name], (number, name)
            possible[name] = {x, number}
            await kernel.run(f"x, texts = {number}, ['{number}'] * 1000")
        assert {each["path"] for each in sessions} == {*NOTEBOOKS}, number
        (site / "armed").write_text(str(number))
        order = server.new_order(30)
        server.push(order)
        process = server.process
        assert process is not None
        ended = asyncio.create_task(process.wait())
        await server.until(lambda: ended.done() or server.answers(order.id))  # noqa: B023
        if not ended.done():
            # What is removed afterwards, too.
            await asyncio.wait({ended}, timeout=2)
        is_over = not ended.done() and (site / "count").stat().st_size < number
        await server.end()
        if is_over:
            break
        killed += 1
    assert killed * STRIDE > 30
