"""A notebook server with our extension, and the agent's side of its line, in one home."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from ec2spawner.agent.notebook_server.local_socket import LocalSocket
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.notebook.sleep import session_record
from ec2spawner.notebook.sleep.session_record import SessionRecord
from ec2spawner.sleep.storage import owned
from ec2spawner.wire import (
    AgentState,
    Idleness,
    IdlePolicy,
    NotebookReply,
    NotebookRequest,
    SessionSaved,
    SleepOrder,
    SleepProgress,
)
from tests import nursery, polling
from tests.harness import free_ports
from tests.integration.notebook.owner_identity import OwnerIdentity
from tests.jupyter_by_hand import Jupyter, Kernel, printed
from tests.nursery import ForkedProcess

REPOSITORY = Path(__file__).parents[3]
TOKEN = "token-of-this-test"


class SleepingServer:
    """`start`, `order`, `stop` or `kill`, and `start` again: what a server finds in its home."""

    def __init__(
        self, home: Path, identity: str = f"{OwnerIdentity.__module__}.OwnerIdentity"
    ) -> None:
        self.home = home
        self.identity = identity
        who = pwd.getpwuid(os.geteuid())
        self._user = NotebookUser(who.pw_name, who.pw_uid, who.pw_gid, (), home, who.pw_shell)
        self.said: list[SleepProgress | SessionSaved] = []
        self.process: ForkedProcess | None = None
        self.ada: Jupyter | None = None
        self._orders = 0

    @property
    def root(self) -> Path:
        return self.home / ".ec2spawner" / "sleep"

    @property
    def record(self) -> SessionRecord | None:
        return session_record.read(self.root)

    def generations(self) -> list[Path]:
        return sorted((self.root / "kernels").glob("*/*"))

    def noted_as_saved(self) -> set[str]:
        """Names that are noted as saved, and so are not lost if their kernel dies now. The file of
        a variable is there before that."""
        journals = [each / owned.JOURNAL for each in self.generations()]
        lines = [
            line
            for each in journals
            if each.exists()
            for line in each.read_text().splitlines(keepends=True)[1:]
        ]
        noted = [json.loads(line) for line in lines if line.endswith("\n")]
        return {each["name"] for entries in noted for each in entries if each["saved"]}

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    async def start(self, **environment: str) -> Jupyter:
        """A server whose agent has nothing to say yet."""
        self.said.clear()
        run_dir = self.home / "run"
        run_dir.mkdir(exist_ok=True)
        self.line = LocalSocket(
            run_dir, self._user, lambda seen: None, _reply, lambda said: None, self.said.append
        )
        await self.line.start()
        self.push()
        [port] = free_ports(1)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        log = self.home / "log"
        assert nursery.shared is not None
        self.process = nursery.shared.of("jupyter_server").fork(
            (
                *("--allow-root", "--no-browser", f"--port={port}", "--port-retries=0"),
                "--LanguageServerManager.autodetect=False",  # it would run npm each time
                f"--IdentityProvider.token={TOKEN}",
                f"--ServerApp.identity_provider_class={self.identity}",
            ),
            kept
            | {
                "HOME": str(self.home),
                "PYTHONPATH": str(REPOSITORY),
                "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
                "EC2SPAWNER_AGENT_SOCKET": str(self.line.path),
                "JUPYTERHUB_USER": "ada",
            }
            | environment,
            self.home,
            log,
            log,
        )
        url = f"http://127.0.0.1:{port}/"
        async with asyncio.timeout(90), aiohttp.ClientSession() as http:
            while True:
                assert self.process.returncode is None, self.log()
                try:
                    async with http.get(f"{url}api"):
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        self.ada = Jupyter(url, TOKEN)
        return self.ada

    def push(self, order: SleepOrder | None = None) -> None:
        state = AgentState(
            at=datetime.now(UTC), idle_policy=IdlePolicy(), idleness=Idleness(), sleep=order
        )
        self.line.push(state)

    async def notebook(self, name: str, code: str = "", kernel: str = "python3") -> Kernel:
        """A notebook that exists, with a kernel that has run some code."""
        assert self.ada is not None
        document = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        body = {"type": "notebook", "content": document}
        status, _ = await self.ada.call("PUT", f"api/contents/{name}", json=body)
        assert status in (200, 201)
        kernel_id = await self.ada.start_notebook(name, kernel)
        running = Kernel(self.ada, kernel_id)
        assert printed(await running.run(f"{code}\nprint('ready')")) == "ready\n"
        return running

    async def running(self, kernel: Kernel, first: str, then: str) -> asyncio.Task[Any]:
        """The task of a cell that has done `first`, and is at `then`."""
        begun = self.home / "begun"
        begun.unlink(missing_ok=True)
        code = f"{first}\nopen({str(begun)!r}, 'w').close()\n{then}"
        task = asyncio.create_task(kernel.run(code))
        await self.until(begun.exists)
        async with asyncio.timeout(30):  # the server hears of it from the kernel, later
            while await self._state(kernel) != "busy":
                await asyncio.sleep(polling.SHORTEST)
        return task

    async def _state(self, kernel: Kernel) -> str:
        assert self.ada is not None
        _, model = await self.ada.call("GET", f"api/kernels/{kernel.kernel_id}")
        return str(model["execution_state"])

    async def value(self, name: str, expression: str) -> str:
        """What the kernel of a notebook prints of an expression."""
        assert self.ada is not None
        _, sessions = await self.ada.call("GET", "api/sessions")
        [kernel_id] = [each["kernel"]["id"] for each in sessions if each["path"] == name]
        said = await Kernel(self.ada, kernel_id).run(f"print({expression})")
        return printed(said).strip()

    def new_order(self, seconds: float = 20.0, **changes: Any) -> SleepOrder:
        self._orders += 1
        given: dict[str, Any] = {
            "id": f"order-{self._orders}",
            "trigger": "interruption",
            "until": datetime.now(UTC) + timedelta(seconds=seconds),
            "interrupt_busy": True,
            "max_bytes": 10**9,
        }
        return SleepOrder(**given | changes)

    async def sleep(self, seconds: float = 20.0, **changes: Any) -> SessionSaved:
        """Order it; what the extension says in the end, which is within the time."""
        order = self.new_order(seconds, **changes)
        self.push(order)
        [said] = await self.until(lambda: self.answers(order.id), seconds + 30)
        # A busy machine is late with what was said in time.
        assert datetime.now(UTC) <= order.until + timedelta(seconds=5)
        return said

    def answers(self, order_id: str) -> list[SessionSaved]:
        return [e for e in self.said if isinstance(e, SessionSaved) and e.id == order_id]

    def progress(self, order_id: str) -> list[SleepProgress]:
        return [e for e in self.said if isinstance(e, SleepProgress) and e.id == order_id]

    async def woken(self) -> Any:
        """The wake of the status, once it is done."""
        found: Any = None

        async def is_done() -> Any:
            nonlocal found
            assert self.ada is not None
            found = (await self.ada.status())["wake"]
            return found if found and found["state"] == "done" else None

        async with asyncio.timeout(60):
            while not await is_done():
                await asyncio.sleep(0.05)
        return found

    async def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        async with asyncio.timeout(seconds):
            waited = 0.0
            while not (found := condition()):
                await asyncio.sleep(polling.pause(waited))
                waited += polling.pause(waited)
        return found

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server with its kernels, as the agent does, or as an instance ends."""
        if self.ada is not None:
            await self.ada.http.close()
        if self.process is not None and self.process.returncode is None:
            if how == signal.SIGKILL:
                os.killpg(self.process.pid, how)
                _kill_children(self.process.pid)
            else:
                self.process.send_signal(how)
            async with asyncio.timeout(60):
                await self.process.wait()
        await self.line.close()


async def _reply(request: NotebookRequest) -> NotebookReply:
    return NotebookReply(id=request.id, ok=True)


def _kill_children(pid: int) -> None:
    """Kernels have sessions of their own."""
    import psutil

    for each in psutil.process_iter(["environ", "pid"]):
        environ = each.info["environ"] or {}
        if environ.get("JPY_PARENT_PID") == str(pid):
            each.kill()
