"""A process that has imported a program, and forks into it on order.

Two thirds of the start of a hub, and of an embedded EC2, are imports, and nearly all of that of a
notebook server, and of a short command. A program from here is a process of its own, with its own
session, environment, output and exit status; only its imports were made before. A line of JSON on
standard input orders one, a line on standard output has its process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
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
        "ec2spawner.check.command",
        "ec2spawner.embedded.demo.authenticator",
        "ec2spawner.first_light.command",
        "ec2spawner.hub.startup",
        "ec2spawner.prices.command",
        "ec2spawner.reap.command",
        "ec2spawner.report.command",
        "ec2spawner.spawner",
        "jupyterhub.app",
        "jupyterhub.apihandlers",
        "jupyterhub.authenticators.shared",
        "jupyterhub.handlers",
        "oauthenticator",
        "oauthenticator.openshift",
        "ruamel.yaml",
        "sqlalchemy.dialects.sqlite",
        "tests.harness",
    ),
    "embedded": (
        "ec2spawner.embedded.__main__",
        "ec2spawner.embedded.server",
        "moto.cloudwatch.models",
        "moto.ec2.responses",
        "moto.events.models",
        "moto.iam.responses",
        "moto.kms.models",
        "moto.s3.models",
        "moto.server",
        "moto.sts.models",
    ),
    "jupyter_server": (
        "ec2spawner.notebook",
        "ipykernel.kernelspec",
        "jupyter_lsp",
        "jupyter_server.serverapp",
        "jupyter_server_terminals",
        "jupyterlab.labapp",
        "notebook.app",
    ),
}
"""By program. Not one process for both: moto changes what botocore does."""

PROGRAMS = {
    "jupyterhub": "from jupyterhub.app import main; main()",
    "embedded": "from ec2spawner.embedded.__main__ import main; raise SystemExit(main())",
    "jupyter_server": "from jupyter_server.serverapp import main; main()",
}
"""What each runs, unless the order says otherwise: as after `python -c`."""

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>."""


class Nursery:
    """The process, from outside."""

    def __init__(self, program: str, log: Path) -> None:
        self._statuses = log.with_suffix("")
        self._statuses.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.nursery", program, str(self._statuses)],
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
        program: str | None = None,
    ) -> ForkedProcess:
        """The program in a process of its own; its output is appended to these files.

        `program`: Python in place of the nursery's own.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(directory),
            "output": str(output),
            "errors": str(errors),
            "program": program,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the nursery has ended; see its log"
        return ForkedProcess(int(line), self._statuses, self._process)

    def stop(self) -> None:
        """Everything that was forked from it ends with it."""
        self._process.kill()
        self._process.communicate()


class Nurseries:
    """One for each program, from its first use on."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, Nursery] = {}

    def of(self, program: str) -> Nursery:
        if program not in self._started:
            log = self._directory / f"nursery-of-{program}.log"
            self._started[program] = Nursery(program, log)
        return self._started[program]

    def stop(self) -> None:
        for each in self._started.values():
            each.stop()


shared: Nurseries | None = None
"""Where tests have their hubs, embedded EC2s and notebook servers from. Without, as in the benches,
each is a Python that has to import everything first."""


class ForkedProcess:
    """As much of `asyncio.subprocess.Process` as tests need, for one that is not our child."""

    def __init__(self, pid: int, statuses: Path, nursery: subprocess.Popen[str]) -> None:
        self.pid = pid
        self._status = statuses / str(pid)
        self._nursery = nursery
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """As of a child: negative is the signal that ended it."""
        if self._returncode is None:
            self._returncode = self._found_status()
        return self._returncode

    def _found_status(self) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            text = self._status.read_text()
            return int(text) if text.endswith("\n") else None
        return None if self._nursery.poll() is None else -signal.SIGKILL

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        while (status := self.returncode) is None:
            await asyncio.sleep(0.02)
        return status


# --- inside it ---


def main() -> None:
    name, statuses = sys.argv[1], Path(sys.argv[2])
    if name != "embedded":
        from ec2spawner import iri_grammar

        iri_grammar.defer()
    # Read once for all children: JupyterHub, for one, reads all packages' entry points for each of
    # its plugins, a third of a second.
    entry_points = importlib.metadata.entry_points()
    vars(importlib.metadata)["entry_points"] = entry_points.select
    for module in PRELOADED[name]:
        importlib.import_module(module)
    if name == "jupyterhub":
        _prepare_hub()
    if name == "embedded":
        _prepare_embedded()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, lambda *_: _note_ends(statuses))
    while line := sys.stdin.readline():
        order = json.loads(line)
        # Until the status of an earlier process with this id is gone, nobody may learn the id, and
        # no status may be noted.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if not (pid := os.fork()):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            _become(order["program"] or PROGRAMS[name], order)
        (statuses / str(pid)).unlink(missing_ok=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        print(pid, flush=True)


def _prepare_hub() -> None:
    """Do what takes each hub half a second, and gives the same each time."""
    from botocore import loaders
    from botocore import session as botocore_session
    from sqlalchemy.orm import configure_mappers

    configure_mappers()
    loader = loaders.Loader()
    vars(botocore_session)["create_loader"] = lambda search_path: loader
    for service in ("ec2", "pricing", "service-quotas", "ssm"):
        loader.load_service_model(service, "service-2")


def _prepare_embedded() -> None:
    """Read the models of the services that every hub calls."""
    from moto.core.utils import get_service_model

    for service in ("ec2", "iam", "sts"):
        get_service_model(service)


def _note_ends(statuses: Path) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            (statuses / str(pid)).write_text(f"{os.waitstatus_to_exitcode(status)}\n")


def _become(program: str, order: dict[str, Any]) -> NoReturn:
    """Never returns: a program that ends must not read further orders."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(order["output"], append, 0o600), 1)
    os.dup2(os.open(order["errors"], append, 0o600), 2)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.path[0] = ""  # as of `python -c`, and so its first argument
    sys.argv = ["-c", *order["arguments"]]
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    sys.exit()


if __name__ == "__main__":
    main()
