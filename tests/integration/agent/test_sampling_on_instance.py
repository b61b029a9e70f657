"""CPU time of real processes, and the sampler's threads."""

from __future__ import annotations

import os
import subprocess
import threading
import time

from ec2spawner.telemetry import Processes, Sampler
from ec2spawner.telemetry.gpus import Kind
from ec2spawner.wire import GpuSample

SHORT_LIVED = """
for i in {1..40}; do (for ((j = 0; j < 20000; j++)); do :; done); done
times
read
"""
"""Work that is done by processes which each live for a moment; `times` says how much it was."""


def seconds(text: str) -> float:
    """`0m1.250s 0m0.010s` as bash writes user and system time."""
    parts = [part.removesuffix("s").split("m") for part in text.split()]
    return sum(60 * float(minutes) + float(rest) for minutes, rest in parts)


def test_the_cpu_time_of_short_lived_processes_counts_and_is_not_lost() -> None:
    processes = Processes(os.getpid())
    before = processes.look().cpu_seconds
    shell = subprocess.Popen(
        ["bash", "-c", SHORT_LIVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    taken = seconds(shell.stdout.readline())
    assert taken > 0.1
    assert processes.look().cpu_seconds - before >= taken - 0.05
    shell.communicate("\n", timeout=10)
    assert processes.look().cpu_seconds - before >= taken - 0.05


class SlowGpus:
    """GPUs that take a while to read; who reads and who closes is noted."""

    kind: Kind = "simulated"

    def __init__(self) -> None:
        self.noted: list[tuple[str, int]] = []

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        self.noted.append(("sample", threading.get_ident()))
        time.sleep(0.3)
        return []

    def close(self) -> None:
        self.noted.append(("close", threading.get_ident()))


def until(condition: object, limit: float = 10.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_thread_at_a_time_has_the_gpus_however_fast_it_is_stopped_and_started() -> None:
    gpus = SlowGpus()
    sampler = Sampler(gpus, Processes(os.getpid()), interval=0.05)
    for _ in range(3):
        seen = len(gpus.noted)
        sampler.start()
        until(lambda seen=seen: any(what == "sample" for what, _ in gpus.noted[seen:]))
        sampler.stop(timeout=0)
    sampler.start()
    sampler.stop(timeout=10)
    until(lambda: [what for what, _ in gpus.noted].count("close") == 4)
    owner = 0
    for what, thread in gpus.noted:
        assert owner in (0, thread), gpus.noted
        owner = 0 if what == "close" else thread
    assert owner == 0
