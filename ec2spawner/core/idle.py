"""Does anything work here? Signals + policy + now -> since when not, when it stops, what to say.

Pure. Work goes on for a while and keeps the server: a busy kernel, a terminal's foreground job,
a GPU or the user's processes above the policy's threshold. Activity is an instant and starts the
idle time over: an execution, a key or pointer event. An open tab is neither.

`assess` is folded over time: what it returns as `Past` goes into the next call, so that work
that has left the signals (a kernel shut down, a terminal closed) is not forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..wire import Idleness, IdlePolicy, KernelState, TerminalState

STARTING_LIMIT = timedelta(seconds=120)
"""A kernel that is starting, or of which nothing is known, counts as work for this long at most."""

CLOCK_SET = timedelta(seconds=5)
"""Wall clock and monotonic clock apart by more than this between two calls: somebody set the
clock. Idle time cannot be told then, so it starts over: better an hour too long than a job lost."""

WINDOW_MIN = timedelta(seconds=2)
WINDOW_MAX = timedelta(seconds=60)
"""GPU and CPU use is averaged over a twentieth of `server_seconds` within these bounds: what a
page load or an autosave takes for a second is not work, what a training run takes is."""

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

    GPU: the most used GPU, 0-100. CPU: the user's processes in percent of one core.
    """

    at: datetime
    percent: float


@dataclass(frozen=True, slots=True)
class Signals:
    """Everything idleness is told by. Instants in UTC."""

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


@dataclass(frozen=True, slots=True)
class Past:
    """What one assessment hands to the next."""

    last_active: datetime
    """The latest end of work or instant of activity seen so far."""
    assessed_at: datetime
    clock_set_at: datetime | None = None
    """When somebody last set the clock: nothing counts as idle from before."""


def assess(
    signals: Signals,
    policy: IdlePolicy,
    now: datetime,
    past: Past | None = None,
    elapsed: float | None = None,
) -> tuple[Idleness, Past]:
    """Idleness at `now`, and what to give to the next call.

    `elapsed` is the time since `past.assessed_at` by a monotonic clock, in seconds; by it a wall
    clock that was set is noticed.
    """
    clock_set_at = _clock_set_at(past, now, elapsed)
    busy_because = _work(signals, policy, now)
    instants = [signals.started_at, *_instants(signals, policy, now)]
    if past is not None:
        instants.append(past.last_active)
    if clock_set_at is not None:
        instants.append(clock_set_at)
    # What is later than now was told by a clock that has been set back since.
    known = (instant for instant in instants if instant <= now + CLOCK_SET)
    last_active = now if busy_because else min(max(known, default=now), now)
    idle_since = None if busy_because else last_active
    ends = stop_at(policy, signals.started_at, idle_since, signals.extended_until)
    idleness = Idleness(
        idle_since=idle_since,
        busy_because=busy_because,
        stop_at=ends,
        warn_at=_warn_at(policy, ends, idle_since or signals.started_at),
        sentence=_sentence(signals, policy, now, busy_because, idle_since, ends),
        cull_kernels=_kernels_to_cull(signals, policy, now, clock_set_at),
    )
    return idleness, Past(last_active=last_active, assessed_at=now, clock_set_at=clock_set_at)


# --- what works, what was active -------------------------------------------------------------


def _work(signals: Signals, policy: IdlePolicy, now: datetime) -> str:
    """What works now, for people; empty when nothing does."""
    for kernel in signals.kernels:
        if kernel.execution_state == "busy":
            return f"{_plain(kernel.name) or 'A kernel'} is running"
    for terminal in signals.terminals:
        if has_job(terminal.foreground):
            return f"{_plain(terminal.foreground)} runs in a terminal"
    window = averaging_window(policy)
    if _in_use(signals.gpu, policy.gpu_busy_percent, window, now):
        return "The GPU is in use"
    if _in_use(signals.cpu, policy.cpu_busy_percent, window, now):
        return "A program of yours is using the CPU"
    for kernel in signals.kernels:
        if kernel.execution_state in ("starting", "unknown") and _is_young(kernel, now):
            return f"{_plain(kernel.name) or 'A kernel'} is starting"
    return ""


def _instants(signals: Signals, policy: IdlePolicy, now: datetime) -> Iterable[datetime]:
    """Instants at which somebody or something was active."""
    yield from (kernel.last_activity for kernel in signals.kernels)
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


def averaging_window(policy: IdlePolicy) -> timedelta:
    """Over how long GPU and CPU use is averaged."""
    share = timedelta(seconds=(policy.server_seconds or 3600) / 20)
    return min(max(share, WINDOW_MIN), WINDOW_MAX)


