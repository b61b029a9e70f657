"""Agents of simulated instances: coroutines that speak the agent's part of `wire`.

Each claims with its identity document, waits for its home, reports its steps, and holds a heartbeat
like a real agent, with telemetry of a real one's size. None of them measures, mounts or runs
anything. While the hub does not answer, they retry with the pauses of a real agent.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

from ec2spawner.agent.hub.heartbeat import (
    GAP_SECONDS,
    HOLD_SECONDS,
    RETRY_SECONDS,
    UNHELD_SECONDS,
)
from ec2spawner.core.backoff import Backoff
from ec2spawner.wire import PROTOCOL, GpuSample, Heartbeat, Telemetry, Worker
from tests.bench.scale.rig.http_client import Connection, NoResponseError

WAIT_SECONDS = 25.0
"""How long a claim may be held; the default of `wire.Claim`."""

CALL_TIMEOUT = 15.0
"""Seconds, besides what the hub may hold a call."""


class GoneError(Exception):
    """410: the hub does not need the instance."""


class Machine(Protocol):
    """What an agent finds on its instance."""

    async def identity(self) -> tuple[str, str]:
        """The identity document and its signature."""

    async def wait_for_volume(self, volume_id: str) -> None:
        """Return when the volume is attached."""

    async def power_off(self) -> None:
        """End the instance."""


class Agents:
    """All agents of one hub, and the tasks that they are."""

    def __init__(self, host: str, api_port: int, notebook_port: int) -> None:
        self._host, self._api_port = host, api_port
        self._notebook_port = notebook_port
        self._tasks: set[asyncio.Task[None]] = set()
        self.booted_at: list[float] = []
        """When each agent began, in seconds since the epoch."""
        self._waiting: set[str] = set()
        self.leases: list[tuple[str, str]] = []
        """Id and token of each that was granted."""
        self.failures: list[str] = []
        """What ended an agent besides the hub; empty where nothing did."""

    @property
    def waiting(self) -> int:
        """How many agents ask for a lease now."""
        return len(self._waiting)

    def boot(
        self, machine: Machine, seconds: float, booted: Callable[[], None] = lambda: None
    ) -> None:
        """After this many seconds call `booted` and run an agent on the instance."""
        hub = Connection(self._host, self._api_port)
        agent = Agent(machine, hub, self._notebook_port, self._waiting, self.leases)
        task = asyncio.ensure_future(self._run(agent, seconds, booted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all agents without a word to the hub."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, agent: Agent, seconds: float, booted: Callable[[], None]) -> None:
        await asyncio.sleep(seconds)
        booted()
        self.booted_at.append(time.time())
        try:
            await agent.run()
        except Exception as error:
            self.failures.append(repr(error))


class Agent:
    """The agent of one instance, from its boot to its end."""

    def __init__(
        self,
        machine: Machine,
        hub: Connection,
        notebook_port: int,
        waiting: set[str],
        leases: list[tuple[str, str]],
    ) -> None:
        """Its key is in `waiting` while it asks for a lease; `leases` gets what it is granted."""
        self._leases = leases
        self._waiting = waiting
        self._machine = machine
        self._hub = hub
        self._notebook_port = notebook_port
        self._key = secrets.token_urlsafe(32)
        self._lease, self._token = "", ""

    async def run(self) -> None:
        """Serve leases until the hub does not need the instance."""
        try:
            while await self._serve_lease():
                pass
        except GoneError:
            await self._machine.power_off()
        finally:
            self._hub.close()

    async def _serve_lease(self) -> bool:
        """Serve one lease; False where the instance ends with it."""
        grant = await self._claim()
        self._lease, self._token = grant["lease_id"], grant["lease_token"]
        self._leases.append((self._lease, self._token))
        if grant["home"]["kind"] == "ebs":
            await self._report("home")
            await self._machine.wait_for_volume(grant["home"]["volume_id"])
        await self._report("notebook")
        await self._report("ready", port=self._notebook_port)
        stop = await self._until_stop()
        await self._report("stopped")
        self._token = ""
        if stop["then"] == "terminate":
            await self._machine.power_off()
            return False
        return True

    async def _claim(self) -> dict[str, Any]:
        document, signature = await self._machine.identity()
        claim = {
            "protocol": PROTOCOL,
            "document": document,
            "signature": signature,
            "key": self._key,
            "wait_seconds": WAIT_SECONDS,
        }
        self._waiting.add(self._key)
        try:
            while True:
                status, answer = await self._post("claims", claim, WAIT_SECONDS)
                if status == 200:
                    return answer
        finally:
            self._waiting.discard(self._key)

    async def _report(self, step: str, **more: Any) -> None:
        event = {"step": step, "at": datetime.now(UTC).isoformat(), **more}
        await self._post(f"leases/{self._lease}/events", event)

    async def _until_stop(self) -> dict[str, Any]:
        seen = 0
        while True:
            began = time.monotonic()
            message = heartbeat(seen)
            _, answer = await self._post(f"leases/{self._lease}/beat", message, HOLD_SECONDS)
            if answer.get("stop"):
                stop: dict[str, Any] = answer["stop"]
                return stop
            if answer["state"] == seen and time.monotonic() - began < UNHELD_SECONDS:
                await asyncio.sleep(GAP_SECONDS)
            seen = answer["state"]

    async def _post(self, path: str, message: Any, hold: float = 0.0) -> tuple[int, dict[str, Any]]:
        """The hub's answer, however often it takes. Raises `GoneError`."""
        backoff = Backoff(first=0.5, longest=RETRY_SECONDS)
        while True:
            wait = 0.0
            with suppress(NoResponseError):
                response = await self._hub.post(
                    f"/hub/api/ec2/{path}",
                    message,
                    token=self._token,
                    timeout=hold + CALL_TIMEOUT,
                )
                if response.status == 410:
                    raise GoneError
                if response.status < 300:
                    return response.status, response.json()
                if response.status < 500 and response.status != 429:
                    raise RuntimeError(f"{path}: {response.status} {response.body.decode()[:300]}")
                wait = float(response.headers.get("retry-after", "0"))
            await asyncio.sleep(wait + backoff.next())


def heartbeat(seen: int) -> dict[str, Any]:
    """A heartbeat of a server that computes on one GPU; `seen` is the last state received."""
    now = datetime.now(UTC)
    gpu = GpuSample(
        index=0,
        name="Tesla T4",
        use_percent=63.0,
        memory_used_mib=9120.0,
        memory_total_mib=15360.0,
        temperature_c=61.0,
        power_w=58.0,
        power_limit_w=70.0,
        clock_mhz=1290.0,
        clock_max_mhz=1590.0,
        uuid="GPU-00000000-0000-0000-0000-000000000000",
    )
    worker = Worker(
        kind="kernel",
        name="train.ipynb",
        pid=4711,
        cpu_percent=98.0,
        memory_mib=4100.0,
        gpus=[0],
        gpu_memory_mib=9000.0,
    )
    telemetry = Telemetry(
        at=now,
        gpu_source="nvml",
        gpus=[gpu],
        cpu_percent=31.0,
        memory_used_mib=6200.0,
        memory_total_mib=15800.0,
        cpu_count=4,
        disk_used_mib=20000.0,
        disk_total_mib=100000.0,
        workers=[worker],
    )
    found: dict[str, Any] = Heartbeat(
        protocol=PROTOCOL,
        sent_at=now,
        busy_because="A kernel computes: train.ipynb",
        telemetry=telemetry,
        gpu_unattended=False,
        hold_seconds=HOLD_SECONDS,
        state_seen=seen,
    ).model_dump(mode="json")
    return found
