"""`ec2spawner demo` ends in every way without leaving a process or a port."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = [
    pytest.mark.skipif(
        shutil.which("configurable-http-proxy") is None,
        reason="configurable-http-proxy is not installed",
    ),
    pytest.mark.slow(seconds=40),
]

START_SECONDS = 240.0
END_SECONDS = 180.0


class Demo:
    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "demo"
        home = directory / "home"
        home.mkdir()
        somebodys = {"AWS_PROFILE": "no-such-profile", "AWS_SESSION_TOKEN": "a-real-secret"}
        self.stderr = directory / "stderr"
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    Path(sys.executable).with_name("ec2spawner"),
                    *("demo", "--json", "--port=0", f"--data-dir={self.data_dir}"),
                    "--boot-seconds=0",
                ],
                env=os.environ | somebodys | {"HOME": str(home)},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def ready(self) -> dict[str, Any]:
        """What it says when everything answers."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.stderr.read_text()
        return json.loads(line)

    def find(self, word: str) -> list[psutil.Process]:
        """Its processes in whose command line the word is."""
        return [one for one in self.left() if word in " ".join(_known(one.cmdline))]

    def left(self) -> list[psutil.Process]:
        """Everything that runs and knows the data directory but the command itself."""
        mark, found = str(self.data_dir), []
        for process in psutil.process_iter():
            words = [*_known(process.cmdline), *_known(lambda p=process: p.environ().values())]  # type: ignore[misc]
            strange = process.pid not in (self.process.pid, os.getpid())
            if strange and any(mark in word for word in words):
                found.append(process)
        return found

    def listening(self) -> set[tuple[str, int]]:
        return {
            (connection.laddr.ip, connection.laddr.port)
            for process in self.left()
            for connection in _known(lambda p=process: p.net_connections("tcp"))  # type: ignore[misc]
            if connection.status == psutil.CONN_LISTEN
        }

    def close(self) -> None:
        self.process.kill()
        for process in self.left():
            with suppress(psutil.Error):
                process.kill()
        self.process.wait(END_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


def _known(ask: Callable[[], Any]) -> list[Any]:
    """What is known of a process, which may be gone."""
    try:
        return list(ask())
    except psutil.Error:
        return []


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    started = Demo(tmp_path)
    yield started
    started.close()


def answers(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, 1):
        return True
    return False


def test_ctrl_c_stops_the_servers_before_everything_ends(
    demo: Demo, wait_until: Callable[..., Any]
) -> None:
    """So the next demo does not look for servers that ended with their instances."""
    described = demo.ready()
    authorization = {"Authorization": f"token {described['admin_token']}"}
    with httpx.Client(
        base_url=f"{described['hub_url']}/hub/api", headers=authorization, timeout=60
    ) as api:
        assert api.post("/users/ann").is_success
        assert api.post("/users/ann/server").is_success
        wait_until(lambda: api.get("/users/ann").json()["servers"][""]["ready"], START_SECONDS)
        control = {"Authorization": f"token {described['control_token']}"}
        slow_boot = f"{described['ec2_endpoint']}/embedded/boot"
        assert httpx.post(slow_boot, json={"seconds": 600}, headers=control).is_success
        assert api.post("/users/ben").is_success
        assert api.post("/users/ben/server").status_code == 202

    demo.process.send_signal(signal.SIGINT)

    assert demo.process.wait(END_SECONDS) == 0
    assert demo.left() == []
    with contextlib.closing(sqlite3.connect(demo.data_dir / "jupyterhub.sqlite")) as hub:
        assert hub.execute("SELECT server_id FROM spawners").fetchall() == [(None,), (None,)]
    with contextlib.closing(sqlite3.connect(demo.data_dir / "ec2spawner.sqlite")) as store:
        assert store.execute("SELECT ended_at IS NULL FROM lease").fetchall() == [(0,), (0,)]


def test_killing_the_hub_ends_the_demo_and_its_proxy(demo: Demo) -> None:
    demo.ready()
    ports = demo.listening()
    assert demo.find("configurable-http-proxy")
    (hub,) = demo.find("embedded.demo.hub")
    environment = hub.environ()
    assert "a-real-secret" not in environment.values()
    assert "AWS_PROFILE" not in environment

    hub.kill()

    assert demo.process.wait(END_SECONDS) == 1
    assert "JupyterHub ended by itself" in demo.stderr.read_text()
    assert "Traceback" not in demo.stderr.read_text()
    assert demo.left() == []
    assert len(ports) >= 4
    assert [port for port in ports if answers(port)] == []


def test_killing_the_demo_ends_everything(demo: Demo, wait_until: Callable[..., Any]) -> None:
    demo.ready()
    assert demo.left()
    demo.process.kill()
    demo.process.wait(END_SECONDS)
    wait_until(lambda: not demo.left(), END_SECONDS)


def test_ctrl_c_while_the_embedded_ec2_starts_starts_nothing_more(
    demo: Demo, wait_until: Callable[..., Any]
) -> None:
    wait_until(lambda: demo.find("ec2spawner.embedded"))
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(END_SECONDS) == 0
    assert demo.left() == []
    assert not (demo.data_dir / "jupyterhub.log").exists()


def test_ctrl_c_while_the_hub_starts_leaves_no_proxy(
    demo: Demo, wait_until: Callable[..., Any]
) -> None:
    wait_until(lambda: demo.find("configurable-http-proxy"), START_SECONDS)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(END_SECONDS) == 0
    assert demo.left() == []
    assert not (demo.data_dir / "jupyterhub-proxy.pid").exists()
    assert demo.stderr.read_text() == ""
