"""A hub of the bench from outside: it starts quickly, dies at a given moment, and starts again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from ec2spawner.embedded.iam.hub_policy import cluster_statements
from tests.bench.kill.moments import ORDERS, PASSES, TRACE
from tests.bench.kill.points import Point, parse_trace
from tests.harness import TREE, Embedded, Hub, end
from tests.nursery import Nursery

T = TypeVar("T")

BOOT_TIMEOUT, STOP_TIMEOUT, IDLE, HOLD = 12.0, 6.0, 3.0, 3.0
"""Seconds: an instance may be silent at its boot, an agent may take to stop, a server of the
profile `brief` may be idle, a heartbeat is held."""

HTTP_TIMEOUT = 8
"""Seconds for which JupyterHub looks for a server where it was."""

SETTINGS = {
    "agent_silent_after": 15.0,
    "recovery_grace": 8.0,
    "busy_interval": 1.0,
    "quiet_interval": 1.0,
}
"""The provisioner's other waits, in seconds."""

MAX_WORKERS = 5
"""Of one cluster."""

PAUSE = {"first": 1.0, "longest": 2.0}
"""Seconds between two tries to get the workers that are missing, or an instance for a run."""

QUIET = 0.7
"""Seconds without a moment, after which a hub that has just started has read what it reads."""


@dataclass(frozen=True, slots=True)
class StoredLease:
    lease_id: str
    user: str
    state: str
    instance_id: str | None
    head: str
    """Of a worker of a cluster: the lease of its server; otherwise empty."""
    wanted: int
    """How many workers it wants."""
    run: int = 0
    """The run that it is for; 0 for a server or a worker."""


