"""Users of the GPUs and the CPU: the owner of each process, and its use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.telemetry.gpu_source import GpuProcess
from ec2spawner.telemetry.processes import Process
from ec2spawner.telemetry.workers import MAX, Groups, Past, Seen, cpu_use, group, workers
from ec2spawner.wire import KernelState, TerminalState, Worker

NOW = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)

SERVER, KERNEL, LOADER, SHELL, TRAIN, OTHER = 10, 20, 21, 30, 31, 40
TTY = 34816


def process(
    pid: int,
    parent: int,
    *,
    session: int = 0,
    terminal: int = 0,
    cpu: float = 0.0,
    buried: float = 0.0,
    started: int = 0,
    name: str = "python3",
) -> Process:
    return Process(
        pid=pid,
        parent=parent,
        group=pid,
        session=session or pid,
        state="S",
        terminal=terminal,
        foreground=0,
        cpu_seconds=cpu,
        reaped_cpu_seconds=buried,
        started=started or pid,
        resident_mib=100.0,
        name=name,
        uid=1000,
    )


NOTEBOOK = [
    process(SERVER, 1),
    process(KERNEL, SERVER),
    process(LOADER, KERNEL),
    process(SHELL, SERVER, terminal=TTY),
    process(TRAIN, SHELL, session=SHELL, terminal=TTY),
    process(OTHER, SERVER, session=SERVER),
]
KERNELS = [KernelState(id="k", name="work/a.ipynb", pid=KERNEL, last_activity=NOW)]
TERMINALS = [TerminalState(name=str(TTY), pid=TRAIN, foreground="python train.py")]


def grouped(processes: Sequence[Process], past: Past | None = None, elapsed: float = 3.0) -> Groups:
    return group(Seen(processes, KERNELS, TERMINALS, elapsed), past or Past())


def found(groups: Groups, on_gpus: Sequence[GpuProcess] = ()) -> dict[str, Worker]:
    return {each.name: each for each in workers(groups, on_gpus, lambda pid: f"program {pid}")}


def owner(groups: Groups, pid: int) -> int:
    return groups.roots[pid].process.pid


def test_each_process_belongs_to_its_starter() -> None:
    groups = grouped(NOTEBOOK)
    owners = {each.pid: owner(groups, each.pid) for each in NOTEBOOK}
    assert owners == {
        SERVER: SERVER,
        KERNEL: KERNEL,
        LOADER: KERNEL,
        SHELL: SHELL,
        TRAIN: SHELL,
        OTHER: SERVER,
    }
    shown = found(groups)
    assert list(shown) == ["work/a.ipynb", "python train.py"]
    assert (shown["work/a.ipynb"].kernel_id, shown["work/a.ipynb"].kind) == ("k", "kernel")
    assert shown["work/a.ipynb"].memory_mib == 200
    assert shown["python train.py"].pid == SHELL


def test_gpu_use_of_child_processes_is_the_kernels() -> None:
    shown = found(
        grouped(NOTEBOOK),
        [
            GpuProcess(LOADER, 0, 4000.0, 60.0),
            GpuProcess(KERNEL, 0, 100.0, 5.0),
            GpuProcess(LOADER, 3, 1000.0, 80.0),
            GpuProcess(TRAIN, 1, 50.0, None),
        ],
    )
    kernel, terminal = shown["work/a.ipynb"], shown["python train.py"]
    assert (kernel.gpus, kernel.gpu_percent, kernel.gpu_memory_mib) == ([0, 3], 80, 5100)
    assert (terminal.gpus, terminal.gpu_percent, terminal.gpu_memory_mib) == ([1], None, 50)
    assert next(iter(shown)) == "work/a.ipynb", "the busiest first"


def test_a_detached_process_still_belongs_to_its_starter() -> None:
    past = grouped(NOTEBOOK).past
    # The loader's parent is the subreaper now, and it leads a session of its own.
    after = [each for each in NOTEBOOK if each.pid != LOADER] + [process(LOADER, 1)]
    groups = grouped(after, past)
    assert owner(groups, LOADER) == KERNEL
    assert owner(grouped(after), LOADER) == LOADER, "without the past that could not be known"
    # And what it starts now, too; but not a new process that got its number.
    child = process(99, LOADER)
    assert owner(grouped([*after, child], groups.past), 99) == KERNEL
    reused = [*NOTEBOOK[:2], process(LOADER, 1, started=777)]
    assert owner(grouped(reused, past), LOADER) == LOADER


def test_a_background_process_of_a_shell_belongs_to_its_terminal() -> None:
    nohup = process(50, 1, session=SHELL)
    assert owner(grouped([*NOTEBOOK, nohup]), 50) == SHELL


def test_a_kernels_command_in_a_pseudo_terminal_is_the_kernels() -> None:
    shell = process(60, KERNEL, terminal=TTY + 1)
    job = process(61, 60, session=60, terminal=TTY + 1)
    terminals = [*TERMINALS, TerminalState(name=str(TTY + 1), pid=61, foreground="make")]
    groups = group(Seen([*NOTEBOOK, shell, job], KERNELS, terminals, 1.0), Past())
    assert {owner(groups, 60), owner(groups, 61)} == {KERNEL}
    assert list(found(groups)) == ["work/a.ipynb", "python train.py"]


def test_a_remote_kernel_is_no_worker() -> None:
    kernels = [KernelState(id="x", name="elsewhere", pid=4711, last_activity=NOW)]
    groups = group(Seen(NOTEBOOK, kernels, (), 1.0), Past())
    assert found(groups) == {}


def test_an_invisible_gpu_process_gets_a_generic_name() -> None:
    (name, worker), *rest = found(grouped([]), [GpuProcess(0, 2, 300.0, 10.0)]).items()
    assert not rest
    assert "cannot be seen from here" in name
    assert (worker.kind, worker.gpus, worker.gpu_percent) == ("program", [2], 10)


def test_names_are_short_and_keep_their_end() -> None:
    kernels = [KernelState(id="k", name="a/" * 200 + "b.ipynb", pid=KERNEL, last_activity=NOW)]
    groups = group(Seen(NOTEBOOK, kernels, (), 1.0), Past())
    (name,) = found(groups)
    assert len(name) == 120
    assert name.startswith("…")
    assert name.endswith("b.ipynb")


def test_at_most_the_fifty_busiest_are_listed() -> None:
    many = [process(pid, 1) for pid in range(1000, 1200)]
    on_gpus = [GpuProcess(pid, 0, 1.0, (pid - 1000) / 2) for pid in range(1000, 1200)]
    shown = workers(grouped(many), on_gpus, lambda pid: str(pid))
    assert len(shown) == MAX
    assert shown[0].pid == 1199
    assert shown == sorted(shown, key=lambda each: -(each.gpu_percent or 0))


def test_cpu_use_of_a_worker_is_the_smoothed_sum_of_its_processes() -> None:
    groups = grouped(NOTEBOOK)
    for step in range(1, 30):
        now = [
            each._replace(cpu_seconds=0.5 * step) if each.pid in (KERNEL, LOADER) else each
            for each in NOTEBOOK
        ]
        groups = grouped(now, groups.past, 1.0)
        if step == 1:
            assert 0 < (found(groups)["work/a.ipynb"].cpu_percent or 0) <= 100
    assert 99 < (found(groups)["work/a.ipynb"].cpu_percent or 0) <= 100


def test_cpu_time_of_an_ended_process_counts_once() -> None:
    before = {KERNEL: process(KERNEL, 1, cpu=5), LOADER: process(LOADER, KERNEL, cpu=7, buried=2)}
    after = {KERNEL: process(KERNEL, 1, cpu=5, buried=10)}
    assert cpu_use(before, after, 2.0) == {KERNEL: 50.0}
    # A process that was never sampled counts whole.
    assert cpu_use(
        {KERNEL: before[KERNEL]}, {KERNEL: process(KERNEL, 1, cpu=5, buried=1)}, 1.0
    ) == {KERNEL: 100.0}


PIDS = st.integers(1, 12)
ANY = st.builds(
    process,
    PIDS,
    PIDS,
    session=PIDS,
    terminal=st.sampled_from([0, TTY, TTY + 1]),
    cpu=st.floats(0, 1e6),
    buried=st.floats(0, 1e6),
    started=PIDS,
)


@given(
    samples=st.lists(
        st.tuples(
            st.lists(ANY, max_size=12, unique_by=lambda each: each.pid), st.floats(0.01, 100)
        ),
        min_size=1,
        max_size=4,
    ),
    kernels=st.lists(PIDS, max_size=3),
    on_gpus=st.lists(st.builds(GpuProcess, PIDS, st.integers(0, 7), st.none(), st.none())),
)
def test_each_process_has_one_owner_and_nonnegative_use(
    samples: list[tuple[list[Process], float]], kernels: list[int], on_gpus: list[GpuProcess]
) -> None:
    past = Past()
    states = [KernelState(id=str(pid), pid=pid, last_activity=NOW) for pid in kernels]
    for processes, elapsed in samples:
        groups = group(Seen(processes, states, TERMINALS, elapsed), past)
        past = groups.past
        assert set(groups.roots) == {each.pid for each in processes}
        assert sum(map(len, groups.members.values())) == len(processes)
        for worker in workers(groups, on_gpus, lambda pid: ""):
            assert worker.name
            assert worker.cpu_percent is None or worker.cpu_percent >= 0
