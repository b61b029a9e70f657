"""A hub with `internal_ssl`, at debug level, with real agents and notebooks: it works, shared
servers stay their owners', and no secret is where somebody could read it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
import ssl
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from cryptography import x509
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.harness import Embedded, Hub, demo_config, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = (
    "import json, os",
    "demo = json.loads(os.environ['EC2SPAWNER_DEMO'])",
    "c.JupyterHub.internal_ssl = True",
    "c.JupyterHub.internal_certs_location = f\"{demo['data_dir']}/internal-ssl\"",
    "c.ConfigurableHTTPProxy.api_url = demo['proxy_api_url'].replace('http:', 'https:')",
    "c.EC2Spawner.hub_api_url = f\"{demo['hub_url']}/hub/api\"",
    "c.JupyterHub.log_level = 'DEBUG'",
    "scopes = ['self', 'shares!user', 'read:users:name']",
    "c.JupyterHub.load_roles += [{'name': 'user', 'scopes': scopes}]",
)

TOKEN = re.compile(rb"(?=([A-Za-z0-9_-]{43}))")
"""Whatever could be the agent's key or a lease token, wherever in a longer word it begins."""


@dataclass
class Server:
    """Ann's server, as root on this host can see it."""

    hub: Hub
    instance: dict[str, Any]
    token: str
    """Ann's own, for the hub's API."""

    def client(self, token: str) -> httpx.AsyncClient:
        """Through the proxy to the notebook."""
        return httpx.AsyncClient(
            verify=False,
            base_url=f"{self.hub.url}/user/ann/",
            headers={"Authorization": f"token {token}"},
            timeout=30,
        )

    @property
    def room(self) -> Path:
        return self.hub.embedded.data_dir / "ec2/instances" / self.instance["instance_id"]

    @property
    def agent(self) -> int:
        """The agent's process id."""
        [pid] = [
            pid
            for pid, argv in _processes_of(self.instance)
            if any(word.endswith(b"/ec2spawner-agent") for word in argv.split(b"\0"))
        ]
        return pid

    @property
    def certificates(self) -> Path:
        environment = Path(f"/proc/{self.agent}/environ").read_bytes().split(b"\0")
        run_dir = next(x for x in environment if x.startswith(b"EC2SPAWNER_RUN_DIR="))
        return Path(run_dir.partition(b"=")[2].decode()) / "certificates"

    async def in_terminal(self, command: str) -> str:
        """What a command prints that ann types into a terminal."""
        out, done = self.room / "said", self.room / "done"
        for path in (out, done):
            path.unlink(missing_ok=True)
        async with self.client(self.token) as client:
            reply = await client.post("api/terminals", json={})
            assert reply.is_success, reply.text
            name = reply.json()["name"]
            url = f"{str(client.base_url).replace('http', 'ws', 1)}terminals/websocket/{name}"
            request = HTTPRequest(url, headers={"Authorization": f"token {self.token}"})
            socket = await websocket_connect(request)
            line = f"{{ {command} ; }} > {out} 2>&1; touch {done}\r"
            await socket.write_message(json.dumps(["stdin", line]))

            async def ended() -> bool:
                return done.exists()

            await until(ended, 20, f"the terminal to run {command!r}")
            socket.close()
            await client.delete(f"api/terminals/{name}")
        return out.read_text()


def _processes_of(instance: dict[str, Any]) -> list[tuple[int, bytes]]:
    """Id and argv of everything that runs on the instance."""
    found = []
    for process in instance["processes"]:
        try:
            found.append((process["pid"], Path(f"/proc/{process['pid']}/cmdline").read_bytes()))
        except OSError:
            continue
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("internal-ssl")
    embedded = await Embedded(directory / "embedded", notebook="jupyterlab").start()
    running = Hub(directory / "hub", embedded, config=demo_config(directory, *CONFIG))
    try:
        yield await running.start()
    finally:
        print(running.tail(80))
        await running.stop()
        await embedded.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(hub: Hub) -> Server:
    model = await hub.start_server("ann")
    assert model["url"] == "/user/ann/"
    [instance] = await hub.embedded.instances()
    return Server(hub, instance, await hub.user_token("ann"))


