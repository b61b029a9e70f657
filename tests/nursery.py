"""A process that has imported a program, and forks into it on order.

Two thirds of the start of a hub, and of an embedded EC2, are imports. A program from here is a
process of its own, with its own session, environment and output; only its imports were made
before. A line of JSON on standard input orders one, a line on standard output has its process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

TREE = Path(__file__).resolve().parents[1]

PRELOADED = {
    "jupyterhub": (
        "alembic.command",
        "boto3",
        "botocore.config",
        "botocore.parsers",
        "ec2spawner.aws.ec2",
        "ec2spawner.hub.startup",
        "ec2spawner.spawner",
        "jupyterhub.app",
        "jupyterhub.apihandlers",
        "jupyterhub.handlers",
        "sqlalchemy.dialects.sqlite",
        "tests.harness",
    ),
    "embedded": (
        "ec2spawner.embedded.__main__",
        "ec2spawner.embedded.server",
        "moto.ec2.responses",
        "moto.server",
    ),
}
"""By program. Not one process for both: moto changes what botocore does."""

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>."""


class Nursery:
    """The process, from outside."""

    def __init__(self, program: str, log: Path) -> None:
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.nursery", program],
                cwd=TREE,
                env=os.environ | {"PYTHONPATH": str(TREE)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
            )

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        output: Path,
        errors: Path,
    ) -> ForkedProcess:
        """The program in a process of its own; its output is appended to these files."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(directory),
            "output": str(output),
            "errors": str(errors),
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the nursery has ended; see its log"
        return ForkedProcess(int(line))

    def stop(self) -> None:
        """Everything that was forked from it ends with it."""
        self._process.kill()
        self._process.communicate()


class ForkedProcess:
    """As much of `asyncio.subprocess.Process` as tests need, for one that is not our child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._end()
        else:
            asyncio.get_running_loop().add_reader(self._descriptor, self._note_end)

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        await asyncio.shield(self._ended)
        assert self.returncode is not None
        return self.returncode

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._end()

    def _end(self) -> None:
        self.returncode = -1  # of a process that is not our child, more is not known
        self._ended.set_result(None)


# --- inside it ---


def main() -> None:
    program = sys.argv[1]
    if program == "jupyterhub":
        from ec2spawner import iri_grammar

        iri_grammar.defer()
    for name in PRELOADED[program]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forked processes are not waited for
    while line := sys.stdin.readline():
        order = json.loads(line)
        if not (pid := os.fork()):
            _become(program, order)
        print(pid, flush=True)


def _become(program: str, order: dict[str, Any]) -> NoReturn:
    """Never returns: a program that ends must not read further orders."""
    status = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(order["output"], append, 0o600), 1)
        os.dup2(os.open(order["errors"], append, 0o600), 2)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.path[0] = ""  # as of `python -m`
        sys.argv = [program, *order["arguments"]]
        if program == "jupyterhub":
            from jupyterhub.app import JupyterHub

            JupyterHub.launch_instance()
            status = 0
        else:
            from ec2spawner.embedded.__main__ import main as embedded

            status = embedded()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
