"""Idleness with real hubs, agents, notebooks and terminals: under which policy what is stopped, and
what its user reads at the next login. What works is kept: tests/e2e/test_idle_in_browser.py."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from tests.harness import Embedded, Hub, Notebook, demo_config, until
from tests.integration.hub.agent_by_hand import browser
from tests.jupyter_by_hand import Jupyter

pytestmark = pytest.mark.slow(seconds=95)


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


async def in_background(notebook: Jupyter, name: str, program: str) -> None:
    """Run a program from a terminal that has its prompt back."""
    file = {"type": "file", "format": "text", "content": program}
    assert (await notebook.call("PUT", f"api/contents/{name}", json=file))[0] == 201
    await notebook.type(f"nohup {sys.executable} {name} > /dev/null 2>&1 &")


async def at_notebook(hub: Hub, user: str) -> Jupyter:
    return Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user))


async def next_page(hub: Hub, user: str) -> str:
    """What a user sees when starting a server again."""
    async with browser(hub, user) as client:
        return (await client.get(f"/hub/spawn/{user}")).text


async def until_policy(notebook: Jupyter, **expected: Any) -> Any:
    """The status as soon as its policy says this."""

    async def check() -> Any:
        with suppress(aiohttp.ClientError, AssertionError, json.JSONDecodeError):
            status = await notebook.status()
            policy = status["idle_policy"] or {}
            if expected.items() <= policy.items():
                return status
        return None

    return await until(check, 40, f"a policy with {expected}")


WAITING = (
    "c.EC2Spawner.idle_by_group['waiting'] = {'server': '15s', 'busy_without_work': '6s'}",
    "c.JupyterHub.load_groups = {'research': {'users': ['ann']}, 'waiting': {'users': ['dan']}}",
)

BEFORE = (
    "c.EC2Spawner.idle = {'server': '1h', 'user_may_set': {'server': ['15m', '8h']}}",
    "c.EC2Spawner.idle_by_group = {'research': {'server': '2h'}}",
    *WAITING,
)

BOUNDED = {
    "code": "idle-time-bounded",
    "params": {"min_seconds": 900, "max_seconds": 28800, "seconds": 900},
}

AFTER = (
    "c.EC2Spawner.idle = {'server': '1h', 'warn': '4s', 'user_may_set': {'server': ['1s', '12s']}}",
    "c.EC2Spawner.idle |= {'cpu_busy_percent': 0, 'gpu_busy_percent': 0}",
    "c.EC2Spawner.idle_by_group = {'research': {'server': '3h'}}",
    *WAITING,
    "async def hook(spawner, policy):",
    "    if spawner.user.name == 'ann':",
    "        raise LookupError('no such role')",
    "    return {'max_age': '20s'} if spawner.user.name == 'cid' else {}",
    "c.EC2Spawner.idle_hook = hook",
)


async def wait_in_input(hub: Hub, user: str) -> None:
    """Leave a cell that waits for an answer, and go."""
    await hub.start_server(user, options={"profile": "cpu"})
    async with await at_notebook(hub, user) as notebook:
        kernel = await notebook.start_notebook("stuck.ipynb")
        await notebook.execute(kernel, "input('name? ')")

        async def is_believed() -> bool:
            return (await notebook.status())["idleness"]["busy_path"] == "stuck.ipynb"

        await until(is_believed, 20, "the cell to run")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_idle_choice.py::"
    "test_a_server_follows_the_configuration_until_its_profile_is_removed"
)
async def test_a_changed_policy_reaches_running_servers(embedded: Embedded, tmp_path: Path) -> None:
    config = demo_config(tmp_path / "config", *BEFORE)
    hub = Hub(tmp_path / "hub", embedded, config=config)
    users = ("ann", "bob", "cid")
    try:
        await hub.start()
        starts = (hub.start_server(user) for user in users)
        await asyncio.gather(wait_in_input(hub, "dan"), *starts)
        async with (
            await at_notebook(hub, "ann") as ann,
            await at_notebook(hub, "bob") as bob,
        ):
            await until_policy(ann, server_seconds=7200)
            status = await until_policy(bob, server_seconds=3600)
            bounds = ("user_server_min_seconds", "user_server_max_seconds")
            assert [status["idle_policy"][name] for name in bounds] == [900, 28800]
            status, said = await bob.call(
                "POST", "ec2spawner/api/idle", json={"server_seconds": 60}
            )
            assert (status, said["sentence"]) == (200, BOUNDED)
            await until_policy(bob, server_seconds=900, user_server_seconds=900)
            status, said = await bob.call(
                "POST", "ec2spawner/api/idle", json={"server_seconds": 1800}
            )
            assert (status, said["sentence"]) == (200, None)
            assert (await bob.call("POST", "ec2spawner/api/idle", json={}))[0] == 400

            job = await bob.type("sleep 900")

            async def works() -> bool:
                return bool((await bob.status())["idleness"]["busy_because"])

            await until(works, 20, "the job in the terminal")
            await hub.kill()
            demo_config(tmp_path / "config", *AFTER)
            await hub.start()
            # What its user has chosen holds within the new bounds, and the stop comes by it.
            await until_policy(bob, server_seconds=12, user_server_seconds=12)
            assert (await bob.call("DELETE", f"api/terminals/{job}"))[0] == 204
            # Its function failed, so its policy stays: what that gave may be what keeps it on.
            await until_policy(ann, server_seconds=7200, max_age_seconds=0)
            await hub.wait_gone("bob", timeout=40)
            await hub.wait_gone("cid", timeout=40)
            await hub.wait_gone("dan", timeout=40)
        assert "c.EC2Spawner.idle_hook failed" in hub.log.read_text()
        for user in ("bob", "dan"):
            assert "It had been idle for" in await next_page(hub, user)
        assert "It reached its maximum age" in await next_page(hub, "cid")

        admin = {"Authorization": f"token {await hub.user_token('admin')}"}
        async with httpx.AsyncClient(
            verify=False, base_url=f"{hub.url}/hub/api", headers=admin, timeout=60
        ) as client:
            assert (await client.delete(hub.server_path("ann"))).is_success
        await hub.wait_gone("ann")
        assert "admin asked for it, with an admin&#39;s rights" in await next_page(hub, "ann")
    finally:
        await hub.stop()
        print(hub.tail(120))


TAMPERING = """
import json, os, socket, threading, time
from datetime import datetime, timedelta, timezone

