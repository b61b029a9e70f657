"""A process that has imported JupyterHub and all of ours, and forks into a hub on order.

Two thirds of a hub's start are imports. A hub from here is a process of its own, with its own
session, environment and log; only its imports were made before. A line of JSON on standard input
orders one, a line on standard output has its process id.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

PRELOADED = (
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
)

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>."""


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a hub that was killed
    print("ready", flush=True)
    while line := sys.stdin.readline():
        order = json.loads(line)
        if not (pid := os.fork()):
            _become_hub(order)
        print(pid, flush=True)


def _become_hub(order: dict[str, Any]) -> NoReturn:
    """Never returns: a hub that ends must not go on to read orders."""
    status = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        from jupyterhub.app import JupyterHub

        sys.argv = ["jupyterhub", *order["arguments"]]
        JupyterHub.launch_instance()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
