"""A spawner that writes down what JupyterHub does with it: one JSON line each.

It is imported by a real hub as an entry point's module, see `test_jupyterhub_contract.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from jupyterhub import apihandlers
from jupyterhub import handlers as page_handlers
from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.app import JupyterHub
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.handlers.pages import SpawnHandler
from jupyterhub.spawner import Spawner, SpawnException
from tornado.web import HTTPError

MARKUP = "<b>words</b> for people"


def note(what: str, **details: Any) -> None:
    line = json.dumps({"what": what, "at": time.monotonic(), **details})
    with Path(os.environ["PROBE_NOTES"]).open("a") as file:
        file.write(f"{line}\n")


class ProbeHandler(APIHandler):
    """`POST {"do": ...}`: one thing with the server of ann."""

    _accept_cookie_auth = False
    _accept_token_auth = False

    def check_xsrf_cookie(self) -> None: ...

    async def post(self) -> None:
        order = self.get_json_body()
        spawner = self.settings["users"]["ann"].spawners[""]
        if order["do"] == "end":
            spawner.alive = False
            await spawner.poll_and_notify()
        elif order["do"] == "end to resume":
            spawner.alive, spawner.will_resume = False, True
            await spawner.poll_and_notify()
        elif order["do"] == "start without a request":
            await self.settings["users"]["ann"].spawn("")
        elif order["do"] == "new token at poll":
            spawner.token_at_poll = order["token"]
        self.finish({"authorization": self.get_auth_token(), "user": self.current_user is not None})


class SpawnPageProbe(SpawnHandler):
    async def prepare(self) -> None:
        known = hasattr(self, "_jupyterhub_user")
        await super().prepare()
        note("spawn page", known_before=known, known=self.current_user is not None)


class Probe(Spawner):
    """Runs nothing: its server is whatever answers at PROBE_URL."""

    alive = False
    token_at_poll = ""
    connections = 0

    def apply_options(self, options: dict[str, Any]) -> None:
        note("apply_user_options", options=options, start_pending=self._start_pending)
        if options.get("refuse"):
            raise SpawnException("no such thing", reason="probe")

    async def start(self) -> str:
        note("start", start_pending=self._start_pending, poll_pending=self._check_pending)
        if self.user_options.get("fail"):
            self.alive = self.user_options["fail"] == "running"
            raise SpawnException(MARKUP, reason="probe", status_code=503)
        await asyncio.sleep(float(self.user_options.get("seconds", 0)))
        self.alive = True
        note("started")
        return os.environ["PROBE_URL"]

    async def poll(self) -> int | None:
        note("poll", start_pending=self._start_pending, check_pending=self._check_pending)
        if self.token_at_poll:
            self.api_token = self.token_at_poll
        return None if self.alive else 0

    async def rename(self, old_name: str, new_name: str) -> None:
        note("rename", old=old_name, new=new_name, names=[*self.user.orm_spawners])
        if new_name == "refused":
            raise HTTPError(409, "not that name")

    async def get_url(self) -> str:
        note("get_url", check_pending=self._check_pending)
        return await super().get_url()

    def start_polling(self) -> None:
        super().start_polling()
        note("start_polling", check_pending=self._check_pending)
        if self._check_pending:
            asyncio.get_running_loop().call_soon(self._after_check)

    def _after_check(self) -> None:
        note("after check", check_pending=self._check_pending, ready=self.ready)

    async def stop(self, now: bool = False) -> None:
        await asyncio.sleep(0)
        note("stop", handled=type(sys.exception()).__name__)
        self.alive = False

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        type(self).connections += 1
        number = self.connections
        for step in (1, 2):
            yield {
                "progress": step,
                "message": "on the way",
                "steps": [{"name": "boot"}],
                "number": number,
            }
            await asyncio.sleep(0.2)

    def get_state(self) -> dict[str, Any]:
        note("get_state", alive=self.alive)
        return {**super().get_state(), "probe": self.alive}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.alive = state.get("probe", False)


def probing(proxy_class: type) -> type:
    """The proxy, which writes down when a server's route is added or removed."""

    class ProbedProxy(proxy_class):
        async def delete_user(self, user: Any, server_name: str = "") -> None:
            note("delete_user", stop_pending=user.spawners[server_name]._stop_pending)
            await super().delete_user(user, server_name)

        async def add_user(self, user: Any, server_name: str = "") -> None:
            await super().add_user(user, server_name)
            spawner = user.spawners[server_name]
            note("add_user", start_pending=spawner._start_pending, pending=spawner.pending)

    return ProbedProxy


def probe_activity() -> None:
    """Write down what is recorded of who sends a request; of `User-Agent: idle` nothing is."""
    record = BaseHandler._record_activity

    def record_activity(self: BaseHandler, obj: Any, timestamp: Any = None) -> bool:
        idle = self.request.headers.get("User-Agent") == "idle"
        recorded = not idle and record(self, obj, timestamp)
        note(
            "activity",
            of=type(obj).__name__,
            recorded=recorded,
            known=hasattr(self, "_jupyterhub_user"),
            dirty=bool(self.db.dirty),
        )
        return recorded

    BaseHandler._record_activity = record_activity


def __getattr__(name: str) -> Any:
    if name != "ProbeSpawner":
        raise AttributeError(name)
    app = JupyterHub.instance()
    if app.proxy_class.__name__ != "ProbedProxy":
        app.proxy_class = probing(app.proxy_class)
    callers = []
    frame = sys._getframe()
    while frame is not None:
        callers.append(frame.f_code.co_name)
        frame = frame.f_back
    try:
        asyncio.get_running_loop()
        in_loop = True
    except RuntimeError:
        in_loop = False
    note(
        "resolved",
        start_future=hasattr(app, "_start_future"),
        in_loop=in_loop,
        in_load_config_file="load_config_file" in callers,
        handlers_built=bool(getattr(app, "handlers", None)),
    )
    if (r"/api/probe", ProbeHandler) not in apihandlers.default_handlers:
        apihandlers.default_handlers.append((r"/api/probe", ProbeHandler))
        page_handlers.default_handlers.insert(0, (r"/spawn", SpawnPageProbe))
        probe_activity()
    ours = os.environ["PROBE_TEMPLATES"]

    def add(_change: object = None) -> None:
        if ours not in app.template_paths:
            app.template_paths = [ours, *app._template_paths_default()]

    app.observe(add, names=["template_paths"])
    add()
    return Probe
