"""A hub with its proxy, an EC2 before it, and the agents of its instances in this process."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from tests.bench.bench_hub import BenchHub, StartFailedError
from tests.bench.scale.rig import notebooks
from tests.bench.scale.rig.agents import Agents
from tests.bench.scale.rig.boot_times import BootTimes
from tests.bench.scale.rig.handover import EmbeddedMachine, Handover
from tests.bench.scale.rig.http_client import Connection, Response
from tests.bench.scale.rig.hub_process import HubProcess
from tests.harness import ADMIN_TOKEN, Embedded, end, free_ports, until

HERE = Path(__file__).parent

START_TIMEOUT = 600.0
"""Seconds for one start, of hundreds at once on a busy machine."""

USERS_PER_CALL = 100
PAGE = 200
"""Users in one page of JupyterHub's list."""

FOLLOW_INTERVAL = 0.3
"""Seconds between checks of a start that takes more than a minute."""

NEEDED_FILES = 20_000
"""Open files of the bench and, inherited, of hub and proxy: 2,000 servers have 2,000 agents'
connections to the hub, and as many from the bench."""

TOKENS_AT_ONCE = 20
"""Requests for users' tokens at a time."""


class Site:
    """An embedded EC2 whose instances' agents run here, a hub, and its proxy."""

    def __init__(
        self, directory: Path, boots: BootTimes | float, options: dict[str, Any] | None = None
    ) -> None:
        """`boots`: how long instances boot, seconds if all boot alike. `options` go to
        `hub_config`."""
        self._boots = boots
        floor = boots if isinstance(boots, float) else boots.floor
        self._chance = random.Random(15)
        self._stack = AsyncExitStack()
        [self.notebook_port] = free_ports(1)
        self._options = {"notebook_port": self.notebook_port, **(options or {})}
        self.embedded = Embedded(directory / "embedded", boot_seconds=floor)
        self.hub = BenchHub("scale", directory / "hub", self.embedded, HERE / "hub_config.py")
        self.agents = Agents("127.0.0.1", self.hub.api_port, self.notebook_port)
        self._probe_log = directory / "health.txt"
        self._tokens: dict[str, str] = {}
        """By user; JupyterHub hashes those that it has made once, and an admin's 16,384 times."""

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        _raise_file_limit()
        self._stack.push_async_callback(self.embedded.stop)
        await self.embedded.start()
        await self._open_ec2()
        server = await notebooks.serve(self.notebook_port)
        self._stack.callback(server.close)
        self._stack.push_async_callback(self.agents.close)
        self.hub.directory.mkdir(parents=True)
        self._stack.push_async_callback(self.hub.stop)
        self.hub.environment = {
            **self.hub.environment,
            "BENCH_SCALE": json.dumps(self._options),
        }
        await self._start_proxy()
        await self.hub.start()
        self.process = HubProcess(self._hub_pid())

    async def _open_ec2(self) -> None:
        """Let instances hand over to the agents here."""
        shims = self.embedded.data_dir / "ec2/shims"
        handover = Handover(shims, self._booted)
        self._stack.callback(handover.close)

    def _booted(self, machine: EmbeddedMachine) -> None:
        excess = 0.0 if isinstance(self._boots, float) else self._boots.draw_excess(self._chance)
        self.agents.boot(machine, excess)

    async def _start_proxy(self) -> None:
        """As in production, the proxy is a process that a restart of the hub does not end."""
        with self.hub.log.open("ab") as log:
            proxy = await asyncio.create_subprocess_exec(
                "configurable-http-proxy",
                *("--ip", "127.0.0.1", "--port", str(self.hub.port)),
                *("--api-ip", "127.0.0.1", "--api-port", str(self.hub.proxy_port)),
                env=self.hub.process_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.push_async_callback(end, proxy)

    def _hub_pid(self) -> int:
        assert self.hub.process is not None
        return self.hub.process.pid

    # --- the hub ---

    async def restart_hub(self) -> float:
        """End the hub as a service manager does, and start it; returns before it answers.

        Seconds that the end took.
        """
        assert self.hub.process is not None
        began = time.perf_counter()
        await end(self.hub.process, timeout=60)
        seconds = time.perf_counter() - began
        await self.hub.launch()
        self.process = HubProcess(self._hub_pid())
        return seconds

    async def call(self, method: str, path: str, body: Any = None, *, user: str = "") -> Response:
        """A call of JupyterHub's API through the proxy, on a connection of its own: the user's, or
        the admin's by default."""
        token = self._tokens.get(user, ADMIN_TOKEN)
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        connection = Connection("127.0.0.1", self.hub.port)
        content = b"" if body is None else json.dumps(body).encode()
        try:
            return await connection.request(
                method,
                f"/hub/api{path}",
                headers=headers,
                body=content,
                timeout=START_TIMEOUT,
            )
        finally:
            connection.close()

    async def add_users(self, names: Sequence[str]) -> None:
        """Create users."""
        for first in range(0, len(names), USERS_PER_CALL):
            some = names[first : first + USERS_PER_CALL]
            response = await self.call("POST", "/users", {"usernames": list(some)})
            assert response.status == 201, response.body

    async def add_tokens(self, names: Sequence[str]) -> None:
        """Let these users start their servers themselves from now on."""

        async def add(name: str) -> None:
            response = await self.call("POST", f"/users/{name}/tokens", {"note": "bench"})
            self._tokens[name] = response.json()["token"]

        for first in range(0, len(names), TOKENS_AT_ONCE):
            await asyncio.gather(*(add(name) for name in names[first : first + TOKENS_AT_ONCE]))

    @property
    def tokens(self) -> Mapping[str, str]:
        """By user, of those with a token."""
        return self._tokens

    async def start(self, user: str, options: dict[str, Any] | None = None) -> float:
        """Start the user's server: seconds from the request until the hub says it is ready.

        Raises `StartFailedError`.
        """
        began = time.perf_counter()
        path = self.hub.server_path(user)
        response = await self.call("POST", path, options or {}, user=user)
        if response.status == 202:  # after a minute the hub lets its caller go
            await self._follow(user)
        elif response.status != 201:
            said = response.body.decode()[:500]
            raise StartFailedError(f"{user}: {response.status} {said}\n{self.hub.tail()}")
        return time.perf_counter() - began

    async def _follow(self, user: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            servers = (await self.call("GET", f"/users/{user}")).json()["servers"]
            if servers and servers[""]["ready"]:
                return
            if not servers or not servers[""]["pending"]:
                break
            await asyncio.sleep(FOLLOW_INTERVAL)
        raise StartFailedError(f"the start of {user} failed\n{self.hub.tail()}")

    async def is_ready(self, user: str) -> bool:
        """Whether the hub calls the user's server ready."""
        servers = (await self.call("GET", f"/users/{user}")).json()["servers"]
        return bool(servers and servers[""]["ready"])

    async def ready_servers(self) -> set[str]:
        """Users whose servers are ready, as the hub's API lists them."""
        found: set[str] = set()
        while True:
            path = f"/users?state=ready&limit={PAGE}&offset={len(found)}"
            page = (await self.call("GET", path)).json()
            found.update(user["name"] for user in page)
            if len(page) < PAGE:
                return found

    async def stop(self, users: Iterable[str]) -> None:
        """Stop these users' servers, and return when no instance is left."""
        await self._request_stops(users)

        async def none_left() -> bool:
            return not await self.embedded.instances()

        await until(none_left, START_TIMEOUT, "all instances to end")

    async def _request_stops(self, users: Iterable[str]) -> None:
        paths = [self.hub.server_path(user) for user in users]
        await asyncio.gather(*(self.call("DELETE", path) for path in paths))

    # --- EC2's side ---

    async def calls(self, since: int = 0) -> list[dict[str, Any]]:
        """The calls of EC2 received, without the first `since`."""
        found: list[dict[str, Any]] = await self.embedded.control("calls")
        return found[since:]

    # --- while something happens ---

    async def start_probe(self) -> asyncio.subprocess.Process:
        """Ask for the hub's health all the time; see `health_probe`."""
        with self._probe_log.open("wb") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                str(HERE / "health_probe.py"),
                *("127.0.0.1", str(self.hub.port), "/hub/health"),
                stdout=log,
            )

    async def stop_probe(self, probe: asyncio.subprocess.Process) -> list[float]:
        """Milliseconds of each answer. Raises `StartFailedError` if one was no success."""
        await end(probe)
        lines = self._probe_log.read_text().splitlines()
        found = [float(line.split()[1]) for line in lines if len(line.split()) == 2]
        if min(found, default=-1.0) < 0:
            raise StartFailedError(f"the hub's health was not answered\n{self.hub.tail()}")
        return found


def by_action(calls: Iterable[dict[str, Any]]) -> Counter[str]:
    """How many calls of each action."""
    return Counter(call["action"] for call in calls)


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = NEEDED_FILES if hard == resource.RLIM_INFINITY else min(NEEDED_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