async def test_a_notebook_requires_tls_with_a_client_certificate(
    ann: Server,
) -> None:
    async with ann.client(ann.token) as client:
        assert (await client.get("api/status")).json()["kernels"] == 0
    address = ann.instance["address"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with httpx.AsyncClient(verify=context, timeout=60) as stranger:
        for scheme in ("https", "http"):
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await stranger.get(f"{scheme}://{address}:8888/user/ann/api")
    certificate = x509.load_pem_x509_certificate((ann.certificates / "notebook.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [address]
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert 364 < lifetime.days <= 366
    for file in (ann.certificates, *ann.certificates.iterdir()):
        assert file.stat().st_mode & 0o077 == 0, f"{file} is for others, too"


async def test_code_in_the_notebook_reaches_the_hub(ann: Server) -> None:
    """At its own port, with the notebook's certificate and the hub's authority."""
    said = await ann.in_terminal(
        'curl --silent --cacert "$JUPYTERHUB_SSL_CLIENT_CA" --key "$JUPYTERHUB_SSL_KEYFILE" '
        '--cert "$JUPYTERHUB_SSL_CERTFILE" -H "Authorization: token $JUPYTERHUB_API_TOKEN" '
        '"$JUPYTERHUB_API_URL/user"'
    )
    assert json.loads(said)["name"] == "ann"


async def test_a_restarted_hub_finds_its_servers(hub: Hub, ann: Server) -> None:
    await hub.kill()
    await hub.start()
    await hub.wait_ready("ann")
    async with ann.client(ann.token) as client:

        async def answers() -> bool:
            # JupyterHub calls a server ready before it has checked the proxy's routes.
            return (await client.get("api/status")).is_success

        await until(answers, 30, "the server to be reachable")
        status = (await client.get("ec2spawner/api/status")).json()
    assert status["agent_connected"]
    assert [each["instance_id"] for each in await hub.embedded.instances()] == [
        ann.instance["instance_id"]
    ]


async def another(hub: Hub, ann: Server, name: str) -> Server:
    """Start one more of ann's servers."""
    known = {each["instance_id"] for each in await hub.embedded.instances()}
    await hub.start_server("ann", name)
    [instance] = [x for x in await hub.embedded.instances() if x["instance_id"] not in known]
    return Server(hub, instance, ann.token)


@pytest.mark.nightly(guard="tests/integration/hub/test_internal_ssl.py::test_no_secret_is_readable")
async def test_a_stopped_server_leaves_no_key_behind(hub: Hub, ann: Server) -> None:
    folder = (await another(hub, ann, "second")).certificates
    assert (folder / "notebook.key").read_text() != (ann.certificates / "notebook.key").read_text()
    await hub.stop_server("ann", "second")
    assert not folder.exists()


# --- shared with somebody else ---


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(hub: Hub, ann: Server) -> str:
    """A token of a user to whom ann's server is shared."""
    await hub.add_user("bob")
    async with httpx.AsyncClient(verify=False, base_url=f"{hub.url}/hub/api", timeout=30) as client:
        reply = await client.post(
            "/shares/ann/",
            json={"user": "bob"},
            headers={"Authorization": f"token {ann.token}"},
        )
    assert reply.is_success, reply.text
    return await hub.user_token("bob")


async def test_users_whom_a_server_is_shared_with_use_it_without_control(
    hub: Hub, ann: Server, bob: str
) -> None:
    before = (await hub.model("ann") or {})["started"]
    async with ann.client(bob) as client:
        assert (await client.get("api/status")).is_success
        status = (await client.get("ec2spawner/api/status")).json()
        assert status["managed"]
        assert not status["can_control"]
        for call, body in (("stop", {}), ("extend", {"seconds": 60})):
            reply = await client.post(f"ec2spawner/api/{call}", json=body)
            assert reply.status_code == 403, reply.text
            assert reply.json()["sentence"]["code"] == "owner-only"
    headers = {"Authorization": f"token {bob}"}
    async with httpx.AsyncClient(
        verify=False, base_url=f"{hub.url}/hub/api", headers=headers, timeout=60
    ) as client:
        assert (await client.delete("/users/ann/server")).status_code in {403, 404}
    async with ann.client(ann.token) as client:
        status = (await client.get("ec2spawner/api/status")).json()
        assert status["can_control"]
        assert status["extended_until"] is None
        assert status["stop"] is None
        reply = await client.post("ec2spawner/api/extend", json={"seconds": 60})
        assert reply.is_success, reply.text
    assert (await hub.model("ann") or {})["started"] == before


# --- secrets ---


async def test_no_secret_is_readable(hub: Hub, ann: Server) -> None:
    """At debug level, after a whole journey: logs, argv, user-data, tags, console, databases. Each
    server has a key of its own, of which its stop leaves nothing."""
    folder = (await another(hub, ann, "third")).certificates
    anns_key = (ann.certificates / "notebook.key").read_text()
    assert (folder / "notebook.key").read_text() != anns_key
    argv = _argv_of_all()
    public, logs = _aws(hub), _written(hub)
    await hub.stop_server("ann", "third")
    assert not folder.exists()
    key = anns_key.split("\n")[1:-2]
    said = await ann.in_terminal('echo "$JUPYTERHUB_API_TOKEN"')
    cookie_secret = (hub.directory / "jupyterhub_cookie_secret").read_text().strip()
    secrets = {
        "the server's API token": said.strip(),
        "the cookie secret": cookie_secret,
        **{f"line {number} of the notebook's key": line for number, line in enumerate(key)},
    }
    assert all(len(secret) >= 16 for secret in secrets.values()), "the right things are looked for"
    store = hub.directory / "ec2spawner.sqlite"
    hashes = _hashes(store)
    assert len(hashes) >= 2, "of a lease token and of an agent's key"
    places = {
        "argv": argv,
        "user-data, tags and templates": public,
        **logs,
        **_written(hub),
    }
    found = [
        f"{name} is in {place}"
        for place, text in places.items()
        for name, secret in secrets.items()
        if secret.encode() in text
    ]
    found += [f"a token or key is in {p}" for p, text in places.items() if _tokens(text) & hashes]
    assert not found


def _written(hub: Hub) -> dict[str, bytes]:
    """Logs and databases; those of an instance go with it, at any moment after its end."""
    found: dict[str, bytes] = {}
    for path in (
        hub.log,
        hub.embedded.log,
        *hub.directory.glob("*.sqlite*"),
        *(hub.embedded.data_dir / "ec2/instances").glob("*/*.log"),
    ):
        with suppress(FileNotFoundError):
            found[str(path.relative_to(hub.directory.parent))] = path.read_bytes()
    return found


def _hashes(store: Path) -> set[str]:
    """All that the store knows of agents' keys and lease tokens."""
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute(
            "SELECT key_sha256 FROM binding UNION SELECT token_sha256 FROM lease"
        ).fetchall()
    return {row[0] for row in rows if row[0]}


def _tokens(text: bytes) -> set[str]:
    return {hashlib.sha256(word).hexdigest() for word in set(TOKEN.findall(text))}


async def test_the_search_finds_a_token_anywhere() -> None:
    """The search for tokens that are known only by their hash."""
    token = "k" * 20 + "-_" + "7" * 21
    hashed = hashlib.sha256(token.encode()).hexdigest()
    assert hashed in _tokens(f'{{"key":"{token}"}}'.encode())
    assert hashed in _tokens(f"http://hub/x{token}yz".encode())
    assert hashed not in _tokens(token[:-1].encode())


def _argv_of_all() -> bytes:
    """The command lines of every process on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return b"\n".join(found)


def _aws(hub: Hub) -> bytes:
    """What whoever may describe this account can read: user-data in the clear, too."""
    client = hub.embedded.client()
    said: list[Any] = [client.describe_tags(), client.describe_volumes()]
    for template in client.describe_launch_templates()["LaunchTemplates"]:
        versions = client.describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"]
        )["LaunchTemplateVersions"]
        said += versions
        said += [_clear(each["LaunchTemplateData"].get("UserData", "")) for each in versions]
    for reservation in client.describe_instances()["Reservations"]:
        for instance in reservation["Instances"]:
            said.append(instance)
            data = client.describe_instance_attribute(
                InstanceId=instance["InstanceId"], Attribute="userData"
            )
            said.append(_clear(data.get("UserData", {}).get("Value", "")))
    text = repr(said).encode()
    assert b"#!/bin/bash" in text, "user-data is among it"
    assert b"ec2spawner:lease" in text, "tags are among it"
    return text


def _clear(encoded: str) -> str:
    return base64.b64decode(encoded).decode()
