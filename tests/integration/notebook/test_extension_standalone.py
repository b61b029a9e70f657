"""The extension in a plain Jupyter Server: no hub, no agent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ec2spawner.wire import History
from tests.harness import free_ports

REPOSITORY = Path(__file__).parents[3]
TOKEN = "token-of-this-test"


class Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self.http = aiohttp.ClientSession(headers={"Authorization": f"token {TOKEN}"})

    async def call(self, method: str, path: str, **kwargs: Any) -> tuple[int, Any]:
        async with self.http.request(method, f"{self.url}/{path}", **kwargs) as answer:
            return answer.status, json.loads(await answer.text() or "null")

    async def status(self) -> Any:
        code, body = await self.call("GET", "ec2spawner/api/status")
        assert code == 200
        return body


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    [port] = free_ports(1)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    environment = kept | {
        "HOME": str(tmp_path),
        "PYTHONPATH": str(REPOSITORY),
        "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
        "EC2SPAWNER_SIMULATED_GPU": json.dumps(
            {"name": "Simulated T4", "count": 1, "memory_mib": 15360}
        ),
    }
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "jupyter_server",
            "--allow-root",
            "--no-browser",
            f"--port={port}",
            "--port-retries=0",
            f"--IdentityProvider.token={TOKEN}",
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=log,
        )
    server = Server(f"http://127.0.0.1:{port}")
    try:
        async with asyncio.timeout(90):
            while True:
                assert process.returncode is None, (tmp_path / "log").read_text()
                try:
                    if (await server.call("GET", "api"))[0] == 200:
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        yield server
    finally:
        await server.http.close()
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(90):
            await process.wait()
        print((tmp_path / "log").read_text()[-4000:])


WORK = """
import os, time
while not os.path.exists({file!r}):
    time.sleep(0.05)
"""


async def test_it_samples_without_an_agent_and_hides_unknown_fields(
    server: Server, tmp_path: Path
) -> None:
    async with asyncio.timeout(90):
        while not (status := await server.status())["telemetry"]:
            await asyncio.sleep(0.1)
    assert (status["managed"], status["agent_connected"]) == (False, False)
    assert (status["cost"], status["idle_policy"], status["stop"]) == (None, None, None)
    assert status["telemetry"]["gpu_source"] == "simulated"
    assert status["telemetry"]["gpus"][0]["name"] == "Simulated T4"
    assert status["idleness"]["stop_at"] is None

    _, before = await server.call("GET", "api/status")
    for _ in range(5):
        await server.status()
    _, after = await server.call("GET", "api/status")
    assert after["last_activity"] == before["last_activity"]

    for button in ("extend", "stop"):
        code, said = await server.call("POST", f"ec2spawner/api/{button}", json={"seconds": 60})
        assert code == 404
        assert said["sentence"]["code"] == "not-managed"
    url = f"{server.url}/ec2spawner/api/status"
    async with aiohttp.ClientSession() as nobody, nobody.get(url) as answer:
        assert answer.status == 403

    _, session = await server.call(
        "POST",
        "api/sessions",
        json={
            "path": "a.ipynb",
            "name": "a.ipynb",
            "type": "notebook",
            "kernel": {"name": "python3"},
        },
    )
    channels = await server.http.ws_connect(
        f"{server.url}/api/kernels/{session['kernel']['id']}/channels"
    )
    finished = tmp_path / "finished"
    message = {
        "header": {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "",
            "session": uuid.uuid4().hex,
            "date": "2026-11-03T14:00:00Z",
            "version": "5.3",
        },
        "parent_header": {},
        "metadata": {},
        "content": {"code": WORK.format(file=str(finished)), "silent": False},
        "channel": "shell",
    }
    await channels.send_str(json.dumps(message))
    async with asyncio.timeout(90):
        while (status := await server.status())["idleness"]["busy_because"] != "a.ipynb is running":
            await asyncio.sleep(0.05)
    assert status["idleness"]["idle_since"] is None
    finished.touch()
    # A machine under load takes long to start a kernel, and that is use of its CPU.
    async with asyncio.timeout(90):
        while (status := await server.status())["idleness"]["idle_since"] is None:
            await asyncio.sleep(0.05)
    before = datetime.fromisoformat(status["idleness"]["idle_since"])
    assert (await server.call("POST", "ec2spawner/api/input", json={}))[0] == 200
    async with asyncio.timeout(90):
        while datetime.fromisoformat((await server.status())["idleness"]["idle_since"]) <= before:
            await asyncio.sleep(0.05)
    await channels.close()


@pytest.mark.nightly(
    guard="tests/integration/notebook/test_extension_standalone.py::"
    "test_it_samples_without_an_agent_and_hides_unknown_fields"
)
async def test_history_metrics_and_terminal_activity(server: Server) -> None:
    _, terminal = await server.call("POST", "api/terminals")
    line = await server.http.ws_connect(f"{server.url}/terminals/websocket/{terminal['name']}")
    await line.send_str(json.dumps(["stdin", "sleep 321\r"]))

    async with asyncio.timeout(90):
        while not (history := (await server.call("GET", "ec2spawner/api/history"))[1])["at"]:
            await asyncio.sleep(0.2)
    found = History.model_validate(history)
    assert found.step_seconds == 5
    assert [gpu.name for gpu in found.gpus] == ["Simulated T4"]
    assert len(found.gpus[0].use_percent) == len(found.cpu_percent) == len(found.at)
    assert found.memory_percent[-1] is not None
    _, later = await server.call("GET", f"ec2spawner/api/history?since={found.at[-1]}")
    assert found.at[-1] not in later["at"]
    assert (await server.call("GET", "ec2spawner/api/history?since=yesterday"))[0] == 400

    async with asyncio.timeout(90):
        while not (workers := await terminals_of(server)):
            await asyncio.sleep(0.1)
    assert [(each["name"], each["terminal"]) for each in workers] == [("sleep", terminal["name"])]

    async with server.http.get(f"{server.url}/metrics") as answer:
        text = await answer.text()
    assert 'ec2spawner_gpu_use_ratio{gpu="0",name="Simulated T4",uuid="simulated-0"}' in text
    assert "ec2spawner_idle_seconds 0.0" in text
    assert "ec2spawner_cost_usd" not in text, "without an agent the cost is unknown"
    async with aiohttp.ClientSession() as nobody:
        for path in ("metrics", "ec2spawner/api/history"):
            async with nobody.get(f"{server.url}/{path}") as answer:
                assert answer.status == 403
    await line.close()


async def terminals_of(server: Server) -> list[Any]:
    telemetry = (await server.status())["telemetry"] or {"workers": []}
    return [each for each in telemetry["workers"] if each["kind"] == "terminal"]
