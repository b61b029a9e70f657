"""The demo's hub with a monitor of its event loop, for benches."""

import asyncio
import os
from pathlib import Path

from tests.bench.loop_monitor import LoopMonitor
from tests.harness import CONFIG

load_subconfig(str(CONFIG))  # noqa: F821 - JupyterHub provides it

LoopMonitor(Path(os.environ["BENCH_LOOP_LOG"])).watch(asyncio.get_running_loop())
