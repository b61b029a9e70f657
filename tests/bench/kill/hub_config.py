"""The demo's hub that reports its moments and dies at one, with the documented waits made short.

Only times differ from a hub in production, and what a server and a worker run (the stub of
`tests.harness.Embedded`).
"""

import dataclasses
import json
import os
from pathlib import Path

from ec2spawner.core.backoff import Backoff
from ec2spawner.core.runs import attempts
from ec2spawner.hub import startup
from ec2spawner.hub.spawn import cluster_request
from ec2spawner.provisioner.clusters import controller
from ec2spawner.provisioner.lifecycle.heartbeat import Heartbeats
from tests.bench.kill import moments
from tests.harness import CONFIG

load_subconfig(str(CONFIG))  # noqa: F821 - JupyterHub provides it
c = get_config()  # noqa: F821
demo = json.loads(os.environ["EC2SPAWNER_DEMO"])
bench = json.loads(os.environ["BENCH_KILL"])

c.EC2Spawner.hub_name = bench["hub_name"]
cluster_request.COMMAND = ("jupyterhub-singleuser",)
c.EC2Spawner.clusters = {"max_workers": bench["max_workers"]}
c.EC2Spawner.runs = {"at_once": 2}
c.EC2Spawner.profile_list = [
    {"display_name": "Plain", "slug": "plain", "gpu": "T4", "default": True},
    {
        "display_name": "Brief",
        "slug": "brief",
        "gpu": "T4",
        "idle": {"server": bench["idle"], "warn": 1},
    },
]
c.EC2Spawner.boot_timeout = bench["boot_timeout"]
c.EC2Spawner.stop_timeout = bench["stop_timeout"]
c.EC2Spawner.http_timeout = bench["http_timeout"]
c.ConfigurableHTTPProxy.should_start = False

# What no option makes so short.
controller.PAUSE = attempts.PAUSE = Backoff(**bench["pause"])
settings_of = startup.settings_of


def hurried(options):
    return dataclasses.replace(settings_of(options), **bench["settings"])


startup.settings_of = hurried

take_in = Heartbeats.take_in


def held_for_less(self, lease, said):
    return take_in(self, lease, said.model_copy(update={"hold_seconds": bench["hold"]}))


Heartbeats.take_in = held_for_less

moments.watch(Path(demo["data_dir"]))
