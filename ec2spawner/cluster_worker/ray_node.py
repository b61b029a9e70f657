"""A node of Ray on this instance."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from ..process_end import until_ended
from ..wire import ClusterJoin
from .engine import CannotJoin
from .log_tail import LogTail

STARTED: Final = "Ray runtime started"
"""What `ray start` prints once the node belongs to the cluster."""

JOIN_SECONDS: Final = 240.0
"""For all attempts together."""

ATTEMPTS: Final = 3
"""Ray gives a node 30 s to start. On a new disk, whose blocks are read for the first time, it may
take longer; the next attempt finds them in memory."""

LEAVE_SECONDS: Final = 5.0
"""From SIGTERM to SIGKILL: the agent gives this worker 10 s."""

LAST_WORDS_SECONDS: Final = 2.0
"""For the rest of the output of a node that has ended, which a child may hold open."""

DRAIN_SECONDS: Final = 30.0
"""For the calls that drain the node."""

OWN_NODE: Final = (
    "import ray, sys\n"
    "ray.init(address=sys.argv[1], _node_ip_address=sys.argv[2], log_to_driver=False)\n"
    "print(ray.get_runtime_context().get_node_id())\n"
)


class RayNode:
    """See `WorkerEngine`."""

    def __init__(self, join: ClusterJoin, host: str, python: str, tail: LogTail) -> None:
        self._join = join
        self._host = host
        self._python = python
        self._tail = tail
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))
        token = self._folder / "token"
        token.touch(mode=0o600)
        token.write_text(join.token)
        self._environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
            "PYTHONUNBUFFERED": "1",
        }

    async def join(self) -> None:
        """Return once Ray says that the node runs. Raises `CannotJoin`."""
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                for _ in range(ATTEMPTS):
                    if await self._has_started():
                        return
        except TimeoutError:
            await self.leave()
            raise CannotJoin(
                f"Ray at {self._join.address} did not answer within {JOIN_SECONDS:.0f} s: the "
                "instance of the notebook cannot be reached, or Ray has ended there."
            ) from None
        raise CannotJoin(f"Ray did not start. It printed last:\n{self._tail.text()[-2000:]}")

    async def _has_started(self) -> bool:
        """Whether `ray start` says so; False if it ends instead."""
        self._process = process = await self._start(
            *("start", f"--address={self._join.address}", f"--node-ip-address={self._host}"),
            *("--block", "--disable-usage-stats", f"--temp-dir={self._folder / 'ray'}"),
        )
        assert process.stdout is not None
        self._reading = asyncio.create_task(self._tail.read(process.stdout))
        started = asyncio.create_task(self._tail.until(STARTED))
        ended = asyncio.create_task(until_ended(process))
        try:
            await asyncio.wait({started, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
            ended.cancel()
        if process.returncode is None:
            return True
        await asyncio.wait({self._reading}, timeout=LAST_WORDS_SECONDS)
        return False

    async def wait(self) -> str:
        """Return when Ray has ended."""
        assert self._process is not None
        return f"Ray ended with status {await until_ended(self._process)}"

    async def drain(self, seconds: float) -> None:
        """Let Ray give this node nothing new, and move what it can."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                node = await self._output(
                    self._python, "-P", "-c", OWN_NODE, self._join.address, self._host
                )
                drained = await self._start(
                    *("drain-node", f"--address={self._join.address}", f"--node-id={node}"),
                    *("--reason=DRAIN_NODE_REASON_PREEMPTION",),
                    "--reason-message=AWS reclaims the instance",
                    f"--deadline-remaining-seconds={max(round(seconds), 1)}",
                )
                said, _ = await drained.communicate()
        except (TimeoutError, OSError) as error:
            self._tail.add(f"The node could not be drained: {error!r}")
            return
        self._tail.add(said.decode(errors="replace").strip())

    async def leave(self) -> None:
        """End Ray on this instance."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await until_ended(process)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await until_ended(process)

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """None: Ray has its own way to be asked."""
        return ()

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(self._python, "-P", "-m", "ray.scripts.scripts", *words),
            env=self._environment,
            cwd=Path.home(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def _output(self, *argv: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        said, _ = await process.communicate()
        lines = said.decode(errors="replace").split()
        return lines[-1] if lines else ""
