"""`ec2spawner demo`: the embedded EC2 and a JupyterHub in front of it, begun and ended together."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import shutil
import signal
import stat
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ...hub_readiness import until_ready
from ...parent_death import end_with_parent
from ...reserved_ports import port_of, reserve
from ..installed_configs import config_file
from ..runtime import processes
from ..runtime.processes import Mark
from .stop_servers import stop_servers

READY_TIMEOUT = 90.0
"""Seconds until embedded EC2 and hub must answer, each."""

END_TIMEOUT = 20.0
"""Seconds a process has to end by itself before it is killed."""

LEFT_OVER_GRACE = 2.0
"""The same for what a hub that was killed has left running."""

DEMO_VARIABLE = "EC2SPAWNER_DEMO"
"""In the environment of the hub and of all that it starts: where the demo is, as JSON."""

CREDENTIALS = (
    "aws_access_key_id",
    "aws_secret_access_key",
    "admin_access_key_id",
    "admin_secret_access_key",
    "control_token",
)
"""What commands the embedded EC2. The hub gets its access key as any AWS client does."""

HUB_PROGRAM = """
from ec2spawner import iri_grammar
iri_grammar.defer()
from ec2spawner.embedded.demo.hub import DemoHub
DemoHub.launch_instance()
"""
"""The grammar, two seconds of a core, is deferred before anything imports JupyterHub."""


class DemoFailed(Exception):
    """The demo cannot run here; the message says why."""


def run_demo(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """Run until Ctrl-C, SIGTERM, or the end of one of the two processes; the exit status."""
    try:
        asyncio.run(_until_a_signal(_demo(arguments, for_the_hub)))
    except DemoFailed as error:
        print(f"ec2spawner demo: {error}", file=sys.stderr)
        return 1
    return 0


async def _until_a_signal(work: Coroutine[Any, Any, None]) -> None:
    """Cancel the work at the first signal; later ones do not disturb its cleaning up."""
    task = asyncio.create_task(work)

    def end() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    with suppress(asyncio.CancelledError):
        await task


async def _demo(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> None:
    """Runs until it is cancelled, or raises `DemoFailed`. Either way it leaves nothing running."""
    config = _config(arguments.config)
    data_dir = _data_dir(arguments.data_dir)
    async with AsyncExitStack() as running:
        embedded, described = await _start_embedded(running, data_dir, arguments.boot_seconds)
        demo = described | _addresses(running, arguments.port) | {"data_dir": str(data_dir)}
        demo |= {"admin_token": secrets.token_hex(16), "password": _new_password()}
        demo["allowed_hosts"] = arguments.allowed_host
        hub = await _start_hub(running, config, demo, for_the_hub)
        await _wait_for_hub(demo["hub_url"], hub)
        _announce(demo, arguments.json)
        try:
            await _first([embedded.wait(), hub.wait()])
        except asyncio.CancelledError:
            if not arguments.json:
                print("\n  Stopping the servers…", flush=True)
            await stop_servers(demo["hub_url"], demo["admin_token"])
            raise
        name = "JupyterHub" if embedded.returncode is None else "the embedded EC2"
        raise DemoFailed(f"{name} ended by itself; its log is in {data_dir}")


def _new_password() -> str:
    """80 random bits that can be read aloud and typed."""
    letters = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))


def _config(given: str | None) -> Path:
    """The demo's hub configuration: of the source tree, or as installed."""
    if given:
        return Path(given)
    try:
        return config_file("demo/jupyterhub_config.py")
    except FileNotFoundError as error:
        raise DemoFailed(f"{error}; or give one with --config") from None


def _data_dir(given: str | None) -> Path:
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    path = Path(given) if given else home / "ec2spawner-demo"
    path = path.absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        # The users that root gives to instances pass through to their homes, without a list. A
        # folder that is open wider may be others' too, as /tmp.
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o011)
    return path


