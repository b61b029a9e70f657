"""What is working on a server, and the last instant of activity there. Pure.

Work has a duration, during which the server is not idle: a busy kernel, a terminal's foreground
job, a GPU or the user's programs above the policy's threshold. Activity is an instant that restarts
the idle time: an execution, a key or pointer event. An open tab is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from ...wire import Code, IdlePolicy, KernelState, Sentence, TerminalState, Worker, sentence
from .policy import shortest_limit

STARTING_LIMIT = timedelta(seconds=120)
"""A kernel that is starting, or whose state is unknown, counts as work for at most this long."""

WINDOW_MIN = timedelta(seconds=2)
WINDOW_MAX = timedelta(seconds=60)
"""GPU and CPU use is averaged over a twentieth of the idle limit, within these bounds, so that a
page load or an autosave of a second is not work and a training run is."""

LONGEST_GAP = timedelta(seconds=5)
"""A reading covers the time since the one before, but at most this long: time without samples
counts as no use."""

WAITING_FOR_A_PERSON = frozenset(
    {"less", "more", "most", "man", "tmux", "screen", "script", "mc", "ranger", "watch"}
    | {"tail", "journalctl", "dmesg", "nvidia-smi"}
    | {"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacs-nox", "joe", "micro"}
    | {"top", "htop", "btop", "atop", "iotop", "nvtop", "gpustat", "nvitop"}
)
"""Foreground programs that do nothing without a viewer or input. What runs inside a `tmux` has a
terminal of its own there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Use of the GPUs or of the CPU at an instant (UTC).

    GPU: the most used GPU, 0-100. CPU: the user's programs in percent of one core.
    """

    at: datetime
    percent: float


@dataclass(frozen=True, slots=True)
class Signals:
    """Everything from which idleness is derived. Instants in UTC."""

    started_at: datetime
    """When the server started; no idle time begins earlier."""
    kernels: Sequence[KernelState] = ()
    terminals: Sequence[TerminalState] = ()
    last_input: datetime | None = None
    """The last key or pointer event of a person."""
    extended_until: datetime | None = None
    """Until when the user has extended the server."""
    gpu: Sequence[Reading] = ()
    """Oldest first; only the last two minutes matter."""
    cpu: Sequence[Reading] = ()
    """Of kernels, terminals and their child processes, without Jupyter's own server."""
    workers: Sequence[Worker] | None = None
    """The users of GPUs and CPU now; a kernel that is not listed uses none. None is unknown."""
    is_waking: bool = False
    """Whether a session is being woken: what kernels do is not the user's work then."""
    woken_at: datetime | None = None
    """Until when one was being woken: what kernels did until then was no activity."""


@dataclass(frozen=True, slots=True)
class Work:
    """What keeps a server from being idle."""

    what: Sentence
    kernel_id: str = ""
    path: str = ""
    """Path of its notebook; empty without one."""


def work(signals: Signals, policy: IdlePolicy, now: datetime, silent: Set[str]) -> Work | None:
    """What is working now; None if nothing is. `silent` kernels do not count (`stuck_kernels`)."""
    kernels = () if signals.is_waking else signals.kernels
    busy = [x for x in kernels if x.execution_state == "busy" and x.id not in silent]
    if busy:
        # Name the busiest one: `workers` begins with it.
        order = {each.kernel_id: place for place, each in enumerate(signals.workers or ())}
        first = min(busy, key=lambda kernel: order.get(kernel.id, len(order)))
        return Work(sentence("kernel-running", name=plain(first.name)), first.id, first.path)
    for terminal in signals.terminals:
        if has_job(terminal.foreground):
            return Work(sentence("terminal-running", name=plain(terminal.foreground)))
    if in_use(signals.gpu, policy.gpu_busy_percent, policy, now):
        return _in_use_by(signals, _gpu_user(signals.workers or ()), "gpu-in-use")
    if in_use(signals.cpu, policy.cpu_busy_percent, policy, now):
        return _in_use_by(signals, _cpu_user(signals.workers or ()), "cpu-in-use")
    for kernel in kernels:
        if kernel.execution_state in ("starting", "unknown") and _is_young(kernel, now):
            name = plain(kernel.name)
            return Work(sentence("kernel-starting", name=name), kernel.id, kernel.path)
    return None


def in_english(what: Sentence) -> str:
    """The work in English, for the hub's pages and logs; the browser words it itself."""
    name = str(what.params["name"])
    match what.code:
        case "kernel-running":
            return f"{name or 'A kernel'} is running"
        case "kernel-starting":
            return f"{name or 'A kernel'} is starting"
        case "terminal-running":
            return f"{name} runs in a terminal"
        case "gpu-in-use":
            return f"{name} is using the GPU" if name else "The GPU is in use"
        case _:
            return f"{name or 'A program of yours'} is using the CPU"


