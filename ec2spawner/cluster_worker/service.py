"""What a worker answers the notebook of its cluster. Nobody else has the token."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from ..wire import MAX_ORDER_BYTES
from .engine import WorkerEngine
from .log_tail import LogTail


class Service:
    """Listens once the worker has joined: that it answers means that it is ready."""

    def __init__(self, engine: WorkerEngine, token: str, tail: LogTail) -> None:
        self._engine = engine
        self._token = token.encode()
        self._tail = tail

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Serve at this address of the instance."""
        app = web.Application(client_max_size=MAX_ORDER_BYTES, middlewares=[self._guard])
        app.add_routes([web.get("/api", self._api), web.get("/log", self._log)])
        app.add_routes(self._engine.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield
        finally:
            await runner.cleanup()

    async def _api(self, request: web.Request) -> web.Response:
        """For the agent, which waits for it; says nothing."""
        return web.json_response({})

    async def _log(self, request: web.Request) -> web.Response:
        """The end of what the engine has printed here."""
        return web.Response(text=self._tail.text())

    @web.middleware
    async def _guard(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Check every request but those for `/api`, before its body is read."""
        if request.path != "/api":
            self._check(request)
        return await handler(request)

    def _check(self, request: web.Request) -> None:
        """Raises 401 without the cluster's token, and 403 for a request of a web page."""
        if "Origin" in request.headers:
            raise web.HTTPForbidden(text="no web page has business here\n")
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or not hmac.compare_digest(_bytes(token), self._token):
            raise web.HTTPUnauthorized(text="the token does not open this worker\n")


def _bytes(header: str) -> bytes:
    """As they were sent: aiohttp decodes what is no UTF-8 to surrogates."""
    return header.encode(errors="surrogateescape")