def _open_log(path: Path) -> BinaryIO:
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def _addresses(running: AsyncExitStack, port: int) -> dict[str, str]:
    """Addresses of the hub, on ports that stay reserved while the demo runs."""
    try:
        hub = running.enter_context(reserve(port=port))
    except OSError as error:
        raise DemoFailed(f"port {port}: {error.strerror}. Choose another with --port") from error
    api, proxy = (running.enter_context(reserve()) for _ in range(2))
    return {
        "hub_url": f"http://127.0.0.1:{port_of(hub)}",
        "hub_api_bind_url": f"http://127.0.0.1:{port_of(api)}",
        "proxy_api_url": f"http://127.0.0.1:{port_of(proxy)}",
    }


def _environment() -> dict[str, str]:
    """Ours, without the settings and credentials of a real account."""
    return {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}


async def _start_embedded(
    running: AsyncExitStack, data_dir: Path, boot_seconds: float
) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
    command = ["-m", "ec2spawner.embedded", "--json", "--rehearsals"]
    command += ["--data-dir", str(data_dir / "ec2")]
    with _open_log(data_dir / "embedded-ec2.log") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            "--boot-seconds",
            str(boot_seconds),
            env=_environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
    running.push_async_callback(_end, process)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_TIMEOUT)
        return process, json.loads(line)
    except (TimeoutError, ValueError) as error:
        message = f"the embedded EC2 did not start; see {data_dir / 'embedded-ec2.log'}"
        raise DemoFailed(message) from error


async def _start_hub(
    running: AsyncExitStack, config: Path, demo: dict[str, Any], arguments: Sequence[str]
) -> asyncio.subprocess.Process:
    beside = Path(sys.executable).parent
    path = os.pathsep.join([str(beside), os.environ.get("PATH", os.defpath)])
    if shutil.which("configurable-http-proxy", path=path) is None:
        raise DemoFailed(
            "configurable-http-proxy is not installed: npm install -g configurable-http-proxy"
        )
    shown = {name: value for name, value in demo.items() if name not in CREDENTIALS}
    mark = Mark(DEMO_VARIABLE, json.dumps(shown))
    environment = _environment() | {
        "PATH": path,
        "AWS_ACCESS_KEY_ID": demo["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": demo["aws_secret_access_key"],
        mark.name: mark.value,
    }
    data_dir = Path(demo["data_dir"])
    pid_file = data_dir / "jupyterhub-proxy.pid"
    running.push_async_callback(asyncio.to_thread, _end_what_the_hub_left, mark, pid_file)
    with _open_log(data_dir / "jupyterhub.log") as log:
        hub = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HUB_PROGRAM,
            "--config",
            str(config),
            *arguments,
            env=environment,
            cwd=demo["data_dir"],
            stdout=log,
            stderr=log,
            umask=0o077,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
    running.push_async_callback(_end, hub)
    return hub


async def _wait_for_hub(hub_url: str, hub: asyncio.subprocess.Process) -> None:
    try:
        is_ready = await until_ready(hub, hub_url, READY_TIMEOUT)
    except TimeoutError:
        raise DemoFailed("JupyterHub does not answer; see jupyterhub.log") from None
    if not is_ready:
        raise DemoFailed("JupyterHub ended; see jupyterhub.log in the data directory")


def _announce(demo: dict[str, Any], as_json: bool) -> None:
    if as_json:
        names = ("hub_url", "password", "ec2_endpoint", "admin_token", "data_dir", *CREDENTIALS)
        print(json.dumps({name: demo[name] for name in names} | {"pid": os.getpid()}), flush=True)
        return
    print(
        f"\n  The hub is at  {demo['hub_url']}\n"
        f"  Log in with any name and the password  {demo['password']}\n"
        "  The name admin is an admin. The password is a new one at each start.\n"
        "  EC2, prices and GPUs are simulated; JupyterHub, JupyterLab and your files are real.\n"
        f"  Files and logs are kept in {demo['data_dir']}\n\n"
        "  Ctrl-C ends everything.\n",
        flush=True,
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process, and after a while its whole session."""
    if process.returncode is None:
        # Not `terminate()`: it reaps a process that has just ended, under asyncio's feet.
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_TIMEOUT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _end_what_the_hub_left(mark: Mark, pid_file: Path) -> None:
    """JupyterHub's proxy has a session of its own, and outlives a hub that was killed."""
    processes.end((mark,), LEFT_OVER_GRACE)
    # The next hub would signal the process id in it, which another process may have by then.
    pid_file.unlink(missing_ok=True)


async def _first(waits: list[Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
