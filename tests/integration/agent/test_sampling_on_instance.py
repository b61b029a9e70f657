"""CPU time of real processes, and the sampler's threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ec2spawner.telemetry import Processes, Sampler, find_gpus
from ec2spawner.telemetry.gpu_source import GpuProcess, Kind
from ec2spawner.telemetry.processes import ProcessTable, read_process
from ec2spawner.telemetry.sampler import OLD_SECONDS, SilentGpus
from ec2spawner.wire import GpuSample, KernelState, Sentence, Worker, sentence
from tests.fake_nvml import FakeNvml

ROOT = Path(__file__).parents[3]

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
    before = processes.scan().cpu_seconds
    shell = subprocess.Popen(
        ["bash", "-c", SHORT_LIVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    taken = seconds(shell.stdout.readline())
    assert taken > 0.1
    assert processes.scan().cpu_seconds - before >= taken - 0.05
    shell.communicate("\n", timeout=60)
    assert processes.scan().cpu_seconds - before >= taken - 0.05


class SlowGpus:
    """GPUs that take a while to read; reading and closing threads are recorded."""

    kind: Kind = "simulated"
    error: Sentence | None = None

    def __init__(self) -> None:
        self.noted: list[tuple[str, int]] = []

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        self.noted.append(("sample", threading.get_ident()))
        time.sleep(0.3)
        return []

    def processes(self, at_work: object) -> list[GpuProcess]:
        return []

    def close(self) -> None:
        self.noted.append(("close", threading.get_ident()))


def until(condition: object, limit: float = 90.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_one_thread_uses_the_gpus_across_quick_stops_and_starts() -> None:
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


BUSY = [GpuSample(index=0, name="T4", use_percent=90, memory_total_mib=15360, xid=13)]


class HangingGpus(SlowGpus):
    """GPUs whose driver answers until it hangs."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.answers = answers
        self.hangs = False
        self.resumes = threading.Event()

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        self.noted.append(("sample", threading.get_ident()))
        if len(self.noted) > self.answers:
            self.hangs = True
            assert self.resumes.wait(60)
        return BUSY


@pytest.mark.parametrize("answers", [0, 2])
def test_figures_from_before_a_driver_hang_are_not_reported_as_new(answers: int) -> None:
    def threads() -> int:
        return [each.name for each in threading.enumerate()].count("telemetry")

    until(lambda: threads() == 0)
    gpus, clock = HangingGpus(answers), [100.0]
    sampler = Sampler(gpus, Processes(os.getpid()), interval=0.05, clock=lambda: clock[0])
    sampler.start()
    until(lambda: gpus.hangs)
    fresh = sampler.latest
    assert (fresh is None) == (sampler.workers is None) == (answers == 0)
    clock[0] += OLD_SECONDS + 1
    old = sampler.latest
    assert old is not None
    assert old.gpu_error == sentence("gpu-driver-silent")
    plate = GpuSample(index=0, name="T4", memory_total_mib=15360, xid=13)
    assert old.gpus == ([plate] if fresh else [])
    assert sampler.workers is None
    if fresh is not None:
        assert (fresh.gpu_error, fresh.gpus[0].use_percent) == (None, 90)
    # All else is measured on.
    began = datetime.now(UTC)
    burner = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        until(
            lambda: any(each.at > began and each.percent > 1 for each in sampler.readings()[1]),
        )
    finally:
        burner.kill()
        burner.wait()
    latest = sampler.latest
    assert latest is not None
    assert latest.at > began
    assert (latest.gpus, latest.gpu_error) == (old.gpus, old.gpu_error)
    assert latest.gpu_source == old.gpu_source == "simulated"
    assert all(each.at < began for each in sampler.readings()[0])
    measured = sampler.readings()[1][-1]

    # It answers again, and then hangs while everything is stopped.
    gpus.answers, gpus.hangs = 1000, False
    gpus.resumes.set()
    until(lambda: (at := sampler.latest) is not None and (at.gpus, at.gpu_error) == (BUSY, None))
    assert measured in sampler.readings()[1], "what has worked meanwhile is not idle now"
    until(lambda: threads() == 1)
    gpus.resumes.clear()
    gpus.answers = 0
    until(lambda: gpus.hangs)
    clock[0] += OLD_SECONDS + 1
    until(lambda: sampler.latest is not None and threads() == 2)
    waits: list[float | None] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "join", lambda _, timeout=None: waits.append(timeout))
        sampler.stop()
    assert not any(waits), "an event loop calls it"
    until(lambda: threads() == 1)
    gpus.resumes.set()
    until(lambda: threads() == 0)


