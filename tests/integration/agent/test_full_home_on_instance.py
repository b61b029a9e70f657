"""A home without a free byte, or without a free inode: its user gets in, to make room."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.wire import HomeMount, Stop
from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import API_TOKEN, Machine, StubHub, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed
from tests.small_disk import mounted, use_up_bytes, use_up_inodes

pytestmark = pytest.mark.slow(seconds=45)

VOLUME = "vol-0123456789abcdef0"

EMPTY: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}

WHERE = """
import os, tempfile
from jupyter_core.paths import jupyter_runtime_dir
for each in (jupyter_runtime_dir(), tempfile.gettempdir(), os.environ["EC2SPAWNER_AGENT_SOCKET"]):
    print(os.stat(each).st_dev != os.stat(os.path.expanduser("~")).st_dev)
print(oct(os.stat(jupyter_runtime_dir()).st_mode & 0o777))
"""


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


async def start(machine: Machine, hub: StubHub) -> None:
    await machine.boot()
    await machine.until_warm()
    hub.give(machine.lease(home=HomeMount(kind="ebs", volume_id=VOLUME)))
    await until(lambda: hub.event("ready") or hub.event("failed"), what="ready")


@pytest.mark.parametrize(
    ("lacks", "why", "code"),
    [
        ("bytes", "Your home is full (0 GiB): nothing can be saved", "home-full"),
        ("inodes", "Your home has no inodes left", "home-without-inodes"),
    ],
)
async def test_a_server_starts_in_a_full_home(
    machine: Machine, hub: StubHub, lacks: str, why: str, code: str
) -> None:
    with mounted(machine.volume(VOLUME), mebibytes=40, inodes=1000) as home:
        (home / "a.ipynb").write_text(json.dumps(EMPTY))
        (home / "data").mkdir()
        fill(home, lacks)
        await start(machine, hub)
        assert hub.event("failed") is None
        begun = hub.event("notebook")
        assert begun is not None
        assert begun.message.startswith(why)
        assert "~/data " in begun.message, "where to delete something"
        assert "as a new process" not in machine.log(), "the prewarmed process is used"
        async with Jupyter(machine.base_url, API_TOKEN) as ada:
            shown = await until_shown(ada, code)
            assert shown[1]["params"]["folder"] == "~/data"
            [use] = [each for each in (await ada.status())["disks"] if each["kind"] == "home"]
            assert use["used_percent" if lacks == "bytes" else "inodes_percent"] == 100

            def is_heard() -> bool:
                hub.notify_changed()  # it holds a heartbeat for most of a minute
                return bool(hub.heartbeats[-1][1].disks)

            await until(is_heard, what="the hub hears of it")
            kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
            assert printed(await kernel.run(WHERE)).split() == ["True"] * 3 + ["0o700"]
            body = {"type": "notebook", "content": EMPTY}
            assert (await ada.call("PUT", "api/contents/b.ipynb", json=body))[0] >= 500
            for each in (home / "data").iterdir():
                each.unlink()
            assert (await ada.call("PUT", "api/contents/b.ipynb", json=body))[0] < 300
            await until_shown(ada)


@pytest.mark.parametrize("lacks", ["bytes", "inodes"])
async def test_a_server_starts_on_a_full_system_disk(
    machine: Machine, hub: StubHub, lacks: str
) -> None:
    """With the home and the folders of temporary files and of the agent's state on it."""
    (machine.root / "system").mkdir()
    with mounted(machine.root / "system", mebibytes=40, inodes=1000) as system:
        for folder in ("home/data", "tmp", "var"):
            (system / folder).mkdir(parents=True)
        machine.home.symlink_to(system / "home")
        fill(system / "home", lacks)
        machine.environment = {
            "EC2SPAWNER_ROOT": str(system),
            "EC2SPAWNER_STATE_DIR": str(system / "var"),
            "TMPDIR": str(system / "tmp"),
        }
        await machine.boot()
        await machine.until_warm()
        hub.give(machine.lease())
        await until(lambda: hub.event("ready") or hub.event("failed"), what="ready")
        assert hub.event("failed") is None
        begun = hub.event("notebook")
        assert begun is not None
        assert begun.message.startswith("The machine's system disk ")
        assert "~/data " in begun.message, "where to delete something"
        async with Jupyter(machine.base_url, API_TOKEN) as ada:
            body = {"name": "python3"}
            status, kernel = await ada.call("POST", "api/kernels", json=body)
            assert status == 201
            assert "2\n" in printed(await Kernel(ada, kernel["id"]).run("print(1 + 1)"))
        hub.stop = Stop(reason="user", message="Stopped.")
        hub.notify_changed()
        await until(lambda: hub.event("stopped"), what="stopped")
        assert machine.agent is not None
        assert machine.agent.returncode is None, "the agent lives until the hub ends the lease"
        assert "Traceback" not in (machine.root / "agent.log").read_text()


async def test_a_stop_in_a_full_home_says_what_could_not_be_saved(
    machine: Machine, hub: StubHub
) -> None:
    with mounted(machine.volume(VOLUME), mebibytes=8) as home:
        await start(machine, hub)
        async with Jupyter(machine.base_url, API_TOKEN) as ada:
            body = {"type": "notebook", "content": EMPTY}
            assert (await ada.call("PUT", "api/contents/a.ipynb", json=body))[0] < 300
            kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
            await kernel.run("x = list(range(100_000))")
            use_up_bytes(home)
            await until_shown(ada, "home-full")
            whole = (home / "a.ipynb").read_bytes()
            hub.stop = Stop(reason="user", sleep="user", save_seconds=30, message="Stopped.")
            hub.notify_changed()
            await until(lambda: hub.event("stopped"), what="stopped")
        stopped = hub.event("stopped")
        assert stopped is not None
        assert stopped.session is None
        assert stopped.message.startswith(
            "Stopped. The session was not saved: your home is full. Delete files"
        )
        assert (home / "a.ipynb").read_bytes() == whole


async def until_shown(ada: Jupyter, *codes: str) -> list[dict[str, Any]]:
    """What the panel says of full disks, once it begins with these."""
    async with asyncio.timeout(60):
        while True:
            shown: list[dict[str, Any]] = (await ada.status())["full_disks"]
            if [each["code"] for each in shown[:1]] == list(codes):
                return shown
            await asyncio.sleep(0.1)


def fill(home: Path, lacks: str) -> None:
    if lacks == "bytes":
        use_up_bytes(home / "data")
    else:
        use_up_inodes(home / "data")
