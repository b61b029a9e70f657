"""A real agent process between a metadata service and a hub that speak real HTTP.

The hub here is the agent's counterpart in `ec2spawner.wire` and nothing more: the tests of the
whole hub with real agents are elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from ec2spawner.agent.agent_lock import FILE
from ec2spawner.reserved_ports import reserved_ports
from ec2spawner.wire import (
    AgentEvent,
    Claim,
    ContinueRequest,
    Cost,
    ExtendRequest,
    ExtendResponse,
    HardwareChoice,
    HardwareChoices,
    Heartbeat,
    HeartbeatResponse,
    HomeMount,
    IdlePolicy,
    IdleRequest,
    IdleResponse,
    LeaseGrant,
    Limit,
    Move,
    Refusal,
    Stop,
    StopRequest,
)
from tests import polling
from tests.harness import STUB_NOTEBOOK, Notebook

LEASE_TOKEN = "lease-token-of-this-test"
API_TOKEN = "api-token-of-this-test"
EVES_TOKEN = "api-token-of-a-collaborator"
SERVICES_TOKEN = "api-token-of-a-service"
WHO = {
    API_TOKEN: ("user", "ada"),
    EVES_TOKEN: ("user", "eve"),
    SERVICES_TOKEN: ("service", "ada"),
}
"""All may access Ada's server; a service may have her name."""

PYTHON = Path(sys.executable)
REPOSITORY = Path(__file__).parents[3]

SMALL_SERVER = """
import os, urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

url = urllib.parse.urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
print("the small server listens", flush=True)
HTTPServer((url.hostname, url.port), Handler).serve_forever()
"""


async def until(condition: Callable[[], Any], seconds: float = 90.0, what: str = "") -> Any:
    """Poll until the condition gives something; fails after `seconds`."""
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < seconds:
        if found := condition():
            return found
        await asyncio.sleep(polling.pause(waited))
    raise AssertionError(f"not within {seconds} s: {what or condition}")


