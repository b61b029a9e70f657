"""`ec2spawner demo` as a person runs it: begun, looked at from outside, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import httpx
import psutil

START_SECONDS = 240.0
END_SECONDS = 180.0
TAIL = 60
"""Lines of each log that a failed test shows."""


class RunningDemo:
    """The demo in a home and a data directory of its own, on free ports."""

    def __init__(self, directory: Path, *options: str, boot_seconds: float = 3) -> None:
        self.data_dir = directory / "demo"
        home = directory / "home"
        home.mkdir()
        unset = ("JUPYTER", "IPYTHON", "XDG_", "EC2SPAWNER_", "AWS_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
        self._stderr = directory / "demo.log"
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    Path(sys.executable).with_name("ec2spawner"),
                    *("demo", "--json", "--port=0", f"--data-dir={self.data_dir}"),
                    f"--boot-seconds={boot_seconds}",
                    *options,
                ],
                env=environment | {"HOME": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        try:
            described = self._first_line()
        except BaseException:
            self.kill()
            raise
        self.hub_url: str = described["hub_url"]
        self.ec2_endpoint: str = described["ec2_endpoint"]
        self.password: str = described["password"]
        self.described = described

    def _first_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline() if readable else b""
        assert line, f"the demo did not start\n{self.story()}"
        described: dict[str, Any] = json.loads(line)
        return described

    # --- seen from outside ---

    async def instances(self) -> list[dict[str, Any]]:
        """What the instance runtime runs, without what has ended."""
        found: list[dict[str, Any]] = await self.control("instances")
        return [i for i in found if i["state"] not in {"terminated", "shutting-down"}]

    async def control(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """A control call of the embedded EC2: POST with a body, GET without."""
        headers = {"Authorization": f"token {self.described['control_token']}"}
        method = "GET" if body is None else "POST"
        async with httpx.AsyncClient(verify=False, headers=headers, timeout=60) as client:
            reply = await client.request(method, f"{self.ec2_endpoint}/embedded/{path}", json=body)
        return reply.raise_for_status().json()

    def client(self, service: str) -> Any:
        """A boto3 client of the account's administrator."""
        return boto3.client(
            service,
            endpoint_url=self.ec2_endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.described["admin_access_key_id"],
            aws_secret_access_key=self.described["admin_secret_access_key"],
        )

    def processes(self) -> list[psutil.Process]:
        """Every process that knows the data directory: proxy, hub, agents, notebooks, kernels."""
        mark = str(self.data_dir)
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = [*process.cmdline(), *process.environ().values()]
                if process.pid != os.getpid() and any(mark in word for word in words):
                    found.append(process)
        return found

    def listening(self) -> set[tuple[str, int]]:
        """Every address at which one of its processes listens."""
        addresses = set()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                connections = process.net_connections("tcp")
                addresses |= {
                    (c.laddr.ip, c.laddr.port)
                    for c in connections
                    if c.status == psutil.CONN_LISTEN
                }
        return addresses

    def story(self) -> str:
        """The ends of all logs: of the demo, the embedded EC2, the hub and each instance."""
        consoles = sorted(self.data_dir.glob("ec2/instances/*/*.log"))
        runs = {_variable(process, "EC2SPAWNER_RUN_DIR") for process in self.processes()}
        notebooks = [Path(run) / "notebook.log" for run in sorted(runs - {""})]
        logs = [self._stderr, *sorted(self.data_dir.glob("*.log")), *consoles, *notebooks]
        return "\n\n".join(f"--- {log}\n{_tail(log)}" for log in logs if log.exists())

    # --- the end ---

    def ask_to_end(self) -> int:
        """SIGTERM, as from a service manager; answers the exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(END_SECONDS)

    def kill(self) -> None:
        """Whatever is left, however it came to be."""
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.ask_to_end()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._process.wait(END_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _variable(process: psutil.Process, name: str) -> str:
    try:
        return process.environ().get(name, "")
    except psutil.Error:
        return ""


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:])
