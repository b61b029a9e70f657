"""A process that has imported the notebook server and waits for a lease to become it.

It runs as the notebook user from boot on, so it starts without secrets and never shares memory
with a process that held one. When a lease is granted, the agent sends environment and arguments
over an inherited socket, and the process becomes the server without a fork: a few tenths of a
second instead of three seconds for a cold start.

Run as `python -m ec2spawner.agent.notebook_server.prewarmed FD`. If the result would differ from a
new process, it executes the command instead (`_why_cold_start`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import site
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ... import iri_grammar

SERVER = "jupyterhub-singleuser"

PRELOADED = (
    "jupyter_server.serverapp",
    "jupyter_server.extension.application",
    "jupyter_server_terminals",
    "jupyterlab.labapp",
    "notebook.app",
    "jupyter_lsp",
    "jupyterhub.services.auth",
    "jupyterhub.log",
    "ec2spawner.notebook.extension",
)
"""What the server imports, except `jupyterhub.singleuser` and `jupyterlab.labhubapp`, which read
their environment when they are imported."""

READS_ENVIRONMENT = "jupyterhub.services.auth"
"""One of these, which reads part of its environment when it is imported: it is imported again,
which takes no time once its dependencies are loaded."""

READ_AT_IMPORT = (
    "PYTHON",
    "LD_",
    "JUPYTER_",
    "IPYTHON",
    "XDG_",
    "JUPYTERHUB_SINGLEUSER_",
)
"""Prefixes of variables that only a new process applies completely."""


def main() -> None:
    """Preload, report that, wait for an order on the inherited socket, then serve."""
    with socket.socket(fileno=int(sys.argv[1])) as link:
        preload()
        with contextlib.suppress(OSError):
            link.sendall(b"warm\n")
        order = b"".join(iter(lambda: link.recv(65536), b""))
    if not order:
        # The agent has exited.
        sys.exit(0)
    start = json.loads(order)
    become(start["argv"], start["environment"])


def preload() -> None:
    """Import what the server needs, skipping what is not installed.

    Without garbage collection the imports take a fifth less time. Freezing excludes the imported
    objects from all later collections.
    """
    iri_grammar.defer()
    gc.disable()
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except Exception as error:
            _log(f"not preloaded: {name}: {error!r}")
    gc.freeze()
    gc.enable()


def become(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Turn into the notebook server, or execute its command. Does not return."""
    program = find_program(argv[0], environment)
    reason = _why_cold_start(program, environment)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(environment["HOME"])
    if reason:
        _log(f"the notebook starts as a new process: {reason}")
        os.execve(program, [program, *argv[1:]], dict(environment))
    sys.argv = [program, *argv[1:]]
    _add_user_site()
    sys.modules.pop(READS_ENVIRONMENT, None)
    from jupyterhub.singleuser import main as serve

    sys.exit(serve())


def find_program(command: str, environment: Mapping[str, str]) -> str:
    """The command's path: on the server's PATH, or else beside this interpreter."""
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    return found or str(Path(sys.executable).parent / command)


def _why_cold_start(program: str, environment: Mapping[str, str]) -> str:
    """Why becoming the server would differ from a new process; empty if it would not."""
    path = Path(program)
    if path.name != SERVER:
        return f"{path.name} is not {SERVER}"
    if path.resolve().parent != Path(sys.executable).absolute().parent.resolve():
        return f"{program} belongs to another environment"
    for name in sorted(set(environment) | set(os.environ)):
        matters = name == "HOME" or name.startswith(READ_AT_IMPORT)
        if matters and environment.get(name) != os.environ.get(name):
            return f"{name} is read at the start of a process"
    missing = [name for name in PRELOADED[:2] if name not in sys.modules]
    if missing:
        return f"{missing[0]} could not be imported"
    shadowed = _shadowed_by_user_site()
    if shadowed:
        return f"the user has installed another {shadowed}"
    return ""


def _shadowed_by_user_site() -> str:
    """A package in the user's site directory whose system-wide version was already imported."""
    if not site.ENABLE_USER_SITE:
        return ""
    try:
        found = Path(site.getusersitepackages()).iterdir()
        names = {entry.name.split(".", 1)[0] for entry in found}
    except OSError:
        return ""
    imported = {
        name
        for name in names
        if (module := sys.modules.get(name)) and not _is_of_user(module.__dict__.get("__file__"))
    }
    return min(imported, default="")


def _is_of_user(file: str | None) -> bool:
    return bool(file) and str(file).startswith(site.getusersitepackages())


def _add_user_site() -> None:
    """Put the user's packages before the system's, as in a new process.

    Python adds them at startup, when the home was not mounted yet.
    """
    if not site.ENABLE_USER_SITE:
        return
    user_site = site.getusersitepackages()
    if not Path(user_site).is_dir() or user_site in sys.path:
        return
    before = list(sys.path)
    site.addsitedir(user_site)
    added = [path for path in sys.path if path not in before]
    system = [path for path in before if path in site.getsitepackages()]
    place = before.index(system[0]) if system else len(before)
    sys.path[:] = [*before[:place], *added, *before[place:]]


def _log(message: str) -> None:
    """Write one line to the notebook's log."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
