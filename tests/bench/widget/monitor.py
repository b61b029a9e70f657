"""A Jupyter Server extension of the bench `widget`: the loop is watched, the threads are named.

Every server of the bench has it, the one without any widget too.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from tests.bench import loop_monitor

loop_monitor.SAMPLE_AFTER = 0.004
loop_monitor.SAMPLE_INTERVAL = 0.002
"""The goal is 10 ms: turns are looked into well before that."""


class ThreadsHandler(JupyterHandler):
    """Numbers of the threads by their names, so that their CPU time is read from outside."""

    @web.authenticated
    def get(self) -> None:
        self.finish({each.name: each.native_id for each in threading.enumerate()})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "tests.bench.widget.monitor"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    if os.environ.get("BENCH_WIDGET") == "ec2spawner":
        from ec2spawner.telemetry import namespaces

        # In a container, a process without an open NVIDIA device does not count as using a GPU.
        # A kernel has a pipe for its standard input.
        namespaces.DEVICES = "pipe:["
    route = url_path_join(serverapp.base_url, "bench/threads")
    serverapp.web_app.add_handlers(".*$", [(route, ThreadsHandler)])
    serverapp.io_loop.add_callback(_watch)


def _watch() -> None:
    log = Path(os.environ["BENCH_LOOP_LOG"])
    loop_monitor.LoopMonitor(log).watch(asyncio.get_running_loop())