class KillableHub(Hub):
    """A JupyterHub with `hub_config`, behind a proxy of its own that outlives it."""

    process: Any

    def __init__(self, name: str, directory: Path, embedded: Embedded, nursery: Nursery) -> None:
        bench = {
            "hub_name": name,
            "boot_timeout": BOOT_TIMEOUT,
            "stop_timeout": STOP_TIMEOUT,
            "idle": IDLE,
            "hold": HOLD,
            "http_timeout": HTTP_TIMEOUT,
            "settings": SETTINGS,
            "max_workers": MAX_WORKERS,
            "pause": PAUSE,
        }
        super().__init__(
            directory,
            embedded,
            config=Path(__file__).with_name("hub_config.py"),
            environment={"BENCH_KILL": json.dumps(bench), "PYTHONPATH": str(TREE)},
        )
        self.name = name
        self._nursery = nursery
        self._proxy: asyncio.subprocess.Process | None = None
        directory.mkdir(parents=True)
        self.order("", "")

    # --- life ---

    async def begin(self, *users: str) -> None:
        """Start the proxy and the hub, and wait until it has read all that it reads at a start."""
        caller = await asyncio.to_thread(self.embedded.client("sts").get_caller_identity)
        region = self.embedded.described["region"]
        statements = cluster_statements(region, caller["Account"], self.name)
        asked = {"hub_name": self.name, "statements": statements}
        key = await self.embedded.control("hub-keys", asked)
        of_hub = {name.upper(): value for name, value in key.items()}
        self.environment = {**self.environment, **of_hub}
        environment = self.process_environment()
        with self.log.open("ab") as log:
            self._proxy = await asyncio.create_subprocess_exec(
                "configurable-http-proxy",
                *("--ip", "127.0.0.1", "--port", str(self.port)),
                *("--api-ip", "127.0.0.1", "--api-port", str(self.proxy_port)),
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self.start()
        for user in users:
            await self.add_user(user)
        await self.order_and_wait("-", QUIET)

    async def launch(self) -> None:
        (self.directory / PASSES).unlink(missing_ok=True)
        arguments = ["--config", str(self.config)]
        self.process = self._nursery.fork(
            arguments, self.process_environment(), self.directory, self.log, self.log
        )

    async def start(self) -> KillableHub:
        await super().start()
        return self

    async def stop(self) -> None:
        """Everything at once: nothing of it is needed any more."""
        await self.api.aclose()
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.wait()
        if self._proxy is not None:
            await end(self._proxy)

    @property
    def is_dead(self) -> bool:
        return self.process.returncode is not None

    # --- what the bench orders and sees ---

    def order(self, leg: str, die_at: str) -> None:
        """From now on moments belong to this leg; without a leg none is reported."""
        draft = self.directory / f"{ORDERS}.new"
        draft.write_text(json.dumps([leg, die_at]))
        draft.replace(self.directory / ORDERS)

    async def order_and_wait(self, leg: str, quiet: float) -> None:
        """Until no moment has come for so many seconds; then moments are of no leg."""
        self.order(leg, "")
        trace = self.directory / TRACE
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < quiet:
            size = trace.stat().st_size if trace.exists() else 0
            if size != seen:
                seen, since = size, time.monotonic()
            await asyncio.sleep(0.05)
        self.order("", "")

    def points(self) -> list[Point]:
        """All points so far, of all legs."""
        return [p for p in parse_trace((self.directory / TRACE).read_text()) if p.leg != "-"]

    @property
    def passes(self) -> int:
        """Reconcile passes since the last start."""
        path = self.directory / PASSES
        return path.stat().st_size if path.exists() else 0

    async def unless_dead(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work comes to; None where the hub dies first, or under it."""
        task = asyncio.ensure_future(work)
        dead = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({task, dead}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return None
            try:
                return task.result()
            except (httpx.HTTPError, AssertionError):
                # The proxy's answer for a hub that is gone may come before we see it gone.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await self.process.wait()
                if self.is_dead:
                    return None
                raise
        finally:
            task.cancel()
            dead.cancel()
            await asyncio.gather(task, dead, return_exceptions=True)

    # --- what the store holds ---

    def leases(self) -> list[StoredLease]:
        query = "SELECT lease_id, user_name, state, instance_id, head, cluster, run FROM lease"
        return [
            StoredLease(lease_id, user, state, instance_id, head, _workers(cluster), run)
            for lease_id, user, state, instance_id, head, cluster, run in self._read(query)
        ]

    def home_volumes(self) -> dict[str, str | None]:
        """Volume of the home of each user's server, as recorded."""
        return dict(self._read("SELECT user_name, volume_id FROM home WHERE server_name = ''"))

    def recorded_volumes(self) -> set[str | None]:
        """Of all homes, those of runs as well."""
        return {volume for (volume,) in self._read("SELECT volume_id FROM home")}

    def has_result(self, run: int) -> bool:
        """Whether there is a result of a run that has ended, and nothing else of it."""
        query = f"SELECT document_id FROM run_document WHERE number = {run:d}"
        return self._read(query) == [(f"result/{run}",)]

    @property
    def store_id(self) -> str:
        [[store_id]] = self._read("SELECT store_id FROM store")
        return str(store_id)

    def _read(self, query: str) -> list[Any]:
        path = self.directory / "ec2spawner.sqlite"
        with contextlib.closing(sqlite3.connect(path, timeout=5)) as connection:
            return connection.execute(query).fetchall()

    # --- servers ---

    async def is_ready(self, user: str) -> bool:
        model = await self.model(user)
        return bool(model and model["ready"])

    async def is_gone(self, user: str) -> bool:
        model = await self.model(user)
        return model is None or not (model["ready"] or model["pending"])

    async def ask_server(
        self, method: str, user: str, token: str, path: str, body: Any = None
    ) -> httpx.Response:
        """Ask a server's stub through the proxy, as a browser or a script would."""
        async with httpx.AsyncClient(verify=False, timeout=15) as client:
            return await client.request(
                method,
                f"{self.url}/user/{user}/{path}",
                headers={"Authorization": f"token {token}"},
                json=body,
            )


def _workers(cluster: str | None) -> int:
    """How many workers a stored cluster wants."""
    return int(json.loads(cluster)["workers"]) if cluster else 0