def instants(
    signals: Signals, policy: IdlePolicy, now: datetime, silent: Set[str]
) -> Iterable[datetime]:
    """The last instants of activity, by source."""
    for kernel in signals.kernels:
        # A kernel reports itself as active while it executes.
        is_of_waking = signals.woken_at is not None and kernel.last_activity <= signals.woken_at
        if kernel.id not in silent and not is_of_waking:
            yield kernel.last_activity
    if signals.last_input is not None:
        yield signals.last_input
    window = averaging_window(policy)
    for readings, threshold in (
        (signals.gpu, policy.gpu_busy_percent),
        (signals.cpu, policy.cpu_busy_percent),
    ):
        last = _last_use(readings, threshold, window, now)
        if last is not None:
            yield last


def has_job(foreground: str) -> bool:
    """Whether a terminal's foreground program works without input."""
    program = foreground.split(" ", 1)[0].rsplit("/", 1)[-1].rstrip(":")
    return bool(program) and program not in WAITING_FOR_A_PERSON


def computes(signals: Signals, policy: IdlePolicy, now: datetime) -> bool:
    """Whether a GPU or any of the user's programs is in use."""
    return in_use(signals.gpu, policy.gpu_busy_percent, policy, now) or in_use(
        signals.cpu, policy.cpu_busy_percent, policy, now
    )


def is_watched(signals: Signals, policy: IdlePolicy, now: datetime) -> bool:
    """Whether CPU use was sampled without a gap for the whole averaging window.

    If a driver hangs or the instance swaps, sampling stops, and work may continue.
    """
    window = averaging_window(policy)
    return all(
        after - before <= LONGEST_GAP or now - after > window
        for before, after in pairwise([*(reading.at for reading in signals.cpu), now])
    )


# --- users of GPU and CPU --------------------------------------------------------------------


def _in_use_by(signals: Signals, user: Worker | None, code: Code) -> Work:
    if user is None:
        return Work(sentence(code, name=""))
    path = next((each.path for each in signals.kernels if each.id == user.kernel_id), "")
    return Work(sentence(code, name=plain(user.name)), user.kernel_id, path)


def _gpu_user(workers: Sequence[Worker]) -> Worker | None:
    users = [each for each in workers if each.gpus]
    return max(
        users, key=lambda each: (each.gpu_percent or 0, each.gpu_memory_mib or 0), default=None
    )


def _cpu_user(workers: Sequence[Worker]) -> Worker | None:
    users = [each for each in workers if each.cpu_percent]
    return max(users, key=lambda each: each.cpu_percent or 0, default=None)


def plain(name: str) -> str:
    """A name that the user chose, for use in a sentence: printable, and cut to its end if long."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name).strip()
    return printable if len(printable) <= 80 else "…" + printable[-79:]


# --- use of GPU and CPU ----------------------------------------------------------------------


def averaging_window(policy: IdlePolicy) -> timedelta:
    """The period over which GPU and CPU use is averaged."""
    share = timedelta(seconds=(shortest_limit(policy) or 3600) / 20)
    return min(max(share, WINDOW_MIN), WINDOW_MAX)


def in_use(
    readings: Sequence[Reading], threshold: float, policy: IdlePolicy, now: datetime
) -> bool:
    """Whether there was use within the last quarter of a window: batches have pauses."""
    window = averaging_window(policy)
    last = _last_use(readings, threshold, window, now)
    return last is not None and now - last <= max(window / 4, WINDOW_MIN)


def _last_use(
    readings: Sequence[Reading], threshold: float, window: timedelta, now: datetime
) -> datetime | None:
    """The last instant with use above the threshold, itself and in the mean of its window."""
    if threshold <= 0:
        return None
    known = [reading for reading in readings if reading.at <= now]
    weights = [_weight(*pair) for pair in zip([None, *known], known, strict=False)]
    last, first, total = None, 0, 0.0
    for reading, weight in zip(known, weights, strict=True):
        total += reading.percent * weight
        while known[first].at <= reading.at - window:
            total -= known[first].percent * weights[first]
            first += 1
        if reading.percent >= threshold and total / window.total_seconds() >= threshold:
            last = reading.at
    return last


def _weight(before: Reading | None, reading: Reading) -> float:
    """Seconds that a reading covers: since the one before, at most `LONGEST_GAP`."""
    if before is None:
        return 1.0
    return min((reading.at - before.at).total_seconds(), LONGEST_GAP.total_seconds())


def _is_young(kernel: KernelState, now: datetime) -> bool:
    return abs(now - kernel.last_activity) <= STARTING_LIMIT
