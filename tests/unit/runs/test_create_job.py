"""What JupyterLab's *Create Job* requests of a notebook server, over HTTP."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jupyter_server.serverapp import ServerApp
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from traitlets.config import Config

from ec2spawner.wire import HardwareChoice, HardwareChoices
from tests.harness import until

from .agent_socket import agent
from .job_hub import NOTEBOOK, JobHub

HARDWARE = HardwareChoices(
    choices=[HardwareChoice(profile="a100", name="A100", usd_per_hour=4, is_available=True)],
    own=HardwareChoice(profile="t4", name="T4, 16 GB", usd_per_hour=0.2, is_available=True),
)
OTHERS = (
    *("ec2spawner.notebook", "jupyter_lsp", "jupyter_server_terminals", "jupyterlab", "notebook"),
    "notebook_shim",
)
"""Extensions that take time to load, and are not needed here."""
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "runs.md"


def documented() -> Config:
    """The configuration of the page about runs."""
    text = PAGE.read_text("utf-8")
    [block] = re.findall(r"^```text\n(c\.SchedulerApp.*?)^```", text, re.M | re.S)
    config = Config()
    exec(block, {"c": config})
    return config


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobHub]:
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in ("CONFIG", "DATA", "RUNTIME"):
        folder = tmp_path / kind.lower()
        folder.mkdir()
        monkeypatch.setenv(f"JUPYTER_{kind}_DIR", str(folder))
    (tmp_path / "train.ipynb").write_text(json.dumps(NOTEBOOK))
    made = JobHub()
    with agent(tmp_path, monkeypatch, made, HARDWARE):
        yield made


@pytest.fixture
async def jobs(tmp_path: Path, hub: JobHub) -> AsyncIterator[aiohttp.ClientSession]:
    """Requests to jupyter-scheduler in a notebook server that is configured as documented."""
    app = ServerApp(
        config=documented(),
        root_dir=str(tmp_path),
        jpserver_extensions={"jupyter_scheduler": True, **dict.fromkeys(OTHERS, False)},
        allow_root=True,
        open_browser=False,
    )
    app.initialize(argv=[], new_httpserver=False)
    socket, port = bind_unused_port()
    server = HTTPServer(app.web_app)
    server.add_socket(socket)
    headers = {"Authorization": f"token {app.identity_provider.token}"}
    url = f"http://127.0.0.1:{port}/scheduler/"
    async with aiohttp.ClientSession(url, headers=headers) as session:
        yield session
    server.stop()
    await server.close_all_connections()
    await app._cleanup()
    for process in multiprocessing.active_children():
        await asyncio.to_thread(process.join, 10)


async def test_a_job_runs_on_the_profile_that_was_chosen(
    jobs: aiohttp.ClientSession, hub: JobHub, tmp_path: Path
) -> None:
    offered = await requested(jobs, "GET", "runtime_environments")
    assert [each["name"] for each in offered] == ["t4", "a100"], "that of the server first"
    assert "4.0000 USD per hour" in offered[1]["description"]
    formats = [{"name": "ipynb", "label": "Notebook"}, {"name": "html", "label": "HTML"}]
    assert offered[1]["output_formats"] == formats

    wanted = {
        "name": "train",
        "input_uri": "train.ipynb",
        "runtime_environment_name": offered[1]["label"],
        "output_formats": ["ipynb"],
    }
    created = await requested(jobs, "POST", "jobs", json=wanted)
    path = f"jobs/{created['job_id']}"

    async def completed() -> Any:
        found = await requested(jobs, "GET", path)
        assert found["status"] != "FAILED", found
        return found if found["status"] == "COMPLETED" else None

    job = await until(completed, 60, "the job to be completed")
    assert hub.submitted().profile == "a100"
    assert job["tags"] == ["run-12"]
    assert {each["display_name"] for each in job["job_files"]} == {"Notebook", "Input"}
    [executed] = (tmp_path / "data").rglob("train-*.ipynb")
    [output] = json.loads(executed.read_text())["cells"][0]["outputs"]
    assert output["text"] == ["42\n"]


async def requested(jobs: aiohttp.ClientSession, method: str, path: str, **more: Any) -> Any:
    async with jobs.request(method, path, **more) as answer:
        text = await answer.text()
        assert answer.status == 200, text
        return json.loads(text)
