"""A notebook server ends on SIGTERM, whatever its open pages wait for."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.integration.notebook.sleeping_server import SleepingServer

CONFIG = """
import asyncio
from pathlib import Path
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

class Silent(AsyncLargeFileManager):
    async def get(self, path, *args, **kwargs):
        model = await super().get(path, *args, **kwargs)
        if path == "/silent.txt":
            Path("has-read").touch()
            await asyncio.Event().wait()
        return model

c.ServerApp.contents_manager_class = Silent
"""


@pytest.fixture
async def server() -> AsyncIterator[SleepingServer]:
    home = Path(tempfile.mkdtemp(prefix="ec2end-"))
    (home / ".jupyter").mkdir()
    (home / ".jupyter" / "jupyter_server_config.py").write_text(CONFIG)
    (home / "silent.txt").touch()
    server = SleepingServer(home)
    try:
        await server.start()
        yield server
    finally:
        await server.end()
        print(server.log()[-4000:])
        shutil.rmtree(home, ignore_errors=True)


async def test_a_request_that_is_never_answered_does_not_keep_a_server(
    server: SleepingServer,
) -> None:
    assert server.ada is not None
    assert server.process is not None
    page = asyncio.create_task(server.ada.call("GET", "api/contents/silent.txt"))
    await server.until((server.home / "has-read").exists)
    for _ in range(2):
        server.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(30):
        status = await server.process.wait()
    # Python gives up its handlers at its very end, where the second signal may arrive.
    assert status in {0, -signal.SIGTERM}
    with contextlib.suppress(aiohttp.ClientError):
        await page
