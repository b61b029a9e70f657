"""Listens where a notebook server would, which is how the agent knows that this process runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[None]:
    """Answer `/api` below this URL, and nothing else. Raises `OSError` if the port is in use."""
    own = urlsplit(url)
    app = web.Application()
    app.add_routes([web.get(f"{own.path.rstrip('/')}/api", _api)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, own.hostname, own.port).start()
        yield
    finally:
        await runner.cleanup()


async def _api(request: web.Request) -> web.Response:
    """Says nothing."""
    return web.json_response({})
