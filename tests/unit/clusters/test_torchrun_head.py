"""The rendezvous on the notebook's instance, with a stand-in for torch."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ec2spawner.clusters import run_folder
from ec2spawner.clusters.cluster import Cluster
from ec2spawner.clusters.engines import engine_process
from ec2spawner.clusters.engines.ray_head import RayHead
from ec2spawner.clusters.engines.torchrun_head import TorchrunHead
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.clusters.run_folder import Record
from ec2spawner.wire import ClusterStatus
from tests.unit.clusters.torchrun_workers import FAKE_TORCH

RECORD = Record("torchrun", "2.14.1", "10.0.0.1:29400", "t" * 32, 1, 0.0, "3.11.0")


def test_the_store_listens_at_the_instances_own_address_until_it_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = f"{FAKE_TORCH}{os.pathsep}{Path(__file__).parents[3]}"
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(FAKE_TORCH))
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    record = TorchrunHead().start("127.0.0.2")
    try:
        assert (record.engine, record.version) == ("torchrun", "2.14.1")
        host, _, port = record.address.rpartition(":")
        assert host == "127.0.0.2"
        socket.create_connection((host, int(port)), timeout=5).close()
    finally:
        engine_process.stop(record)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_a_kernel_without_torch_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(ClusterError, match="has no PyTorch"):
        TorchrunHead().version()


def test_each_engine_says_what_the_other_has() -> None:
    torchrun = Cluster(TorchrunHead(), RECORD, ClusterStatus(wanted=1))
    with pytest.raises(ClusterError, match=r"one of torchrun: cluster.run\('train.py'\)"):
        _ = torchrun.ray
    ray = Cluster(RayHead(), RECORD, ClusterStatus(wanted=1))
    with pytest.raises(ClusterError, match=r"one of ray: use cluster\.ray"):
        ray.run("train.py")
    with pytest.raises(ClusterError, match=r"one of ray: use cluster\.ray"):
        _ = ray.last_run
