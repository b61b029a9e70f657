"""No process of a run is left when its end is reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from ec2spawner import process_end
from ec2spawner.process_end import kill_session, processes_below, processes_of_session
from tests.unit.run_executor.executor_process import runs

pytestmark = pytest.mark.slow(seconds=5)

STARTS_MORE = """
import os, subprocess, time
os.fork()
for number in range(200):
    subprocess.Popen(["sleep", "600"])
    time.sleep(0.005)
    if number == 5:
        print("more are started", flush=True)
time.sleep(600)
"""

LEAVES_THE_SESSION = """
import subprocess, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def long_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a scan alone may take seconds."""
    monkeypatch.setattr(process_end, "MAX_KILL_SECONDS", 120.0)


@contextmanager
def session(source: str) -> Iterator[int]:
    """Its leader's id, once the leader has printed a line."""
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        yield leader.pid


def test_a_session_that_starts_more_is_gone_at_once() -> None:
    with session(STARTS_MORE) as leader:
        kill_session(leader)
        assert [each for each in processes_of_session(leader) if runs(each.pid)] == []


def test_what_has_left_the_session_ends_with_it() -> None:
    with session(LEAVES_THE_SESSION) as leader:
        (below,) = processes_below(leader)
        assert os.getsid(below.pid) != leader
        kill_session(leader, [below])
        assert [pid for pid in (leader, below.pid) if runs(pid)] == []


def test_after_the_first_kill_there_is_always_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[int] = []

    def scan(leader: int) -> list[psutil.Process]:
        scans.append(leader)
        return processes_of_session(leader)

    monkeypatch.setattr(process_end, "MAX_KILL_SECONDS", 0.0)
    monkeypatch.setattr(process_end, "processes_of_session", scan)
    with session(LEAVES_THE_SESSION) as leader:
        (below,) = processes_below(leader)
        kill_session(leader, [below])
        assert scans == [leader, leader]


def test_an_empty_session_is_no_error() -> None:
    with session("") as leader:
        kill_session(leader)
