"""Bad configuration stops the hub before it costs anything, with one message that helps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.provisioner.store.store import Store
from tests.harness import Embedded, Hub, until
from tests.integration.hub.agent_by_hand import browser, call, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

HUBS: dict[str, tuple[str, ...]] = {
    "options": (
        "--EC2Spawner.profile_list=[{'display_name': 'Big one', 'gpu': 'A1000'}]",
        "--EC2Spawner.subnets=[]",
        "--EC2Spawner.boot_timeout=-5",
        "--EC2Spawner.idle={'server': '-1h'}",
        "--EC2Spawner.identity_certificates=['/nowhere/certificate.pem']",
        "--EC2Spawner.subnet=['subnet-0a1b2c3d']",
        "--EC2Spawner.hub_api_url=http://10.0.0.5:8081/",
    ),
    "profiles": (
        (
            "--EC2Spawner.profile_list=[{'display_name': 'One', 'gpu': 'T4'}, "
            "{'display_name': 'one', 'gpu': 'L4'}]"
        ),
        "--JupyterHub.cleanup_servers=True",
    ),
    "internal-ssl": (
        "--JupyterHub.internal_ssl=True",
        "--JupyterHub.recreate_internal_certs=True",
    ),
    "store-held": (),
}
"""Hubs that must not start, and their arguments. All errors are reported at once."""

WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown-gpu": (
        "options",
        ("c.EC2Spawner.profile_list[0].gpu", "Big one", "A1000", "did you mean", "A100"),
    ),
    "no-subnets": (
        "options",
        ("c.EC2Spawner.subnets:", "no subnet is given", 'c.EC2Spawner.subnets = ["subnet-'),
    ),
    "negative-time": ("options", ("c.EC2Spawner.boot_timeout:", "-5", "is negative", "20m")),
    "negative-idle-time": ("options", ("c.EC2Spawner.idle.server:", '"-1h" is negative', "20m")),
    "no-certificate": (
        "options",
        ("c.EC2Spawner.identity_certificates:", "/nowhere/certificate.pem", "path of a PEM"),
    ),
    "address-without-its-path": (
        "options",
        (
            "c.EC2Spawner.hub_api_url",
            "does not end with /hub/api",
            'c.EC2Spawner.hub_api_url = "http://10.0.0.5:8081/hub/api"',
        ),
    ),
    "misspelt": (
        "options",
        ("c.EC2Spawner.subnet:", "there is no such option", "did you mean subnets"),
    ),
    "slug-twice": ("profiles", ("c.EC2Spawner.profile_list[1].slug", '"one"', "one-2")),
    "cleanup-servers": (
        "profiles",
        ("c.JupyterHub.cleanup_servers", "stop everyone", "c.JupyterHub.cleanup_servers = False"),
    ),
    "internal-ssl": (
        "internal-ssl",
        ("c.EC2Spawner.hub_api_url", "no certificate yet", "https://<public name of the hub>"),
    ),
    "internal-certs": (
        "internal-ssl",
        ("c.JupyterHub.recreate_internal_certs", "end them", "stop all servers"),
    ),
    "store-held": ("store-held", ("ec2spawner.sqlite", f"process {os.getpid()}", "stop that one")),
}
"""What is wrong: in which hub, and the words that its one line of the log must have."""


class Nowhere(Embedded):
    """Where an EC2 could be and none is."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.described = {
            "ec2_endpoint": "http://127.0.0.1:9",
            "region": "us-east-1",
            "subnets": ["subnet-0a1b2c3d"],
            "security_group": "sg-0a1b2c3d",
            "image_id": "ami-0a1b2c3d",
            "certificate": str(IdentitySigner(directory).certificate_path),
            "aws_access_key_id": "nobody",
            "aws_secret_access_key": "nobody",
        }


@dataclass
class Refused:
    """A hub that has ended: its exit status, None where it had to be ended."""

    hub: Hub
    status: int | None
    log: str
    listening: list[int]
    """Its ports where something still listens."""