def said(**message):
    return json.dumps(message).encode() + b"\\n"

def now():
    return datetime.now(timezone.utc)

def lies(number):
    kernel = {"id": "k", "name": "train.ipynb", "pid": 1, "execution_state": "busy"}
    while True:
        future = (now() + timedelta(days=300)).isoformat()
        yield said(type="observation", at=future, last_input=future,
                   kernels=[kernel | {"last_activity": future, "id": str(i)} for i in range(99)])
        yield said(type="extend", id=number, seconds=2592000)
        yield said(type="idle", id=number, seconds=2592000)

def garbage(number):
    while True:
        yield from (b"{" * 90000 + b"\\n", said(type="state"), os.urandom(5000) + b"\\n")
        yield said(type="reply", id=number, ok=True)

def talk(what, number):
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(os.environ["EC2SPAWNER_AGENT_SOCKET"])
                line.settimeout(0.05)
                for each in what(number):
                    line.sendall(each)
                    try:
                        line.recv(65536)
                    except TimeoutError:
                        pass
        except OSError:
            time.sleep(0.2)

for number in range(3):
    threading.Thread(target=talk, args=(lies, number)).start()
    threading.Thread(target=talk, args=(garbage, number)).start()
"""


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_running.py::"
    "test_a_server_ends_at_max_age_even_when_active"
)
async def test_activity_faked_to_the_agent_is_bounded_by_max_age(
    embedded: Embedded, tmp_path: Path
) -> None:
    """The user's own processes move their own display, and nothing else."""
    config = demo_config(
        tmp_path / "config",
        "c.EC2Spawner.idle = {'server': '20s', 'warn': '3s', 'max_age': '35s',"
        " 'user_may_extend': '1h', 'cpu_busy_percent': 0, 'gpu_busy_percent': 0}",
        "c.JupyterHub.load_groups = {'patient': {'users': ['bob']}}",
        "c.EC2Spawner.idle_by_group = {'patient': {'server': '10m', 'max_age': 0}}",
    )
    hub = Hub(tmp_path / "hub", embedded, config=config)
    try:
        await hub.start()
        await hub.start_server("bob")
        await hub.start_server("eve")  # the last one: she must lie before she is idle for long
        async with await at_notebook(hub, "eve") as eve, await at_notebook(hub, "bob") as bob:
            await in_background(eve, "evil.py", TAMPERING)

            async def believed() -> Any:
                status = await eve.status()
                return status if status["idleness"]["busy_because"] else None

            status = await until(believed, 15, "the lies to be believed")
            assert status["idle_policy"]["server_seconds"] == 20
            bound = datetime.now(UTC) + timedelta(hours=1, seconds=5)
            if status["extended_until"]:
                assert datetime.fromisoformat(status["extended_until"]) < bound
            await hub.wait_gone("eve", timeout=60)
            assert "It reached its maximum age" in await next_page(hub, "eve")
            status = await until_policy(bob, server_seconds=600)
            assert status["extended_until"] is None
            assert status["idleness"]["busy_because"] == ""
    finally:
        await hub.stop()
        print(hub.tail(120))
