"""Real processes for tests: the embedded EC2, and a JupyterHub that can be killed and restarted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shlex
import signal
import socket
import sys
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, Literal, TypeVar

import boto3
import httpx

from ec2spawner.embedded import read_lag
from ec2spawner.reserved_ports import port_of, reserve, reserved_ports
from tests import nursery, polling
from tests.nursery import ForkedProcess, Nursery

T = TypeVar("T")

TREE = Path(__file__).resolve().parents[1]
CONFIG = TREE / "configs/demo/jupyterhub_config.py"
ADMIN_TOKEN = "0123456789abcdef0123456789abcdef"
PASSWORD = "password-of-the-tests"
OF_EACH_HUB = {"admin_token": ADMIN_TOKEN, "password": PASSWORD, "allowed_hosts": []}
"""What the demo's configuration is given besides addresses and the embedded EC2."""

STUB_NOTEBOOK = TREE / "tests/stub_notebook"
"""What instances have first on Python's path where their notebook is the stub."""

Notebook = Literal["stub", "jupyterlab"]
"""What instances start as a server: for the stub see `stub_notebook/jupyterhub/singleuser.py`."""

QUICK_JUPYTERHUB = """
from ec2spawner import iri_grammar
iri_grammar.defer()
from jupyterhub.app import main
main()
"""
"""What `python -m jupyterhub` does, without two seconds of a core's time for a grammar."""

_reserved: list[socket.socket] = []
"""What holds the ports of `free_ports`."""

START_TIMEOUT = 180.0
"""Seconds for a process to answer, on a slow machine that others keep busy."""

BUSY = 4
"""So many times as long as expected everything may take: on such a machine it does."""

PATIENT_HUB = "--JupyterHub.tornado_settings={'slow_spawn_timeout': 60}"
"""Answers the request for a server with what came of it, where JupyterHub's own 10 seconds are
over on such a machine."""


async def until(
    check: Callable[[], Awaitable[T | None]],
    timeout: float,
    what: str,
    pause: float | None = None,
) -> T:
    """Poll until there is something true; fail with `what`.

    `timeout` in seconds is what it may take on a machine that is not `BUSY`; `pause` in seconds
    replaces `polling.pause`.
    """
    timeout *= BUSY
    begun = time.monotonic()
    while True:
        found = await check()
        if found:
            return found
        waited = time.monotonic() - begun
        assert waited < timeout, f"waited {timeout:g} s in vain for {what}"
        await asyncio.sleep(polling.pause(waited) if pause is None else pause)


def free_ports(number: int) -> list[int]:
    """Different ports for processes that a test starts, reserved until this process ends."""
    reserved = [reserve() for _ in range(number)]
    _reserved.extend(reserved)
    return [port_of(each) for each in reserved]


def demo_config(directory: Path, *lines: str) -> Path:
    """A configuration file: the demo's, and these lines after it."""
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "jupyterhub_config.py"
    config.write_text("\n".join([f"load_subconfig({str(CONFIG)!r})", *lines, ""]))
    return config


def _without_lag(params: dict[str, Any], **_: Any) -> None:
    """botocore's hook: what a test reads is what there is."""
    params["headers"][read_lag.NO_LAG_HEADER] = "1"


