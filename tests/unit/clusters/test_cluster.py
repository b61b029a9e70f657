"""A cluster as a kernel starts, changes and ends it, on a hub whose answers the test decides."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import ec2spawner
from ec2spawner.clusters import cluster as cluster_module
from ec2spawner.clusters import head, run_folder
from ec2spawner.clusters.cluster import Cluster, cluster, stop
from ec2spawner.clusters.engines.ray_head import RayHead
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.clusters.run_folder import Record, started_at
from ec2spawner.wire import ClusterStatus

from .cluster_hub import ClusterHub, agent_of
from .torchrun_workers import FAKE_TORCH

ROOT = Path(__file__).parents[3]
TOKEN = "t" * 32


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterHub]:
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    monkeypatch.setattr(cluster_module, "POLL_SECONDS", 0.01)
    monkeypatch.setenv(head.SERVICE_URL, "http://127.0.0.1:8888/user/ann/")
    made = ClusterHub()
    with agent_of(made, tmp_path, monkeypatch):
        yield made


@pytest.fixture
def engine(hub: ClusterHub) -> Iterator[Record]:
    """One that runs here; any process is as good as Ray's."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        record = Record(
            engine="ray",
            version=metadata.version("ray"),
            address="127.0.0.1:6379",
            token=TOKEN,
            pid=process.pid,
            started=started_at(process.pid) or 0.0,
            python_version=platform.python_version(),
        )
        run_folder.write(record)
        yield record
        process.kill()


