"""What of Ray's inside the clusters lean on: a release may change it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import ray

from ec2spawner.cluster_worker import ray_node
from ec2spawner.clusters.engines import ray_head
from ec2spawner.clusters.engines.ray_head import RayHead

SCRIPTS = Path(ray.__file__).parent / "scripts/scripts.py"


def test_ray_prints_that_a_node_runs() -> None:
    assert ray_head.STARTED == ray_node.STARTED
    assert f'"{ray_head.STARTED}."' in SCRIPTS.read_text()


def test_ray_reads_its_token_again_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    core = import_module("ray._raylet")
    before = core.get_authentication_mode()
    monkeypatch.setenv(ray_head.TOKEN_MODE, "token")
    ray_head._read_environment_again()
    assert core.get_authentication_mode() == core.AuthenticationMode.TOKEN
    monkeypatch.delenv(ray_head.TOKEN_MODE)
    ray_head._read_environment_again()
    assert core.get_authentication_mode() == before


def test_draining_on_sigterm_can_be_turned_off() -> None:
    constants = Path(ray.__file__).parent / "_private/ray_constants.py"
    assert "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S" in constants.read_text()


def test_a_kernel_can_be_made_to_wait_for_its_head() -> None:
    core = Path(import_module("ray._raylet").__file__ or "")
    assert ray_head.RECONNECT.encode() in core.read_bytes()


def test_nodes_are_drained_and_started_with_these_options() -> None:
    for command, options in (
        ("start", ("--head", "--address", "--node-ip-address", "--block", "--temp-dir")),
        ("drain-node", ("--node-id", "--reason", "--deadline-remaining-seconds")),
    ):
        argv = [sys.executable, "-m", "ray.scripts.scripts", command, "--help"]
        said = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert all(option in said.stdout + said.stderr for option in options), said


def test_the_version_is_that_of_the_kernel() -> None:
    assert RayHead().version() == ray.__version__
