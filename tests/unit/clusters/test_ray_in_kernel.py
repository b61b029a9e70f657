"""A kernel is connected to the Ray of its cluster, and outlives it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ec2spawner.clusters import head, run_folder
from ec2spawner.clusters.engines.ray_head import RayHead
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.clusters.run_folder import Record

from .cluster_hub import ClusterHub, agent_of

pytestmark = pytest.mark.slow(seconds=25)

KERNEL = """
import sys
from pathlib import Path

from ec2spawner import cluster
from ec2spawner.clusters import run_folder
from ec2spawner.clusters.engines import engine_process

run_folder.ROOT = Path(sys.argv[1])


def seven(ray):
    return ray.get(ray.remote(lambda: 7).remote(), timeout=120)


first = cluster(1)
ray = first.ray
assert seven(ray) == 7
assert first.ray is ray
engine_process.stop(run_folder.read())  # as another kernel's `%cluster stop`
assert ray.is_initialized(), "this one is not notified"

second = cluster(1)
assert seven(second.ray) == 7
second.stop()
assert not ray.is_initialized(), "Ray would end this process a minute later"
print("done")
"""


def test_it_outlives_each_cluster_and_finds_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(head.SERVICE_URL, "http://127.0.0.1:8888/user/ann/")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Sockets of Ray are below it: their paths have at most 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder,
        agent_of(ClusterHub(), tmp_path, monkeypatch),
    ):
        argv = [sys.executable, "-c", KERNEL, folder]
        said = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=290)
    assert said.stdout.endswith("done\n"), said.stdout + said.stderr


def test_a_ray_of_the_users_own_is_not_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    there = SimpleNamespace(gcs_address="10.0.0.9:6379")
    own = SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: there)
    monkeypatch.setitem(sys.modules, "ray", own)
    record = Record("ray", "2.60.0", "10.0.0.1:6379", "t" * 32, 1, 0.0, "3.11.0")
    with pytest.raises(ClusterError, match=r"10\.0\.0\.9:6379"):
        RayHead().client(record)
    RayHead().disconnect(record)  # which shuts down nothing of theirs
