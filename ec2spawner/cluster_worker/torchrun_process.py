"""One torchrun on this instance, with the script that it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final, Literal

import psutil

from ..process_end import processes_below, until_ended
from ..wire import RunOrder, RunStatus
from .log_tail import LogTail

StopReason = Literal["cancelled", "drained"]

RENDEZVOUS: Final = {
    "is_host": "false",  # the notebook's instance is
    "join_timeout": "86400",  # seconds: a run waits for workers as long as it has too few
    "last_call_timeout": "15",  # seconds to wait for the others, of 30 s
    "keep_alive_interval": "3",  # seconds; after three in silence a node is gone, 15 s by default
}

ENVIRONMENT: Final = {
    # Else the nodes look for the first node's own store where it was before an interruption.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    "PYTHONUNBUFFERED": "1",
}

READ_SECONDS: Final = 1.0
"""For the last lines of a run; a process that outlived it could hold its output open."""

GPUS: Final = "nvidia[0-9]*"
"""The devices of an instance's GPUs, in `/dev`."""


class TorchrunProcess:
    """Runs from `start` until it ends by itself, or by `end`."""

    def __init__(self, run_id: str, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._run_id = run_id
        self._process = process
        self._folder = folder
        self._stopped: Literal["", "cancelled", "drained"] = ""
        self.reading: asyncio.Task[None] | None = None

    @property
    def status(self) -> RunStatus:
        """As it is now."""
        return RunStatus(
            run_id=self._run_id, exit_code=self._process.returncode, stopped=self._stopped
        )

    async def end(self, reason: StopReason, seconds: float) -> None:
        """SIGTERM to torchrun, which hands it to the script and leaves the rendezvous as it is for
        the other nodes; after so many seconds SIGKILL to all. Never raises."""
        process = self._process
        if process.returncode is not None:
            return
        self._stopped = self._stopped or reason
        below = processes_below(process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await until_ended(process)
        # The script's processes have sessions of their own, so that no group has them all.
        for each in {*below, *processes_below(process.pid)}:
            with contextlib.suppress(psutil.Error):
                each.kill()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await until_ended(process)

    async def remove(self) -> None:
        """Read what is left of the output and remove the working directory, once it has ended."""
        if self.reading is not None:
            await asyncio.wait({self.reading}, timeout=READ_SECONDS)
            self.reading.cancel()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


async def start(
    python: str, order: RunOrder, address: str, host: str, tail: LogTail
) -> TorchrunProcess:
    """Start torchrun with the script in a new working directory. Raises `OSError`."""
    folder = Path(tempfile.mkdtemp(prefix="torchrun-"))
    try:
        (folder / order.file_name).write_text(order.script, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *command(python, order, address, host),
            env=os.environ | order.environment | ENVIRONMENT,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, UnicodeError) as error:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise OSError(str(error)) from error
    run = TorchrunProcess(order.run_id, process, folder)
    assert process.stdout is not None
    run.reading = asyncio.create_task(tail.read(process.stdout))
    return run


def command(python: str, order: RunOrder, address: str, host: str) -> list[str]:
    """The words of torchrun for an order."""
    settings = ",".join(f"{name}={value}" for name, value in RENDEZVOUS.items())
    return [
        *(python, "-P", "-m", "torch.distributed.run"),
        f"--nnodes={order.min_nodes}:{order.max_nodes}",
        f"--nproc-per-node={order.nproc_per_node or _processes_per_node()}",
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={address}", f"--rdzv-id={order.run_id}"),
        *(f"--rdzv-conf={settings}", f"--local-addr={host}"),
        f"--max-restarts={order.max_restarts}",
        *(f"./{order.file_name}", *order.args),
    ]


def _processes_per_node() -> str:
    return "gpu" if any(Path("/dev").glob(GPUS)) else "1"