def python_of(folder: Path, python: str, ray: str, *, ray_at_home: str = "") -> Path:
    """One with these versions; `ray_at_home` is found only where it sees the user's packages."""
    path = folder / "bin/python3"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"""#!/bin/sh
case "$PYTHONNOUSERSITE" in
  "") echo '["{python}", "{ray_at_home or ray}"]' ;;
  *) echo '["{python}", "{ray}"]' ;;
esac
"""
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def kernel_in_home(tmp_path: Path, engine: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel whose Python its user has installed. Of those on the PATH, only the second one of
    the image is as that."""
    versions = platform.python_version(), engine.version
    own = python_of(tmp_path / "home", *versions)
    first = python_of(tmp_path / "image", "3.9.1", "2.52.0")
    second = python_of(tmp_path / "image/other", *versions)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", ":".join(str(each.parent) for each in (own, first, second)))
    monkeypatch.setattr(sys, "executable", str(own))
    monkeypatch.setattr(head, "image_python", lambda: "")


@pytest.fixture
def torch(hub: ClusterHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets this process, and those that it starts, import a stand-in for PyTorch."""
    monkeypatch.setenv("PYTHONPATH", f"{FAKE_TORCH}{os.pathsep}{ROOT}")
    monkeypatch.syspath_prepend(str(FAKE_TORCH))
    yield
    if (left := run_folder.read()) is not None:  # of a test that has failed
        head.end(left)


@pytest.mark.usefixtures("torch")
def test_a_new_engine_listens_for_its_workers_until_the_cluster_ends(
    hub: ClusterHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.has_home = True
    with ec2spawner.cluster(2, engine="torchrun"):
        assert "Starting Torchrun 2.14.1 on this machine" in capsys.readouterr().out
        [join] = hub.joins
        record = run_folder.read()
        assert record is not None
        assert (join.engine, join.address, join.token) == ("torchrun", record.address, record.token)
        host, _, port = join.address.rpartition(":")
        assert host == "127.0.0.1"
        socket.create_connection((host, int(port)), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.usefixtures("torch")
def test_a_refused_start_leaves_no_new_engine(
    hub: ClusterHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.has_home, hub.refusal = True, "A cluster has at most 1 worker on this hub"
    with pytest.raises(ClusterError, match="at most 1 worker"):
        cluster(2, engine="torchrun")
    assert "Starting Torchrun" in capsys.readouterr().out
    assert run_folder.read() is None


def test_an_engine_that_runs_here_is_joined(hub: ClusterHub, engine: Record) -> None:
    found = cluster(2, "a10g")
    assert hub.actions == ["price", "start"]
    [join] = hub.joins
    assert (join.address, join.token, join.engine_version) == (
        engine.address,
        TOKEN,
        engine.version,
    )
    assert len(found.workers) == 2
    assert found.price is not None
    assert found.price.usd_per_hour == 1.0


@pytest.mark.usefixtures("kernel_in_home")
def test_workers_that_could_not_join_are_not_paid_for(hub: ClusterHub, engine: Record) -> None:
    with pytest.raises(ClusterError) as refused:
        cluster(2, "a10g")
    said = str(refused.value)
    assert f"Python {platform.python_version()} with ray {engine.version}" in said
    assert "image/bin/python3 is Python 3.9.1 with ray 2.52.0" in said
    assert "No worker was started" in said
    assert "home/bin" not in said
    assert hub.actions == ["price"]


def test_what_only_the_home_has_is_not_on_workers(
    hub: ClusterHub, engine: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `pip install --user`."""
    version = platform.python_version()
    kernel = python_of(tmp_path / "image", version, "", ray_at_home=engine.version)
    monkeypatch.setattr(sys, "executable", str(kernel))
    monkeypatch.setenv("PATH", str(kernel.parent))
    with pytest.raises(ClusterError, match=f"is Python {version} without ray"):
        cluster(2)
    hub.has_home = True
    assert len(cluster(2).workers) == 2


@pytest.mark.usefixtures("kernel_in_home")
def test_workers_with_the_home_have_its_python(hub: ClusterHub, engine: Record) -> None:
    hub.has_home = True
    cluster(2, "a10g")
    assert hub.joins[0].python == sys.executable


@pytest.mark.parametrize("changed", [{"version": "2.52.0"}, {"python_version": "3.9.1"}])
def test_an_engine_of_other_versions_is_ended_unless_it_has_workers(
    hub: ClusterHub, engine: Record, changed: dict[str, Any]
) -> None:
    other = replace(engine, **changed)
    run_folder.write(other)
    with pytest.raises(ClusterError, match="%cluster stop"):
        head.running(RayHead(), ClusterStatus(wanted=1))
    assert run_folder.read() == other
    assert head.running(RayHead(), ClusterStatus()) is None
    assert started_at(other.pid) is None


def test_a_refused_start_leaves_an_engine_that_was_there(hub: ClusterHub, engine: Record) -> None:
    hub.refusal = "A cluster has at most 1 worker on this hub"
    with pytest.raises(ClusterError, match="at most 1 worker"):
        cluster(2)
    assert run_folder.read() == engine


@pytest.mark.parametrize(("n", "least"), [(2, 3), (2, -1), (0, None)])
def test_numbers_that_make_no_sense_are_refused_before_all_else(
    hub: ClusterHub, n: int, least: int | None
) -> None:
    with pytest.raises(ClusterError):
        cluster(n, min=least)
    assert hub.asked == []


def test_more_workers_are_priced_before_they_are_bought(
    hub: ClusterHub, engine: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    found = cluster(1)
    capsys.readouterr()
    found.scale(4)
    assert hub.actions[-2:] == ["price", "scale"]
    assert "4 workers (a10g): about $2.00 per hour" in capsys.readouterr().out
    found.scale(1)
    assert hub.actions[-2:] == ["scale", "scale"]


def test_a_start_of_which_nothing_is_known_leaves_the_engine_for_its_workers(
    hub: ClusterHub, engine: Record
) -> None:
    hub.silent_to = "start"
    with pytest.raises(ClusterError, match="not known whether"):
        cluster(2)
    assert run_folder.read() == engine
    hub.silent_to = ""
    assert len(cluster().workers) == 2


def test_a_silent_hub_is_waited_for(
    hub: ClusterHub, engine: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.silent = 3
    assert len(cluster(2).workers) == 2
    assert capsys.readouterr().out.count("does not answer now") == 1


def test_too_few_workers_say_what_can_be_done(hub: ClusterHub, engine: Record) -> None:
    hub.joining = 1
    with pytest.raises(ClusterError) as late:
        cluster(3, timeout=0.1)
    assert "1 of 3 workers" in str(late.value)
    assert "cluster = ec2spawner.cluster()" in str(late.value)
    assert len(cluster().workers) == 3


def test_what_the_hub_has_given_up_names_the_reason_and_the_way_out(
    hub: ClusterHub, engine: Record
) -> None:
    hub.joining, hub.more = 0, {"has_given_up": True, "problem": "the image has no Ray"}
    with pytest.raises(ClusterError) as given_up:
        cluster(3)
    assert "the image has no Ray" in str(given_up.value)
    assert "%cluster scale 3" in str(given_up.value)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT does in this process what it does in a kernel: a background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_cell_says_that_workers_start(
    hub: ClusterHub, engine: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        hub.on_status = lambda: None
        os.kill(os.getpid(), signal.SIGINT)

    hub.joining, hub.on_status = 0, interrupt
    with pytest.raises(KeyboardInterrupt):
        cluster(3, timeout=60)
    assert "%cluster stop" in capsys.readouterr().out


def test_a_cluster_that_is_over_says_why_and_how_to_have_it_again(hub: ClusterHub) -> None:
    hub.more = {
        "problem": "Nothing had run on the cluster for 30 minutes",
        "last_workers": 4,
        "last_profile": "a10g",
        "last_engine": "torchrun",
    }
    with pytest.raises(ClusterError) as none:
        cluster()
    assert "Nothing had run" in str(none.value)
    assert "ec2spawner.cluster(4, 'a10g', engine='torchrun')" in str(none.value)


def test_the_end_is_that_of_workers_and_engine(hub: ClusterHub, engine: Record) -> None:
    with cluster(2) as found:
        assert isinstance(found, Cluster)
    assert hub.actions[-1] == "stop"
    assert started_at(engine.pid) is None
    stop()
    assert hub.actions[-1] == "stop"
