"""A notebook server of the bench `widget`: one widget or none, GPUs that are not there, kernels."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.loop_monitor import Turn, read_turns
from tests.harness import TREE, free_ports, until
from tests.jupyter_by_hand import Jupyter

GPUS = 8
START_SECONDS = 90.0
AT_ONCE = 3
"""Kernels that are started at a time."""

TOKEN = "bench"

LAB_EXTENSION = TREE / "ec2spawner" / "labextension"


@dataclass(frozen=True, slots=True)
class Widget:
    """Who shows what a server does. `path`: what its browser side asks, every `poll_seconds`."""

    name: str
    package: str = ""
    server_extension: str = ""
    path: str = "api/status"
    poll_seconds: float = 3.0
    sockets: tuple[str, ...] = ()
    """Websockets of a widget that is sent its figures, instead of asking for them."""


NOTHING = Widget("bare")
OURS = Widget(
    "ours", "ec2spawner", "ec2spawner.notebook", path="ec2spawner/api/status", poll_seconds=3.0
)


class WidgetServer:
    """Started with `start`; `stop` leaves no process of it."""

    def __init__(
        self, widget: Widget, folder: Path, gpus: Any, python: Path, has_lab: bool
    ) -> None:
        self.widget = widget
        self.folder = folder
        self.loop_log = folder / "loop.jsonl"
        self.log = folder / "server.log"
        self._gpus = gpus
        self._python = python
        self._has_lab = has_lab
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}/"

    async def start(self) -> None:
        work = self.folder / "work"
        work.mkdir(parents=True)
        self._say_gpus([])
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command(work),
                cwd=self.folder,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.jupyter = Jupyter(self.url, TOKEN)
        await until(self._answers, START_SECONDS, f"the server of {self.widget.name}: {self.log}")

    async def start_kernels(self, count: int) -> list[str]:
        """Real ones, a few at a time, each with memory on every GPU; their ids."""
        places = asyncio.Semaphore(AT_ONCE)

        async def start(number: int) -> str:
            async with places:
                return await self.jupyter.start_notebook(f"{number:02}.ipynb")

        kernels = await asyncio.gather(*(start(number) for number in range(count)))
        pids = _kernel_pids(self.process.pid)
        self._say_gpus([pids[kernel] for kernel in kernels])
        return list(kernels)

    async def keep_busy(self, kernel_id: str) -> None:
        channels = await self.jupyter.execute(kernel_id, "while True: pass")
        await channels.close()

    async def stop(self) -> None:
        if not hasattr(self, "process"):
            return
        await self.jupyter.http.close()
        server = psutil.Process(self.process.pid) if self.process.returncode is None else None
        family = [server, *server.children(recursive=True)] if server else []
        if server:
            self.process.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), 15)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()  # psutil knows a number that was given to somebody else meanwhile
        await self.process.wait()

    # --- what it costs ---

    def cpu_seconds(self) -> float:
        """Of the server's own process, all threads; its kernels are not in it."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    async def thread(self, name: str) -> Path:
        """The clock of one of its threads, for `thread_seconds`."""
        _, threads = await self.jupyter.call("GET", "bench/threads")
        return Path(f"/proc/{self.process.pid}/task/{threads[name]}/schedstat")

    def turns(self, since: float, until: float) -> list[Turn]:
        return [turn for turn in read_turns(self.loop_log) if since <= turn.at <= until]

    def latencies(self, seconds: float, pause: float) -> tuple[list[float], list[bytes]]:
        """Milliseconds of GETs one after the other over one connection, and what was answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        headers = {"Authorization": f"token {TOKEN}"}
        took, bodies = [], []
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                began = time.perf_counter()
                connection.request("GET", f"/{self.widget.path}", headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                took.append(1000 * (time.perf_counter() - began))
                if answer.status != http.client.OK:
                    raise RuntimeError(f"{self.widget.path}: {answer.status} {body[:200]!r}")
                bodies.append(body)
                time.sleep(pause)
        finally:
            connection.close()
        return took, bodies

    # --- how it is set up ---

    def _say_gpus(self, pids: list[int]) -> None:
        lines = [
            f"gpu {gpu} {key} {value}"
            for gpu in range(GPUS)
            for key, value in (("use", 50), ("memory", 80000), ("used", 20000))
        ]
        lines += [f"process {at % GPUS} {pid} 1000 5" for at, pid in enumerate(pids)]
        self._gpus.say("\n".join(lines) + "\n")

    async def _answers(self) -> bool:
        if self.process.returncode is not None:
            raise RuntimeError(f"{self.widget.name}: {self.log.read_text()[-2000:]}")
        try:
            status, _ = await self.jupyter.call("GET", "bench/threads")
        except OSError:
            return False
        return status == http.client.OK

    def _command(self, work: Path) -> list[str]:
        extensions = {
            "tests.bench.widget.monitor": True,
            "ec2spawner.notebook": False,
            "jupyterlab": self._has_lab,
            "notebook": False,
            "jupyter_lsp": False,
        }
        if self.widget.server_extension:
            extensions[self.widget.server_extension] = True
        command = [
            *(str(self._python), "-m", "jupyterlab" if self._has_lab else "jupyter_server"),
            *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={self._port}"),
            *("--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"),
            f"--ServerApp.root_dir={work}",
            f"--ServerApp.jpserver_extensions={extensions!r}",
        ]
        if self._has_lab:
            command += [
                f"--LabApp.app_dir={Path(sys.prefix) / 'share' / 'jupyter' / 'lab'}",
                f"--LabApp.user_settings_dir={self._settings()}",
                f"--LabApp.workspaces_dir={self.folder / 'workspaces'}",
            ]
        return command

    def _settings(self) -> Path:
        """What the browser loads: our side for our server alone, and no news from outside."""
        settings = self.folder / "lab-settings"
        (settings / "@jupyterlab/apputils-extension").mkdir(parents=True)
        news = settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        news.write_text(json.dumps({"fetchNews": "false"}))
        if self.widget is OURS:
            extensions = self.folder / "data" / "labextensions"
            extensions.mkdir(parents=True)
            (extensions / "ec2spawner-lab").symlink_to(LAB_EXTENSION)
        else:
            page = self.folder / "config" / "labconfig"
            page.mkdir(parents=True)
            (page / "page_config.json").write_text(
                json.dumps({"disabledExtensions": {"ec2spawner-lab": True}})
            )
        return settings

    def _environment(self) -> dict[str, str]:
        theirs = ("JUPYTER", "EC2SPAWNER")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(theirs)},
            **self._gpus.environment,
            "HOME": str(self.folder),
            "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
            "JUPYTER_DATA_DIR": str(self.folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.folder / "lab-settings"),
            "PYTHONPATH": str(TREE),
            "BENCH_LOOP_LOG": str(self.loop_log),
            "BENCH_WIDGET": self.widget.package,
        }


def thread_seconds(clock: Path) -> float:
    return int(clock.read_text().split()[0]) / 1e9


def _kernel_pids(server: int) -> dict[str, int]:
    """Process numbers of a server's kernels by their ids, which are in their command lines."""
    return dict(_named_kernels(psutil.Process(server)))


def _named_kernels(server: psutil.Process) -> Iterator[tuple[str, int]]:
    for child in server.children(recursive=True):
        found = re.search(r"kernel-([0-9a-f-]{36})\.json", " ".join(child.cmdline()))
        if found:
            yield found[1], child.pid