class StubHub:
    """Answers claims and heartbeats, and records what it received."""

    def __init__(self) -> None:
        self.grant: LeaseGrant | None = None
        self.claims: list[Claim] = []
        self.events: list[tuple[float, AgentEvent]] = []
        self.heartbeats: list[tuple[float, Heartbeat]] = []
        self.claim_statuses: list[int] = []
        """Statuses of the next claims, before anything else is answered."""
        self.lease_status = 200
        self.bound_keys: dict[str, str] = {}
        """By instance id, each by its first claim: another key is refused, as the hub does."""
        self.idle = IdlePolicy()
        self.stop: Stop | None = None
        self.extended_until: datetime | None = None
        self.extend_answer: ExtendResponse | None = None
        self.idle_answer: IdleResponse | None = None
        self.stop_asked = self.sleep_asked = self.extend_asked = 0
        self.granted_at = 0.0
        self.state = 1
        self._changed = asyncio.Event()
        self.url = ""
        self._runner: web.AppRunner | None = None

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/hub/api/ec2/claims", self._claim)
        app.router.add_post("/hub/api/ec2/leases/{id}/{call}", self._lease)
        app.router.add_get("/hub/api/", self._version)
        app.router.add_get("/hub/api", self._version)
        app.router.add_get("/hub/api/user", self._user)
        app.router.add_post("/hub/api/users/{name}/activity", self._version)
        return app

    async def start(self, port: int = 0) -> None:
        self._runner = web.AppRunner(self.application(), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{port}/hub/api"

    async def close(self) -> None:
        if self._runner is not None:
            self.notify_changed()
            await self._runner.cleanup()
            self._runner = None

    def notify_changed(self) -> None:
        """Answer held calls: something is new."""
        self.state += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def steps(self) -> list[str]:
        return [event.step for _, event in self.events]

    def event(self, step: str) -> AgentEvent | None:
        return next((event for _, event in self.events if event.step == step), None)

    def start_anew(self) -> None:
        """Have EC2 start the stopped instance: its next key is bound instead."""
        self.bound_keys.clear()
        self.events.clear()

    def give(self, grant: LeaseGrant) -> None:
        """Answer the claim."""
        self.grant = grant
        self.notify_changed()

    async def _hold(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _claim(self, request: web.Request) -> web.Response:
        claim = Claim.model_validate_json(await request.read())
        self.claims.append(claim)
        instance_id = json.loads(claim.document)["instanceId"]
        if self.bound_keys.setdefault(instance_id, claim.key) != claim.key:
            return web.Response(status=403, text=Refusal(message="a second key").model_dump_json())
        if self.claim_statuses:
            status = self.claim_statuses.pop(0)
            return web.Response(status=status, text=Refusal(message="not now").model_dump_json())
        if self.grant is None:
            await self._hold(claim.wait_seconds)
        if self.grant is None:
            return web.json_response({"protocol": 1}, status=202)
        self.granted_at = time.monotonic()
        return web.Response(text=self.grant.model_dump_json())

    async def _lease(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Authorization") != f"Bearer {LEASE_TOKEN}":
            return web.Response(status=401, text=Refusal(message="bad token").model_dump_json())
        if self.lease_status != 200:
            refusal = Refusal(message="as the test says").model_dump_json()
            return web.Response(status=self.lease_status, text=refusal)
        call = request.match_info["call"]
        if call == "events":
            self.events.append((time.monotonic(), AgentEvent.model_validate_json(body)))
            return web.json_response({})
        if call == "hardware":
            choice = HardwareChoice(profile="a10g", name="A10G")
            return web.Response(text=HardwareChoices(choices=[choice]).model_dump_json())
        if call == "continue":
            profile = ContinueRequest.model_validate_json(body).profile
            if profile == "sold-out":
                return web.Response(status=409, text=Refusal(message="not now").model_dump_json())
            move = Move(state="looking" if profile else "none", profile_name=profile or "")
            return web.Response(text=move.model_dump_json())
        if call == "extend":
            self.extend_asked += 1
            ExtendRequest.model_validate_json(body)
            if self.extend_answer is None:
                return web.Response(
                    status=403, text=Refusal(message="no more extensions").model_dump_json()
                )
            return web.Response(text=self.extend_answer.model_dump_json())
        if call == "idle":
            IdleRequest.model_validate_json(body)
            if self.idle_answer is None:
                refusal = Refusal(message="no choice of it").model_dump_json()
                return web.Response(status=403, text=refusal)
            self.idle = self.idle_answer.idle
            return web.Response(text=self.idle_answer.model_dump_json())
        if call == "stop":
            self.stop_asked += 1
            self.sleep_asked += StopRequest.model_validate_json(body).sleep
            return web.json_response({})
        return await self._heartbeat(Heartbeat.model_validate_json(body))

    async def _heartbeat(self, heartbeat: Heartbeat) -> web.Response:
        self.heartbeats.append((time.monotonic(), heartbeat))
        if heartbeat.state_seen >= self.state:
            await self._hold(heartbeat.hold_seconds)
        if self.lease_status != 200:
            refusal = Refusal(message="as the test says").model_dump_json()
            return web.Response(status=self.lease_status, text=refusal)
        answer = HeartbeatResponse(
            state=self.state,
            cost=Cost(
                usd=0.01,
                usd_per_hour=0.5,
                as_of=datetime.now(UTC),
                since=datetime.now(UTC),
                today_usd=1.25,
                month_usd=20.5,
                budget_usd=20.0,
                limits=[
                    Limit(
                        scope="user",
                        name="ada",
                        kind="usd_per_month",
                        percent=102,
                        threshold=100,
                        limit=20.0,
                        used=20.5,
                    ),
                ],
            ),
            idle=self.idle,
            extended_until=self.extended_until,
            stop=self.stop,
        )
        return web.Response(text=answer.model_dump_json())

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "6.1.1"}, headers={"X-JupyterHub-Version": "6.1.1"})

    async def _user(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").split(" ")[-1]
        if token not in WHO:
            return web.json_response({}, status=403)
        kind, name = WHO[token]
        return web.json_response(
            {
                "name": name,
                "kind": kind,
                "admin": False,
                "groups": [],
                "scopes": ["access:servers!user=ada"],
                "session_id": None,
            }
        )


@dataclass
class Machine:
    """An instance: its metadata service, its directories, its agent."""

    root: Path
    hub: StubHub
    address: str
    port: int
    notebook: Notebook = "stub"
    """What `jupyterhub-singleuser` starts."""
    metadata_url: str = ""
    spot_notice: str = ""
    """What EC2 announces to this spot instance."""
    rebalance_notice: str = ""
    """What it recommends."""
    public_key: str = ""
    """Of the key pair that it was launched with."""
    environment: dict[str, str] = field(default_factory=dict)
    before_agent: str = ""
    """Python that runs in the agent's process first, for what no test should wait for."""
    agent: asyncio.subprocess.Process | None = None

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def powered_off(self) -> bool:
        return (self.root / "off").exists()

    @property
    def base_url(self) -> str:
        return f"http://{self.address}:{self.port}/user/ada/"

    def volume(self, volume_id: str) -> Path:
        """A volume as a directory, attached now."""
        folder = self.root / "volumes" / volume_id
        folder.mkdir(parents=True, exist_ok=True)
        link = (
            self.root / "devices" / f"nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"
        )
        link.symlink_to(folder)
        return folder

    def lease(self, **changes: Any) -> LeaseGrant:
        """A lease of Ada's, with the machine's notebook unless the test says otherwise."""
        environment = {
            "JUPYTERHUB_API_TOKEN": API_TOKEN,
            "JUPYTERHUB_API_URL": self.hub.url,
            "JUPYTERHUB_BASE_URL": "/",
            "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-ada",
            "JUPYTERHUB_HOST": "",
            "JUPYTERHUB_OAUTH_CALLBACK_URL": "/user/ada/oauth_callback",
            "JUPYTERHUB_OAUTH_ACCESS_SCOPES": '["access:servers!user=ada"]',
            "JUPYTERHUB_OAUTH_SCOPES": '["access:servers!user=ada"]',
            "JUPYTERHUB_SERVER_NAME": "",
            "JUPYTERHUB_SERVICE_PREFIX": "/user/ada/",
            "JUPYTERHUB_USER": "ada",
            "MARKER_OF_THE_LEASE": "here",
        }
        given = {
            "lease_id": "lease-1",
            "lease_token": LEASE_TOKEN,
            "environment": environment,
            "command": ["jupyterhub-singleuser"],
            "base_url": "/user/ada/",
            "port": self.port,
            "home": HomeMount(kind="none"),
            "idle": self.hub.idle,
            "profile": "T4, 16 GB",
        }
        return LeaseGrant(**(given | changes))

    async def boot(self) -> None:
        """Nothing in /run is of an earlier boot."""
        (self.root / "run" / FILE).unlink(missing_ok=True)
        await self.start_agent()

    async def crash_agent(self) -> None:
        """systemd ends what is left of the unit."""
        assert self.agent is not None
        left = self.processes()
        self.agent.kill()
        await self.agent.wait()
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    async def start_agent(self) -> None:
        path = [REPOSITORY] if self.notebook == "jupyterlab" else [STUB_NOTEBOOK, REPOSITORY]
        environment = {
            "PATH": f"{PYTHON.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata_url,
            "EC2SPAWNER_DEVICES": str(self.root / "devices"),
            "EC2SPAWNER_NOTEBOOK_USER": f"{os.getuid()}:{os.getgid()}",
            "EC2SPAWNER_NOTEBOOK_HOME": str(self.home),
            "EC2SPAWNER_RUN_DIR": str(self.root / "run"),
            "EC2SPAWNER_STATE_DIR": str(self.root / "state"),
            "EC2SPAWNER_SIMULATED_GPU": json.dumps(
                {"name": "Simulated T4", "count": 1, "memory_mib": 15360}
            ),
            "EC2SPAWNER_POWEROFF": f"touch {self.root / 'off'}",
            "EC2SPAWNER_GPU_DEVICE": "",
            "EC2SPAWNER_PCI_DEVICES": "",
        }
        program = ["-m", "ec2spawner.agent"]
        if self.before_agent:
            start = "import sys; from ec2spawner.agent.__main__ import main; sys.exit(main())"
            program = ["-c", f"{self.before_agent}\n{start}"]
        with open(self.root / "agent.log", "ab") as log:
            self.agent = await asyncio.create_subprocess_exec(
                str(PYTHON),
                *program,
                "--hub-api-url",
                self.hub.url,
                env=environment | self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def processes(self) -> list[psutil.Process]:
        """The agent's descendants, by what is left of them in the process table."""
        assert self.agent is not None
        try:
            return [
                each
                for each in psutil.Process(self.agent.pid).children(recursive=True)
                if each.status() != psutil.STATUS_ZOMBIE
            ]
        except psutil.NoSuchProcess:
            return []

    async def until_warm(self) -> None:
        """Wait until the waiting notebook has imported everything."""
        log = self.root / "agent.log"
        await until(lambda: "is warm" in log.read_text(), 150, "a warm notebook")

    async def notebook_server(self) -> psutil.Process:
        """The one process that listens for the notebook's users.

        Linux lists neither processes nor sockets at one instant: while others come and go, it may
        be missing from a single look.
        """
        (found,) = await until(
            lambda: [each for each in self.processes() if self.listens(each)],
            what="the process of the notebook server",
        )
        return found

    def listens(self, process: psutil.Process) -> bool:
        """Whether this process is the notebook server."""
        try:
            return any(each.laddr.port == self.port for each in process.net_connections("tcp"))
        except psutil.Error:
            return False

    def small_server(self, code: str = SMALL_SERVER) -> list[str]:
        """A command that listens where a notebook would, and starts at once."""
        file = self.root / "small_server.py"
        file.write_text(code)
        return [str(PYTHON), str(file)]

    def log(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-6000:]}"
            for path in (self.root / "agent.log", self.root / "run" / "notebook.log")
            if path.exists()
        )

    async def shut_down(self, seconds: float = 90.0) -> int:
        """SIGTERM to the agent, as at the shutdown of a machine; its exit status."""
        assert self.agent is not None
        if self.agent.returncode is None:
            self.agent.send_signal(signal.SIGTERM)
        async with asyncio.timeout(seconds):
            return await self.agent.wait()

    async def destroy(self) -> None:
        if self.agent is not None and self.agent.returncode is None:
            await self.crash_agent()


async def metadata_service(machine: Machine) -> web.AppRunner:
    document = json.dumps(
        {
            "instanceId": "i-0123456789abcdef0",
            "instanceType": "g4dn.xlarge",
            "privateIp": machine.address,
            "region": "us-east-1",
        }
    )

    async def token(request: web.Request) -> web.Response:
        assert request.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        return web.Response(text="metadata-token")

    async def identity(request: web.Request) -> web.Response:
        if request.headers.get("X-aws-ec2-metadata-token") != "metadata-token":
            return web.Response(status=401)
        texts = {"document": document, "rsa2048": "MIIBase64\nOfTheSignature"}
        return web.Response(text=texts[request.match_info["what"]])

    async def spot(request: web.Request) -> web.Response:
        texts = {
            "instance-life-cycle": "spot",
            "spot/instance-action": machine.spot_notice,
            "events/recommendations/rebalance": machine.rebalance_notice,
        }
        if machine.public_key:
            texts |= {
                "public-keys/": "0=ops",
                "public-keys/0/openssh-key": f"{machine.public_key}\n",
            }
        text = texts.get(request.match_info["path"])
        return web.Response(text=text) if text else web.Response(status=404)

    app = web.Application()
    app.router.add_put("/latest/api/token", token)
    app.router.add_get("/latest/meta-data/{path:.*}", spot)
    app.router.add_get("/latest/dynamic/instance-identity/{what}", identity)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    machine.metadata_url = f"http://127.0.0.1:{port}"
    return runner


@contextlib.contextmanager
def reserved_address() -> Iterator[tuple[str, int]]:
    """A loopback address of its own for this instance, and a port there that stays reserved."""
    address = f"127.77.{os.getpid() % 250 + 1}.{time.monotonic_ns() // 1000 % 250 + 1}"
    with reserved_ports(1, address) as [port]:
        yield address, port
