"""`ec2spawner demo`: the embedded EC2 and a JupyterHub in front of it, begun and ended together."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

READY_TIMEOUT = 90.0
"""Seconds until embedded EC2 and hub must answer, each."""

END_TIMEOUT = 20.0
"""Seconds a process has to end by itself before it is killed."""


class DemoFailed(Exception):
    """The demo cannot run here; the message says why."""


def run_demo(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """Run until Ctrl-C, SIGTERM, or the end of one of the two processes."""
    try:
        asyncio.run(_demo(arguments, for_the_hub))
    except DemoFailed as error:
        print(f"ec2spawner demo: {error}", file=sys.stderr)
        return 1
    return 0


async def _demo(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    config = _config(arguments.config)
    data_dir = _data_dir(arguments.data_dir)
    processes: list[asyncio.subprocess.Process] = []
    try:
        embedded, described = await _start_embedded(data_dir, arguments.boot_seconds)
        processes.append(embedded)
        demo = described | _addresses(arguments.port) | {"data_dir": str(data_dir)}
        demo["admin_token"] = secrets.token_hex(16)
        hub = await _start_hub(config, demo, for_the_hub)
        processes.append(hub)
        await _wait_for_hub(f"{demo['hub_url']}/hub/health", hub, ended)
        if not ended.is_set():
            _announce(demo, arguments.json)
        await _first([ended.wait(), embedded.wait(), hub.wait()])
        if not ended.is_set():
            raise DemoFailed(f"a process ended by itself; its log is in {data_dir}")
    finally:
        for process in reversed(processes):
            await _end(process)


def _config(given: str | None) -> Path:
    """The demo's hub configuration: of the source tree, or as installed."""
    if given:
        return Path(given)
    tree = Path(__file__).resolve().parents[2] / "configs/demo/jupyterhub_config.py"
    installed = Path(sys.prefix) / "share/ec2spawner/configs/demo/jupyterhub_config.py"
    for path in (tree, installed):
        if path.is_file():
            return path
    raise DemoFailed("its jupyterhub_config.py is not installed; give one with --config")


def _data_dir(given: str | None) -> Path:
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    path = Path(given) if given else home / "ec2spawner-demo"
    path = path.absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _addresses(port: int) -> dict[str, str]:
    if port and not _is_free(port):
        raise DemoFailed(f"port {port} is in use: choose another with --port")
    hub, api, proxy = port or _free_port(), _free_port(), _free_port()
    return {
        "hub_url": f"http://127.0.0.1:{hub}",
        "hub_api_bind_url": f"http://127.0.0.1:{api}",
        "proxy_api_url": f"http://127.0.0.1:{proxy}",
    }


async def _start_embedded(
    data_dir: Path, boot_seconds: float
) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
    command = ["-m", "ec2spawner.embedded", "--json", "--data-dir", str(data_dir / "ec2")]
    with (data_dir / "embedded-ec2.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            "--boot-seconds",
            str(boot_seconds),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_TIMEOUT)
        return process, json.loads(line)
    except (TimeoutError, ValueError) as error:
        await _end(process)
        message = f"the embedded EC2 did not start; see {data_dir / 'embedded-ec2.log'}"
        raise DemoFailed(message) from error


async def _start_hub(
    config: Path, demo: dict[str, Any], arguments: Sequence[str]
) -> asyncio.subprocess.Process:
    beside = Path(sys.executable).parent
    path = os.pathsep.join([str(beside), os.environ.get("PATH", os.defpath)])
    if shutil.which("configurable-http-proxy", path=path) is None:
        raise DemoFailed(
            "configurable-http-proxy is not installed: npm install -g configurable-http-proxy"
        )
    environment = {
        **os.environ,
        "PATH": path,
        "EC2SPAWNER_DEMO": json.dumps(demo),
        # The embedded EC2 takes any credentials, and real ones have no business there.
        "AWS_ACCESS_KEY_ID": "embedded",
        "AWS_SECRET_ACCESS_KEY": "embedded",
    }
    with (Path(demo["data_dir"]) / "jupyterhub.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "jupyterhub",
            "--config",
            str(config),
            *arguments,
            env=environment,
            cwd=demo["data_dir"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def _wait_for_hub(url: str, hub: asyncio.subprocess.Process, ended: asyncio.Event) -> None:
    client = AsyncHTTPClient()
    try:
        async with asyncio.timeout(READY_TIMEOUT):
            while not ended.is_set():
                if hub.returncode is not None:
                    raise DemoFailed("JupyterHub ended; see jupyterhub.log in the data directory")
                try:
                    await client.fetch(url, request_timeout=2)
                    return
                except (HTTPClientError, OSError):
                    await asyncio.sleep(0.1)
    except TimeoutError:
        raise DemoFailed("JupyterHub does not answer; see jupyterhub.log") from None


def _announce(demo: dict[str, Any], as_json: bool) -> None:
    if as_json:
        names = ("hub_url", "ec2_endpoint", "admin_token", "data_dir")
        print(json.dumps({name: demo[name] for name in names} | {"pid": os.getpid()}), flush=True)
        return
    print(
        f"\n  The hub is at  {demo['hub_url']}\n"
        "  Log in with any name and any password; the name admin is an admin.\n"
        "  EC2, prices and GPUs are simulated; JupyterHub, JupyterLab and your files are real.\n"
        f"  Files and logs are kept in {demo['data_dir']}\n\n"
        "  Ctrl-C ends everything.\n",
        flush=True,
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process, and after a while its whole session."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_TIMEOUT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _first(waits: list[Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