def _in_use(
    readings: Sequence[Reading], threshold: float, window: timedelta, now: datetime
) -> bool:
    """In use is used within the last quarter of a window: a pause between batches is no end."""
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


def _clock_set_at(past: Past | None, now: datetime, elapsed: float | None) -> datetime | None:
    """When the wall clock was last set, as it reads now."""
    if past is None:
        return None
    by_wall = now - past.assessed_at
    by_monotonic = timedelta(seconds=elapsed) if elapsed is not None else max(by_wall, timedelta())
    if abs(by_wall - by_monotonic) > CLOCK_SET:
        return now
    return past.clock_set_at


# --- what follows ----------------------------------------------------------------------------


def stop_at(
    policy: IdlePolicy,
    started_at: datetime,
    idle_since: datetime | None,
    extended_until: datetime | None,
) -> datetime | None:
    """When a server must stop if nothing happens; None while something works and may go on.

    The instance says it to its user by this, and the hub decides by this.
    """
    ends: datetime | None = None
    if policy.server_seconds and idle_since is not None:
        ends = idle_since + timedelta(seconds=policy.server_seconds)
        if extended_until is not None:
            ends = max(ends, extended_until)
    if policy.max_age_seconds:
        oldest = started_at + timedelta(seconds=policy.max_age_seconds)
        ends = oldest if ends is None else min(ends, oldest)
    return ends


def _warn_at(policy: IdlePolicy, stop_at: datetime | None, not_before: datetime) -> datetime | None:
    if stop_at is None or not policy.warn_seconds:
        return None
    return min(stop_at, max(stop_at - timedelta(seconds=policy.warn_seconds), not_before))


def _kernels_to_cull(
    signals: Signals, policy: IdlePolicy, now: datetime, clock_set_at: datetime | None
) -> list[str]:
    """Ids of kernels idle for too long, the longest idle first.

    None while the GPU or the CPU works: a thread of an idle kernel may be what works. None while
    the user has asked to keep the server, or works here in other ways: what a kernel holds in
    memory is what they would miss.
    """
    latest = now - timedelta(seconds=policy.kernel_seconds)
    window = averaging_window(policy)
    if (
        not policy.kernel_seconds
        or (signals.extended_until is not None and signals.extended_until > now)
        or (signals.last_input is not None and signals.last_input >= latest)
        or _in_use(signals.gpu, policy.gpu_busy_percent, window, now)
        or _in_use(signals.cpu, policy.cpu_busy_percent, window, now)
    ):
        return []
    if clock_set_at is not None and clock_set_at >= latest:
        return []
    idle_too_long = [
        kernel
        for kernel in signals.kernels
        if kernel.execution_state == "idle" and kernel.last_activity < latest
    ]
    return [kernel.id for kernel in sorted(idle_too_long, key=lambda kernel: kernel.last_activity)]


# --- what to say -----------------------------------------------------------------------------


def _sentence(
    signals: Signals,
    policy: IdlePolicy,
    now: datetime,
    busy_because: str,
    idle_since: datetime | None,
    stop_at: datetime | None,
) -> str:
    """The same for people; it changes only when the state does, so it holds no countdown."""
    if idle_since is None:
        stays = ", so this server stays on" if policy.server_seconds else ""
        said = f"{busy_because}{stays}."
    else:
        said = f"Nothing has worked here since {_clock_time(idle_since, now)}."
        if policy.server_seconds:
            said += (
                f" It stops after {in_words(policy.server_seconds)} without work: no running "
                "cell, no busy terminal, no GPU use and nobody typing."
            )
            if signals.extended_until is not None and stop_at == signals.extended_until:
                said += f" You asked to keep it until {_clock_time(stop_at, now)}."
    if policy.max_age_seconds:
        said += f" Whatever runs, it stops {in_words(policy.max_age_seconds)} after its start."
    return said


def in_words(seconds: float) -> str:
    """A duration for people: "1 hour 30 minutes", "45 seconds"."""
    left = max(round(seconds), 0)
    parts = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


def _clock_time(instant: datetime, now: datetime) -> str:
    instant, now = instant.astimezone(UTC), now.astimezone(UTC)
    form = "%H:%M UTC" if instant.date() == now.date() else "%d %b %H:%M UTC"
    return instant.strftime(form)


def _plain(name: str) -> str:
    """A name that the user gave, fit for a sentence: printable, and its end where it is long."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name).strip()
    return printable if len(printable) <= 80 else "…" + printable[-79:]
