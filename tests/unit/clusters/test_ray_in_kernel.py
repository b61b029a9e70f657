"""A kernel is connected to the Ray of its cluster, and outlives it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ec2spawner.clusters import head, run_folder
from ec2spawner.clusters.cluster import Cluster
from ec2spawner.clusters.engines import ray_head
from ec2spawner.clusters.engines.ray_head import RayHead
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.clusters.run_folder import Record
from ec2spawner.wire import ClusterStatus

from .cluster_hub import ClusterHub, agent_of

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


@pytest.mark.slow(seconds=25)
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


class FakeRay:
    """The module `ray` as a kernel uses it: one connection, to a head with another name."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._there = ""

    def is_initialized(self) -> bool:
        return bool(self._there)

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(gcs_address=self._there)

    def read_environment(self) -> None:
        self.calls.append("environment")

    def init(self, address: str, **_: object) -> None:
        token = Path(os.environ[ray_head.TOKEN_PATH]).read_text()
        self.calls.append(f"init {address} with {token}")
        self._there = f"node-of-{address}"

    def shutdown(self) -> None:
        self.calls.append("shutdown")
        self._there = ""


def record(address: str, token: str) -> Record:
    return Record("ray", "2.60.0", address, token, 1, 0.0, "3.11.0")


def test_a_kernel_leaves_the_cluster_that_ended_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = FakeRay()
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(ray_head, "_connections", {})
    monkeypatch.setattr(ray_head, "_read_environment_again", ray.read_environment)
    monkeypatch.setitem(sys.modules, "ray", ray)
    first, second = record("10.0.0.1:6379", "one"), record("10.0.0.1:6380", "two")
    engine = RayHead()
    found = Cluster(engine, first, ClusterStatus(wanted=1))
    assert found.ray is ray
    assert found.ray is ray
    assert ray.calls == ["environment", "init 10.0.0.1:6379 with one"]
    assert os.environ[ray_head.RECONNECT] == str(ray_head.RECONNECT_SECONDS), "it outlives its head"

    ray.calls.clear()
    engine.client(second)
    assert ray.calls == ["shutdown", "environment", "init 10.0.0.1:6380 with two"]
    engine.disconnect(first)
    assert ray.is_initialized(), "to the second"
    engine.disconnect(second)
    assert not ray.is_initialized(), "Ray would end this process a minute later"


def test_a_ray_of_the_users_own_is_not_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    there = SimpleNamespace(gcs_address="10.0.0.9:6379")
    own = SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: there)
    monkeypatch.setitem(sys.modules, "ray", own)
    ours = record("10.0.0.1:6379", "t" * 32)
    with pytest.raises(ClusterError, match=r"10\.0\.0\.9:6379"):
        RayHead().client(ours)
    RayHead().disconnect(ours)  # which shuts down nothing of theirs
