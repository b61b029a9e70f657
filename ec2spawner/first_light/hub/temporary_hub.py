"""The journey's own JupyterHub, from its first process to its last."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from ...hub_readiness import until_ready
from ...parent_death import end_with_parent
from ..plan import HOME_GIB, Leg
from .overrides import HubSettings, write

READY_TIMEOUT: Final = 90.0
"""Seconds until the hub must answer."""

END_TIMEOUT: Final = 60.0
"""Seconds for the hub to end what it is doing in the account, before it is killed."""

PROXY: Final = "configurable-http-proxy"

_PROGRAM: Final = """
from ec2spawner import iri_grammar
iri_grammar.defer()
from jupyterhub.app import main
main()
"""


class HubDidNotStart(Exception):
    """The journey's hub does not run; the message has the end of its log."""


def find_proxy() -> str:
    """The PATH with which the hub finds its proxy. Raises `HubDidNotStart`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if shutil.which(PROXY, path=path) is None:
        raise HubDidNotStart(f"{PROXY} is not on the PATH. Fix: npm install -g {PROXY}")
    return path


def settings_of(
    config: Path,
    arguments: Sequence[str],
    folder: Path,
    store_id: str,
    base_url: str,
    ports: Sequence[int],
    legs: Sequence[Leg],
    subnets: Sequence[str],
    idle_seconds: float,
) -> HubSettings:
    """Settings with new tokens and a new user.

    `base_url` is the path of all of the hub's URLs, `ports` are those of the hub and of its proxy's
    API. The user's name is random: somebody's own files may be in a folder of that name.
    """
    port, proxy_api = ports
    return HubSettings(
        config=str(config.resolve()),
        arguments=list(arguments),
        folder=str(folder),
        store_id=store_id,
        url=f"http://127.0.0.1:{port}{base_url}",
        proxy_api_url=f"http://127.0.0.1:{proxy_api}",
        token=secrets.token_hex(16),
        proxy_token=secrets.token_hex(16),
        user=f"first-light-{secrets.token_hex(3)}",
        profiles=[leg.profile() for leg in legs],
        subnets=list(subnets),
        home_gib=HOME_GIB,
        idle_seconds=idle_seconds,
    )


@asynccontextmanager
async def temporary_hub(settings: HubSettings) -> AsyncIterator[None]:
    """Run the hub, where the admin runs theirs: their file may open others beside it.

    On exit it ends; servers that still run are left to the caller. Raises `HubDidNotStart`.
    """
    path = find_proxy()
    log_path = Path(settings.folder) / "jupyterhub.log"
    with log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _PROGRAM,
            f"--config={await asyncio.to_thread(write, settings)}",
            env={**os.environ, "PATH": path},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            umask=0o077,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
    try:
        await _until_ready(settings, process, log_path)
        yield
    finally:
        await asyncio.shield(_end(process, Path(settings.folder)))


async def _until_ready(
    settings: HubSettings, process: asyncio.subprocess.Process, log: Path
) -> None:
    with suppress(TimeoutError):
        if await until_ready(process, settings.url.rstrip("/"), READY_TIMEOUT):
            return
    text = await asyncio.to_thread(log.read_text, errors="replace")
    tail = "\n".join(text.splitlines()[-12:])
    raise HubDidNotStart(f"the hub did not start. The end of its log:\n{tail}")


async def _end(process: asyncio.subprocess.Process, folder: Path) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_TIMEOUT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    # The proxy has a session of its own, and outlives a hub that was killed.
    with suppress(OSError, ValueError, ProcessLookupError):
        os.kill(int((folder / "jupyterhub-proxy.pid").read_text()), signal.SIGTERM)
