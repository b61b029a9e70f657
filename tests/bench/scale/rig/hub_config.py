"""The demo's hub for hundreds of users: watched, behind a proxy that outlives it.

What differs from `configs/large` is what the rig needs: SQLite instead of PostgreSQL, and the
port that all simulated notebook servers share.
"""

import asyncio
import gc
import json
import os
import signal
from pathlib import Path

from tests.bench.loop_monitor import LoopMonitor
from tests.harness import CONFIG

load_subconfig(str(CONFIG))  # noqa: F821 - JupyterHub provides it
c = get_config()  # noqa: F821
bench = json.loads(os.environ["BENCH_SCALE"])

c.EC2Spawner.port = bench["notebook_port"]
if "endpoint_url" in bench:
    c.EC2Spawner.endpoint_url = bench["endpoint_url"]
    c.EC2Spawner.identity_certificates = [bench["certificate"]]
if "warm_pool" in bench:
    c.EC2Spawner.warm_pool = bench["warm_pool"]
if "runs" in bench:
    c.EC2Spawner.runs = bench["runs"]
c.JupyterHub.allow_named_servers = bench.get("named_servers", False)
c.JupyterHub.concurrent_spawn_limit = 1000
c.JupyterHub.activity_resolution = 300  # as in configs/large
c.ConfigurableHTTPProxy.should_start = False

loop = asyncio.get_running_loop()
LoopMonitor(Path(os.environ["BENCH_LOOP_LOG"])).watch(loop)
# Garbage is no memory that a server needs: it is collected before memory is measured.
loop.add_signal_handler(signal.SIGUSR2, gc.collect)