class HangingStandIn(SilentGpus):
    """As where `/proc` hangs, too: a process that is inside the driver may lock its memory."""

    def __init__(self) -> None:
        super().__init__("nvml", BUSY)
        self.hangs = False
        self.resumes = threading.Event()

    def processes(self, at_work: object) -> list[GpuProcess]:
        self.hangs = True
        assert self.resumes.wait(60)
        return []


def test_a_fallback_that_hangs_like_its_driver_gets_no_further_threads() -> None:
    gpus, clock, before = HangingStandIn(), [100.0], threading.active_count()
    sampler = Sampler(gpus, Processes(os.getpid()), interval=0.05, clock=lambda: clock[0])
    sampler.start()
    until(lambda: gpus.hangs)
    for _ in range(3):
        clock[0] += OLD_SECONDS + 1
        assert sampler.latest is None
        assert threading.active_count() <= before + 1, "one more with every half minute"
    sampler.stop()
    gpus.resumes.set()


# --- users of the CPU --------------------------------------------------------------------------

SPIN = "while True: pass"

JOB = """
import signal
signal.sigwait({signal.SIGUSR1})
while True: pass
"""
"""Works after the signal, which its parent has blocked."""

KERNEL = f"""
import signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}})
job = [sys.executable, "-c", {JOB!r}]
shell = ["sh", "-c", '"$@" & echo $$ $!; wait', "sh", *job]
subprocess.Popen(shell, start_new_session=True).wait()
time.sleep(120)
"""
"""A kernel that starts a job by a shell, in a session of its own; it says the numbers of both."""


@contextmanager
def sampling(**options: object) -> Iterator[Sampler]:
    sampler = Sampler(
        find_gpus(json.dumps({"name": "T4", "count": 2, "memory_mib": 15360})),
        Processes(os.getpid()),
        interval=0.1,
        **options,  # type: ignore[arg-type]
    )
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop(timeout=10)


def worker_of(sampler: Sampler, pid: int) -> Worker | None:
    latest = sampler.latest
    return next((each for each in latest.workers if each.pid == pid), None) if latest else None


def test_a_kernel_includes_its_detached_processes() -> None:
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    shell, job = map(int, kernel.stdout.readline().split())
    try:
        with sampling() as sampler:
            now = datetime.now(UTC)
            sampler.see_kernels(
                [KernelState(id="k", name="a.ipynb", pid=kernel.pid, last_activity=now)]
            )
            until(lambda: worker_of(sampler, kernel.pid) is not None)
            worker = worker_of(sampler, kernel.pid)
            assert worker is not None
            assert (worker.kind, worker.name, worker.kernel_id) == ("kernel", "a.ipynb", "k")
            # Neither its parent nor its session is there any more.
            os.kill(shell, signal.SIGKILL)
            until(lambda: read_process(shell) is None)
            os.kill(job, signal.SIGUSR1)
            until(lambda: ((worker_of(sampler, kernel.pid) or worker).cpu_percent or 0) > 5)
            assert worker_of(sampler, job) is None, "it is the kernel's, no program of its own"
    finally:
        os.kill(job, signal.SIGKILL)
        kernel.kill()
        kernel.wait()


