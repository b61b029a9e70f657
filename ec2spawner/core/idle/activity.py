"""What works on a server, and when somebody or something was last active there. Pure.

Work lasts for a while and keeps the server: a busy kernel, a terminal's foreground job, a GPU
or the user's programs above the policy's threshold. Activity is an instant and starts the idle
time over: an execution, a key or pointer event. An open tab is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from ...wire import Code, IdlePolicy, KernelState, Sentence, TerminalState, Worker, sentence
from .policy import shortest_limit

STARTING_LIMIT = timedelta(seconds=120)
"""A kernel that is starting, or of which nothing is known, counts as work for this long at most."""

WINDOW_MIN = timedelta(seconds=2)
WINDOW_MAX = timedelta(seconds=60)
"""GPU and CPU use is averaged over a twentieth of the idle limit within these bounds: what a page
load or an autosave takes for a second is not work, what a training run takes is."""

LONGEST_GAP = timedelta(seconds=5)
"""A reading stands for the time since the one before, but for no longer than this: what nobody
sampled counts as nothing."""

WAITING_FOR_A_PERSON = frozenset(
    {"less", "more", "most", "man", "tmux", "screen", "script", "mc", "ranger", "watch"}
    | {"tail", "journalctl", "dmesg", "nvidia-smi"}
    | {"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacs-nox", "joe", "micro"}
    | {"top", "htop", "btop", "atop", "iotop", "nvtop", "gpustat", "nvitop"}
)
"""Foreground programs that do nothing unless somebody looks or types. What runs inside a `tmux`
has a terminal of its own there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Use of the GPUs or of the CPU at an instant (UTC).

    GPU: the most used GPU, 0-100. CPU: the user's programs in percent of one core.
    """

    at: datetime
    percent: float


@dataclass(frozen=True, slots=True)
class Signals:
    """Everything that idleness is derived from. Instants in UTC."""

    started_at: datetime
    """When the server started; nothing is idle longer than that."""
    kernels: Sequence[KernelState] = ()
    terminals: Sequence[TerminalState] = ()
    last_input: datetime | None = None
    """The last key or pointer event of a person."""
    extended_until: datetime | None = None
    """The user asked to keep the server until then."""
    gpu: Sequence[Reading] = ()
    """Oldest first; only the last two minutes matter."""
    cpu: Sequence[Reading] = ()
    """Of kernels, terminals and what they have started; Jupyter's own server is not the user's."""
    workers: Sequence[Worker] | None = None
    """Who uses GPUs and CPU now; a kernel that is not among them uses none. None: not known."""


@dataclass(frozen=True, slots=True)
class Work:
    """What keeps a server on."""

    what: Sentence
    kernel_id: str = ""
    path: str = ""
    """Of its notebook, where it has one."""


def work(signals: Signals, policy: IdlePolicy, now: datetime, silent: Set[str]) -> Work | None:
    """What works now; None when nothing does. `silent` kernels do not (`stuck_kernels`)."""
    busy = [x for x in signals.kernels if x.execution_state == "busy" and x.id not in silent]
    if busy:
        # The one that does most is what people want to look at; `workers` begins with it.
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
    for kernel in signals.kernels:
        if kernel.execution_state in ("starting", "unknown") and _is_young(kernel, now):
            name = plain(kernel.name)
            return Work(sentence("kernel-starting", name=name), kernel.id, kernel.path)
    return None


def in_english(what: Sentence) -> str:
    """What works, for the hub's pages and logs; the browser has words of its own."""
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
    """Instants at which somebody or something was active."""
    for kernel in signals.kernels:
        # A kernel that runs something is active now, by its own word.
        if kernel.id not in silent:
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
    """Whether a terminal's foreground program works by itself."""
    program = foreground.split(" ", 1)[0].rsplit("/", 1)[-1].rstrip(":")
    return bool(program) and program not in WAITING_FOR_A_PERSON


def computes(signals: Signals, policy: IdlePolicy, now: datetime) -> bool:
    """Whether a GPU or the user's programs compute, whoever does it."""
    return in_use(signals.gpu, policy.gpu_busy_percent, policy, now) or in_use(
        signals.cpu, policy.cpu_busy_percent, policy, now
    )


def is_watched(signals: Signals, policy: IdlePolicy, now: datetime) -> bool:
    """Whether use of the CPU was read without a gap as long as it is averaged over.

    Where a driver hangs, or the machine swaps, the reading stops and the work may not.
    """
    window = averaging_window(policy)
    return all(
        after - before <= LONGEST_GAP or now - after > window
        for before, after in pairwise([*(reading.at for reading in signals.cpu), now])
    )


# --- who uses it -----------------------------------------------------------------------------


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
    """A name that the user gave, fit for a sentence: printable, and its end where it is long."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name).strip()
    return printable if len(printable) <= 80 else "…" + printable[-79:]


# --- use of GPU and CPU ----------------------------------------------------------------------


def averaging_window(policy: IdlePolicy) -> timedelta:
    """Over how long GPU and CPU use is averaged."""
    share = timedelta(seconds=(shortest_limit(policy) or 3600) / 20)
    return min(max(share, WINDOW_MIN), WINDOW_MAX)


def in_use(
    readings: Sequence[Reading], threshold: float, policy: IdlePolicy, now: datetime
) -> bool:
    """In use is used within the last quarter of a window: a pause between batches is no end."""
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
    """For how many seconds a reading stands: since the one before, if that is not long ago."""
    if before is None:
        return 1.0
    return min((reading.at - before.at).total_seconds(), LONGEST_GAP.total_seconds())


def _is_young(kernel: KernelState, now: datetime) -> bool:
    return abs(now - kernel.last_activity) <= STARTING_LIMIT
