"""A hub without ec2spawner, whose spawner writes down what JupyterHub does with it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.harness import ADMIN_TOKEN, Embedded, Hub, free_ports

CONFIG = f"""
c.JupyterHub.spawner_class = "probe"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.allow_named_servers = True
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.allow_all = True
c.Spawner.apply_user_options = lambda spawner, options: spawner.apply_options(options)
c.Spawner.options_form = "<p>form</p>"
c.Spawner.poll_interval = 3600
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 5}}
c.JupyterHub.services = [{{"name": "test", "api_token": "{ADMIN_TOKEN}"}}]
c.JupyterHub.load_roles = [
    {{
        "name": "test",
        "scopes": ["admin:users", "admin:servers", "admin:server_state", "tokens"],
        "services": ["test"],
    }}
]
"""


class ProbedHub(Hub):
    """A hub whose spawner is `jupyterhub_probe.Probe`."""

    def __init__(self, directory: Path, probe_url: str) -> None:
        super().__init__(directory, Embedded(directory))
        self.probe_url = probe_url
        self.notes_file = directory / "notes"
        self.notes_file.touch()

    async def launch(self) -> None:
        packages, templates = self.directory / "packages", self.directory / "templates"
        info = packages / "probe-1.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1\n")
        points = "[jupyterhub.spawners]\nprobe = jupyterhub_probe:ProbeSpawner\n"
        (info / "entry_points.txt").write_text(points)
        templates.mkdir(exist_ok=True)
        page = '{% extends "templates/login.html" %}{% block title %}Probed{% endblock %}'
        (templates / "login.html").write_text(page)
        (self.directory / "jupyterhub_config.py").write_text(CONFIG)
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(packages), str(Path(__file__).parent)]),
            "PROBE_NOTES": str(self.notes_file),
            "PROBE_URL": self.probe_url,
            "PROBE_TEMPLATES": str(templates),
        }
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "jupyterhub",
                f"--JupyterHub.bind_url={self.url}",
                f"--JupyterHub.hub_bind_url=http://127.0.0.1:{self.api_port}",
                f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{self.proxy_port}",
                cwd=self.directory,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def notes(self, what: str = "") -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.notes_file.read_text().splitlines()]
        return [line for line in lines if what in {"", line["what"]}]

    async def tell(self, **order: Any) -> dict[str, Any]:
        reply = await self.api.post("/probe", json=order)
        assert reply.is_success, reply.text
        answer: dict[str, Any] = reply.json()
        return answer


@asynccontextmanager
async def probed_hub(folder: Path) -> AsyncIterator[ProbedHub]:
    """A running one, with something that answers where its servers would."""
    (port,) = free_ports(1)

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"version": "a probe"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    server = web.AppRunner(app, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", port).start()
    running = ProbedHub(folder, f"http://127.0.0.1:{port}")
    try:
        await running.start()
        yield running
    finally:
        await running.stop()
        await server.cleanup()
        print(running.tail(80))