class Embedded:
    """`python -m ec2spawner.embedded`, steered over its control calls.

    Its instances have a stub in place of JupyterLab, whose imports and start take six seconds of a
    core; tests whose subject is a notebook server, a kernel or a page ask for `jupyterlab`.
    """

    def __init__(
        self, data_dir: Path, boot_seconds: float = 0.0, notebook: Notebook = "stub"
    ) -> None:
        self.data_dir = data_dir
        self.boot_seconds = boot_seconds
        self.notebook = notebook
        self.described: dict[str, Any] = {}
        self.log = data_dir / "embedded.log"
        self.process: asyncio.subprocess.Process | ForkedProcess
        self._clients: dict[tuple[str, str], Any] = {}
        """By service and endpoint: to make one takes 20 ms of a core."""

    async def start(self) -> Embedded:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.install(self.notebook)
        arguments = (
            *("--json", "--port", "0", "--data-dir", str(self.data_dir / "ec2")),
            *("--boot-seconds", str(self.boot_seconds)),
        )
        if nursery.shared is not None:
            await self._fork(nursery.shared.of("embedded"), arguments)
            return self
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ec2spawner.embedded",
                *arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), START_TIMEOUT)
        self.described = json.loads(line)
        return self

    async def _fork(self, forks: Nursery, arguments: Sequence[str]) -> None:
        output = self.data_dir / "embedded.json"
        output.unlink(missing_ok=True)
        process = forks.fork(arguments, os.environ, Path.cwd(), output, self.log)
        self.process = process

        async def described() -> bool:
            assert process.returncode is None, self.log.read_text()
            return output.exists() and output.read_text().endswith("\n")

        await until(described, START_TIMEOUT, "the embedded EC2 to start")
        self.described = json.loads(output.read_text())

    def install(self, notebook: Notebook) -> None:
        """Put a notebook server into the image, for all instances that boot from now on."""
        agent = self.data_dir / "ec2/shims/ec2spawner-agent"
        if notebook == "jupyterlab":
            agent.unlink(missing_ok=True)  # the one beside this Python is next on the path
            return
        agent.parent.mkdir(parents=True, exist_ok=True)
        real = shlex.quote(str(Path(sys.executable).with_name(agent.name)))
        # An instance with closed ports has a path of its own, which applies to the stub too.
        path = f"{shlex.quote(str(STUB_NOTEBOOK))}${{PYTHONPATH:+:$PYTHONPATH}}"
        agent.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {real} "$@"\n')
        agent.chmod(0o755)

    @contextlib.contextmanager
    def jupyterlab(self) -> Iterator[None]:
        """Have JupyterLab in the image meanwhile, and the stub again afterwards."""
        self.install("jupyterlab")
        try:
            yield
        finally:
            self.install("stub")

    async def control(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """A control call: POST with a body, GET without."""
        return await self._ask("GET" if body is None else "POST", path, body)

    async def clear_faults(self) -> None:
        await self._ask("DELETE", "faults", None)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        url = f"{self.described['ec2_endpoint']}/embedded/{path}"
        headers = {"Authorization": f"token {self.described['control_token']}"}
        # Nothing here is TLS: to load certificates takes 30 ms of a core.
        async with httpx.AsyncClient(headers=headers, timeout=60, verify=False) as client:
            reply = await client.request(method, url, json=body)
        assert reply.is_success, f"{url}: {reply.status_code} {reply.text}"
        return reply.json() if reply.content else None

    def client(self, service: str = "ec2") -> Any:
        """A boto3 client of the account's administrator, to which nothing lags."""
        key = (service, self.described["ec2_endpoint"])
        if key not in self._clients:
            self._clients[key] = self._new_client(service)
        return self._clients[key]

    def _new_client(self, service: str) -> Any:
        client = boto3.client(
            service,
            endpoint_url=self.described["ec2_endpoint"],
            region_name=self.described["region"],
            aws_access_key_id=self.described["admin_access_key_id"],
            aws_secret_access_key=self.described["admin_secret_access_key"],
        )
        client.meta.events.register("before-call.ec2", _without_lag)
        return client

    async def allow(self, *statements: dict[str, Any], hub_name: str = "demo") -> None:
        """From now on hubs that start get a key with these statements beside the hub's policy."""
        body = {"hub_name": hub_name, "statements": list(statements)}
        self.described |= await self.control("hub-keys", body)

    @property
    def credentials(self) -> dict[str, str]:
        """The environment variables in which an AWS client looks for the hub's key."""
        return {
            "AWS_ACCESS_KEY_ID": self.described["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": self.described["aws_secret_access_key"],
        }

    @property
    def admin_credentials(self) -> dict[str, str]:
        """The same with the administrator's key."""
        return {
            "AWS_ACCESS_KEY_ID": self.described["admin_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": self.described["admin_secret_access_key"],
        }

    async def instances(self) -> list[dict[str, Any]]:
        """What the instance runtime runs, without what has ended."""
        found = await self.control("instances")
        return [i for i in found if i["state"] not in {"terminated", "shutting-down"}]

    async def calls(self, action: str) -> list[dict[str, Any]]:
        """The calls of an action, without those that came before what they name was seen.

        EC2 answers `…NotFound` for some seconds after a creation, and the hub repeats the call:
        how often is up to the lag, not to what a test counts.
        """
        return [
            call
            for call in await self.control("calls")
            if call["action"] == action and call["outcome"] not in read_lag.CODES
        ]

    async def launches(self, others: Collection[str] = ()) -> set[str]:
        """Ids of the fleets that brought the instances beside `others`.

        Calls are no measure where a launch names a new group: while EC2 does not know that yet, the
        fleet has errors and no instance, and the hub repeats the call.
        """
        ids = {each["instance_id"] for each in await self.instances()}.difference(others)
        ec2 = self.client()
        listed = await asyncio.to_thread(ec2.describe_instances, InstanceIds=sorted(ids))
        instances = [each for group in listed["Reservations"] for each in group["Instances"]]
        tags = [tag for each in instances for tag in each["Tags"]]
        return {tag["Value"] for tag in tags if tag["Key"] == "aws:ec2:fleet-id"}

    async def stop(self) -> None:
        """Raises `AssertionError` if a volume has lost what was not flushed."""
        lost = []
        if self.process.returncode is None:
            lost = await self.control("detached-while-mounted")
        await end(self.process)
        assert lost == []


class Hub:
    """JupyterHub with the demo's configuration, on ports that stay the same over restarts."""

    def __init__(
        self,
        directory: Path,
        embedded: Embedded,
        *arguments: str,
        config: Path = CONFIG,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.embedded = embedded
        self.arguments = arguments
        self.config = config
        self.environment = environment or {}
        self._reserved = contextlib.ExitStack()
        ports = self._reserved.enter_context(reserved_ports(3))
        self.port, self.api_port, self.proxy_port = ports
        self.proxy_token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / "jupyterhub.log"
        self.process: asyncio.subprocess.Process | ForkedProcess | None = None
        self.api = httpx.AsyncClient(
            base_url=f"{self.url}/hub/api",
            headers={"Authorization": f"token {ADMIN_TOKEN}"},
            timeout=120,
            verify=False,
        )

    @property
    def agent_api(self) -> str:
        return f"http://127.0.0.1:{self.api_port}/hub/api/ec2"

    async def launch(self) -> None:
        """Start the process, without waiting for it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = self.process_environment()
        arguments = ["--config", str(self.config), PATIENT_HUB, *self.arguments]
        if nursery.shared is not None:
            forks = nursery.shared.of("jupyterhub")
            self.process = forks.fork(arguments, environment, self.directory, self.log, self.log)
            return
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                QUICK_JUPYTERHUB,
                *arguments,
                cwd=self.directory,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def process_environment(self) -> dict[str, str]:
        """What the process finds: where the embedded EC2 is, and addresses of its own."""
        demo = self.embedded.described | {
            "hub_url": self.url,
            "hub_api_bind_url": f"http://127.0.0.1:{self.api_port}",
            "proxy_api_url": f"http://127.0.0.1:{self.proxy_port}",
            "data_dir": str(self.directory),
            **OF_EACH_HUB,
        }
        return os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "EC2SPAWNER_DEMO": json.dumps(demo),
            "CONFIGPROXY_AUTH_TOKEN": self.proxy_token,
            **self.embedded.credentials,
            **self.environment,
        }

    async def start(self) -> Hub:
        """Start the process, and wait until it has what its answers to users consist of."""
        await self.launch()
        await self.wait_serving()

        async def has_provisioner() -> bool:
            # An agent's call is answered 503 before that, and is about no lease after it.
            reply = await self._reply("POST", "/ec2/leases/none/beat")
            return reply is not None and reply.status_code != httpx.codes.SERVICE_UNAVAILABLE

        await until(has_provisioner, START_TIMEOUT, "store and EC2 to answer the hub")
        return self

    async def wait_serving(self) -> None:
        """Wait until JupyterHub serves requests, which it does before EC2 has answered."""

        async def is_serving() -> bool:
            reply = await self._reply("GET", "/")
            return reply is not None and reply.is_success

        await until(is_serving, START_TIMEOUT, "the hub to answer")

    async def _reply(self, method: str, path: str) -> httpx.Response | None:
        """A reply of its API; None while nothing listens."""
        assert self.process is not None
        assert self.process.returncode is None, self.tail()
        with contextlib.suppress(httpx.TransportError):
            return await self.api.request(method, path)
        return None

    async def kill(self) -> None:
        """SIGKILL only the hub: proxy and servers keep running."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> None:
        await self.api.aclose()
        if self.process is not None:
            await end(self.process)
        self._reserved.close()

    def tail(self, lines: int = 60) -> str:
        kept = [
            x for x in self.log.read_text(errors="replace").splitlines() if " 200 GET " not in x
        ]
        return "\n".join(kept[-lines:])

    # --- servers ---

    def server_path(self, user: str, server: str = "") -> str:
        name = httpx.URL("http://x").copy_with(path=f"/{user}").raw_path.decode()
        return f"/users{name}/servers/{server}" if server else f"/users{name}/server"

    async def add_user(self, user: str) -> None:
        reply = await self.api.post("/users", json={"usernames": [user]})
        assert reply.status_code in {201, 409}, reply.text

    async def request_server(
        self, user: str, server: str = "", options: dict[str, Any] | None = None
    ) -> httpx.Response:
        await self.add_user(user)
        return await self.api.post(self.server_path(user, server), json=options or {})

    async def model(self, user: str, server: str = "") -> dict[str, Any] | None:
        """JupyterHub's model of a server, or None when there is none."""
        path = self.server_path(user).removesuffix("/server")
        reply = await self.api.get(path)
        assert reply.is_success, reply.text
        found: dict[str, Any] | None = reply.json()["servers"].get(server)
        return found

    async def wait_ready(self, user: str, server: str = "", timeout: float = 60) -> dict[str, Any]:
        async def ready() -> dict[str, Any] | None:
            model = await self.model(user, server)
            return model if model and model["ready"] else None

        return await until(ready, timeout, f"the server of {user!r} to be ready")

    async def wait_gone(self, user: str, server: str = "", timeout: float = 60) -> None:
        async def gone() -> bool:
            model = await self.model(user, server)
            return model is None or (not model["ready"] and not model["pending"])

        await until(gone, timeout, f"the server of {user!r} to be gone")

    async def start_server(
        self, user: str, server: str = "", options: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        reply = await self.request_server(user, server, options)
        assert reply.status_code in {201, 202}, f"{reply.status_code} {reply.text}\n{self.tail()}"
        return await self.wait_ready(user, server)

    async def stop_server(self, user: str, server: str = "", *, sleep: bool | None = None) -> None:
        """Stop a server; without `sleep`, its session is saved where idle stops do that. An agent
        that reports nothing is awaited for as long as saving may take, unless `sleep` is false."""
        body = None if sleep is None else {"sleep": sleep}
        reply = await self.api.request("DELETE", self.server_path(user, server), json=body)
        assert reply.status_code in {202, 204}, reply.text
        await self.wait_gone(user, server)

    async def server_tokens(self, user: str) -> list[str]:
        """Ids of the tokens of a user's servers."""
        reply = await self.api.get(f"/users/{user}/tokens")
        assert reply.is_success, reply.text
        return [t["id"] for t in reply.json()["api_tokens"] if t["note"].startswith("Server at")]

    async def user_token(self, user: str) -> str:
        reply = await self.api.post(f"/users/{user}/tokens", json={"note": "test"})
        assert reply.is_success, reply.text
        token: str = reply.json()["token"]
        return token


@contextlib.asynccontextmanager
async def running_hub(
    folder: Path, *lines: str, image: Callable[[Embedded], None] = lambda embedded: None
) -> AsyncIterator[Hub]:
    """The demo's hub with these lines in its configuration, on an EC2 of its own, until the block
    ends; `image` prepares what instances boot."""
    embedded = await Embedded(folder / "embedded").start()
    image(embedded)
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *lines))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(300))


async def end(process: asyncio.subprocess.Process | ForkedProcess, timeout: float = 20.0) -> None:
    """SIGTERM, then SIGKILL for what is left of the session."""
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), BUSY * timeout)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