def test_the_servers_own_cpu_use_is_not_activity() -> None:
    burner = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        with sampling() as counted, sampling(server_pid=lambda: burner.pid) as left_out:
            until(lambda: any(reading.percent > 20 for reading in counted.readings()[1]))
            until(lambda: len(left_out.readings()[1]) > 20)
            mine = [reading.percent for reading in left_out.readings()[1]]
            theirs = [reading.percent for reading in counted.readings()[1]]
            assert sum(mine) / len(mine) < sum(theirs) / len(theirs) / 2
            worker = worker_of(left_out, burner.pid)
            assert worker is not None
            assert worker.name == "The notebook server"
            until(lambda: (worker_of(counted, burner.pid) or worker).gpus == [0])
            latest = counted.latest
            assert latest is not None
            assert latest.gpu_source == "simulated"
            assert latest.gpus[0].use_percent
            assert 0 < latest.gpus[0].clock_mhz <= latest.gpus[0].clock_max_mhz
            other = worker_of(counted, burner.pid)
            assert other is not None
            assert other.name.startswith("python")
    finally:
        burner.kill()
        burner.wait()


def test_the_process_table_is_current_where_it_matters() -> None:
    table = ProcessTable()
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        until(lambda: child.pid in table.read())
        before = table.read({child.pid})[child.pid]
        until(lambda: table.read({child.pid})[child.pid].cpu_seconds > before.cpu_seconds + 0.05)
        assert before.parent == os.getpid()
    finally:
        child.kill()
        child.wait()
    until(lambda: child.pid not in table.read({child.pid}))


def test_process_names_chosen_by_a_process_are_safe() -> None:
    name = ") Z 1 (\n"
    text = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r}); print(flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    process = read_process(child.pid)
    child.communicate("\n", timeout=60)
    assert process is not None
    assert (process.parent, process.name) == (os.getpid(), name)
    assert process.resident_mib > 1
    assert read_process(2**22 + 1) is None


LARGE = """
import os, subprocess, sys, threading, time
from datetime import UTC, datetime
from pathlib import Path
from ec2spawner.telemetry import Processes, Sampler, find_gpus, namespaces
from ec2spawner.wire import KernelState
# In a container, a process without an open NVIDIA device does not count as using a GPU.
namespaces.DEVICES = "/dev/null"
null = subprocess.DEVNULL
kernels = [subprocess.Popen(["sleep", "120"], stdin=null) for _ in range(20)]
lines = [f"gpu {gpu} use 50" for gpu in range(8)]
lines += [f"process {at % 8} {kernel.pid} 1000 5" for at, kernel in enumerate(kernels)]
Path(os.environ["EC2SPAWNER_FAKE_NVML"]).write_text("\\n".join(lines) + "\\n")
samples = []
processes = Processes(os.getpid(), include_root=True)
sampler = Sampler(find_gpus(), processes, interval=0.25, home=Path.home(), on_sample=samples.append)
now = datetime.now(UTC)
sampler.see_kernels([
    KernelState(id=str(at), name=f"{at}.ipynb", pid=kernel.pid, last_activity=now)
    for at, kernel in enumerate(kernels)
])
sampler.start()
while len(samples) < 20:
    time.sleep(0.1)
sampler.stop()
for kernel in kernels:
    kernel.kill()
    kernel.wait()
print(samples[-1].model_dump_json())
"""


def test_eight_gpus_and_twenty_kernels_are_in_every_sample(tmp_path: Path) -> None:
    """What that costs is measured by `python -m tests.bench widget`."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE],
        env=os.environ | FakeNvml(tmp_path).environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    telemetry = json.loads(done.stdout)
    assert (telemetry["gpu_source"], len(telemetry["gpus"])) == ("nvml", 8)
    kernels = [each for each in telemetry["workers"] if each["kind"] == "kernel"]
    assert len(kernels) == 20
    assert {each["gpu_percent"] for each in kernels} == {5}
    assert {tuple(each["gpus"]) for each in kernels} == {(index,) for index in range(8)}
