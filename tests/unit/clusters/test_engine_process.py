"""The engine on the notebook's instance: it starts, outlives its kernel, and ends."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from ec2spawner.agent_socket import SOCKET
from ec2spawner.clusters import run_folder
from ec2spawner.clusters.engines import engine_process
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.clusters.run_folder import Record, started_at

STARTS = "print('all is up', flush=True); import time; time.sleep(60)"
FAILS = "print('no such device', flush=True); raise SystemExit(7)"
IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('all is up', flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "ROOT", tmp_path)
    monkeypatch.setenv(SOCKET, "/run/ec2spawner/agent.sock")


def started(program: str, tmp_path: Path) -> Record:
    argv = [sys.executable, "-c", program]
    pid = engine_process.start(argv, os.environ, tmp_path / "log", "all is up")
    return Record(
        "ray", "2.60.0", "127.0.0.1:6379", "secret", pid, started_at(pid) or 0.0, "3.11.0"
    )


def test_an_engine_that_has_started_is_remembered_until_it_ends(tmp_path: Path) -> None:
    record = started(STARTS, tmp_path)
    run_folder.write(record)
    assert run_folder.read() == record
    assert os.getsid(record.pid) == record.pid, "the end of the kernel's session is not its end"

    engine_process.stop(record)

    assert started_at(record.pid) is None
    assert run_folder.read() is None
    engine_process.stop(record)  # nothing is left to stop


def test_an_engine_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_process, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(engine_process, "KILL_SECONDS", 60.0)
    record = started(IGNORES_SIGTERM, tmp_path)
    engine_process.stop(record)
    assert started_at(record.pid) is None


def test_an_engine_that_does_not_start_shows_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no such device"):
        started(FAILS, tmp_path)


def test_another_process_of_the_same_number_is_not_the_engine(tmp_path: Path) -> None:
    record = Record("ray", "2.60.0", "127.0.0.1:6379", "secret", os.getpid(), 1.0, "3.11.0")
    run_folder.write(record)
    assert run_folder.read() is None
    engine_process.stop(record)  # or this test would end here


def test_nobody_but_its_user_reads_what_is_remembered() -> None:
    run_folder.write(Record("ray", "2.60.0", "127.0.0.1:6379", "secret", 1, 1.0, "3.11.0"))
    folder = run_folder.folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / run_folder.RECORD).stat().st_mode) == 0o600


def test_a_folder_that_others_could_read_is_refused() -> None:
    run_folder.folder().chmod(0o755)
    with pytest.raises(ClusterError, match="remove it"):
        run_folder.folder()


def test_instances_of_one_machine_have_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = run_folder.folder()
    monkeypatch.setenv(SOCKET, "/run/another/agent.sock")
    assert run_folder.folder() != first


def test_sockets_of_ray_fit_below_the_folder() -> None:
    name = run_folder.folder_name(100_000, "/run/ec2spawner/agent.sock")
    session = "ray/session_2026-11-25_16-37-02_059881_4194304/sockets/plasma_store"
    assert len(f"/tmp/{name}/{session}") <= 107