async def listens(port: int) -> bool:
    try:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def end_proxy(hub: Hub) -> None:
    """The proxy that a hub has left running: it is no child of ours."""
    pid_file = hub.directory / "jupyterhub-proxy.pid"
    if pid_file.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hubs(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[dict[str, asyncio.Task[Refused]]]:
    """Each hub that must not start: the task gives it once it has ended."""
    directory = tmp_path_factory.mktemp("bad")
    nowhere = Nowhere(directory / "nowhere")
    held = directory / "store-held"
    held.mkdir()
    store = await Store.open(f"sqlite:///{held}/ec2spawner.sqlite", now=datetime.now(UTC))

    async def start(name: str) -> Refused:
        hub = Hub(directory / name, nowhere, *HUBS[name])
        await hub.launch()
        assert hub.process is not None
        try:
            async with asyncio.timeout(60):
                status: int | None = await hub.process.wait()
        except TimeoutError:
            status = None
        ports = (hub.port, hub.api_port, hub.proxy_port)
        listening = [port for port in ports if await listens(port)]
        await hub.stop()
        end_proxy(hub)
        return Refused(hub, status, hub.log.read_text(), listening)

    tasks = {name: asyncio.create_task(start(name)) for name in HUBS}
    yield tasks
    await asyncio.gather(*tasks.values())
    await store.close()


# --- EC2 does not answer: no fault of the configuration's ---


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def waiting_hub(
    tmp_path_factory: pytest.TempPathFactory, hubs: dict[str, asyncio.Task[Refused]]
) -> AsyncIterator[Hub]:
    """A hub without an EC2. One that waits for a held store does so beside it."""
    directory = tmp_path_factory.mktemp("unreachable")
    hub = Hub(directory / "hub", Nowhere(directory / "nowhere"))
    try:
        await hub.launch()
        await hub.wait_serving()
        yield hub
    finally:
        await hub.stop()


async def test_hub_serves_while_ec2_does_not_respond(waiting_hub: Hub) -> None:
    async with browser(waiting_hub, "ann") as page:
        assert (await page.get("/hub/home")).is_success

    async def logged() -> bool:
        return "EC2 does not answer yet" in waiting_hub.log.read_text()

    await until(logged, 20, "the log to say so")
    assert "127.0.0.1:9" in waiting_hub.log.read_text()


async def test_agents_are_asked_to_retry_while_ec2_does_not_respond(waiting_hub: Hub) -> None:
    """5xx, by which an agent tries again: never 404 or 410."""
    claim = {"protocol": 1, "document": "{}", "signature": "", "key": new_key()}
    for path, body in (("claims", claim), ("leases/lease-x/beat", {"protocol": 1})):
        reply = await call(waiting_hub, path, body, "token")
        assert reply.status_code == 503
        assert int(reply.headers["Retry-After"]) > 0


async def test_profiles_are_refused_while_ec2_does_not_respond(waiting_hub: Hub) -> None:
    await waiting_hub.add_user("dot")
    token = {"Authorization": f"token {await waiting_hub.user_token('dot')}"}
    reply = await waiting_hub.api.get("/ec2/profiles", headers=token)
    assert reply.status_code == 503
    assert int(reply.headers["Retry-After"]) > 0
    assert "no answer from EC2; try again" in reply.json()["message"]


async def test_start_is_refused_clearly_while_ec2_does_not_respond(waiting_hub: Hub) -> None:
    reply = await waiting_hub.request_server("bob")
    assert reply.status_code == 503, reply.text
    assert "still starting, or gets no answer from EC2" in reply.json()["message"]
    model = await waiting_hub.model("bob")
    assert model is None or not model["pending"]


async def test_spawn_page_says_so_while_ec2_does_not_respond(waiting_hub: Hub) -> None:
    async with browser(waiting_hub, "cat") as page:
        try:
            reply = await page.get("/hub/spawn/cat", timeout=60)
        except httpx.ReadTimeout:
            pytest.fail("the spawn page hangs")
    assert reply.status_code == 503
    assert "The hub is still starting, or gets no answer from EC2" in reply.text
    assert "Waiting for your server" not in reply.text, "that is for the proxy to say"


# --- hubs that do not start: by now they have ended ---


@pytest.mark.parametrize("name", HUBS)
async def test_hub_ends_with_one_message(hubs: dict[str, asyncio.Task[Refused]], name: str) -> None:
    refused = await hubs[name]
    assert refused.status not in {0, None}, refused.log
    critical = [line for line in refused.log.splitlines() if line.startswith("[C ")]
    assert len(critical) == 1, refused.log
    assert "Traceback" not in refused.log


@pytest.mark.parametrize("name", WORDS)
async def test_message_names_option_and_fix(
    hubs: dict[str, asyncio.Task[Refused]], name: str
) -> None:
    hub, words = WORDS[name]
    log = (await hubs[hub]).log
    assert [line for line in log.splitlines() if all(word in line for word in words)], log


@pytest.mark.parametrize("name", HUBS)
async def test_refused_hub_leaves_nothing_behind(
    hubs: dict[str, asyncio.Task[Refused]], name: str
) -> None:
    refused = await hubs[name]
    assert refused.listening == []
    if name != "store-held":
        assert not list(refused.hub.directory.glob("ec2spawner.sqlite*"))
