"""The rules of idleness as cases: what docs/explanation/idle.md says in its tables, with signals.

The unit tests run them all, and hold the page's tables to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ec2spawner.core.idle.activity import Reading, Signals
from ec2spawner.wire import IdlePolicy, KernelState, TerminalState, Worker

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
"""A Tuesday."""
STARTED = NOW - timedelta(hours=5)
POLICY = IdlePolicy()


def ago(**units: float) -> datetime:
    return NOW - timedelta(**units)


def kernel(
    state: str = "idle",
    active: datetime = STARTED,
    name: str = "train.ipynb",
    kernel_id: str = "k1",
) -> KernelState:
    return KernelState(
        id=kernel_id, name=name, path=name, pid=7, execution_state=state, last_activity=active
    )


def terminal(*foreground: str) -> list[TerminalState]:
    return [TerminalState(name="1", foreground=each) for each in foreground]


def steady(percent: float, seconds: int = 60, end: datetime = NOW) -> list[Reading]:
    """One reading a second up to `end`."""
    return [
        Reading(end - timedelta(seconds=seconds - each), percent) for each in range(seconds + 1)
    ]


def in_pauses() -> list[Reading]:
    """Two seconds of work, six of loading data."""
    return [Reading(ago(seconds=60 - s), 90.0 if s % 8 < 2 else 0.0) for s in range(60)]


def worker(cpu_percent: float = 0.0, **reported: Any) -> Worker:
    given = {"kind": "kernel", "name": "train.ipynb", "pid": 7, "kernel_id": "k1"}
    return Worker(cpu_percent=cpu_percent, **(given | reported))


# --- what counts -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Signals, and what follows from them."""

    signals: Signals
    because: str = ""
    """What keeps the server running, in words for people; empty when nothing does."""
    idle_since: datetime | None = STARTED
    """Where nothing works."""
    lasting: timedelta = timedelta()
    """For how long the signals have been like this: they are assessed once a minute."""
    policy: IdlePolicy = POLICY
    kernel_id: str = ""
    """Where the link to what keeps the server running leads."""


@dataclass(frozen=True)
class Row:
    """A line of the page's table."""

    situation: str
    is_it_work: str
    cases: Sequence[Case]


def _works(because: str, kernel_id: str = "", **signals: Any) -> Case:
    return Case(Signals(STARTED, **signals), because, None, kernel_id=kernel_id)


def _idle(since: datetime = STARTED, **signals: Any) -> Case:
    return Case(Signals(STARTED, **signals), idle_since=since)


def _waiting(**signals: Any) -> Signals:
    """A kernel that is busy in `input()`, or in a `sleep`."""
    return Signals(ago(days=3), **({"kernels": [kernel("busy", NOW)], "workers": []} | signals))


WHAT_COUNTS: Sequence[Row] = (
    Row(
        "A cell runs, with or without output",
        "yes, for as long as it runs; see the next line",
        (
            _works("train.ipynb is running", "k1", kernels=[kernel("busy")]),
            _works("A kernel is running", "k1", kernels=[kernel("busy", name="")]),
            Case(
                _waiting(workers=[worker(4)]),
                "train.ipynb is running",
                None,
                timedelta(days=2),
                kernel_id="k1",
            ),
            Case(
                _waiting(gpu=steady(4)),
                "train.ipynb is running",
                None,
                timedelta(days=2),
                kernel_id="k1",
            ),
            _works(
                "busy.ipynb is running",
                "k2",
                kernels=[kernel("busy"), kernel("busy", name="busy.ipynb", kernel_id="k2")],
                workers=[worker(90, kernel_id="k2", name="busy.ipynb"), worker(1)],
            ),
        ),
    ),
    Row(
        "A cell runs, and neither what it has started nor a GPU has done anything for "
        "`busy_without_work` (1 day): it waits for input, a lock, a service elsewhere",
        "until then yes, from then on no",
        (
            Case(_waiting(), "train.ipynb is running", None, timedelta(hours=23), kernel_id="k1"),
            Case(_waiting(), idle_since=ago(hours=2, minutes=1), lasting=timedelta(hours=26)),
            Case(
                _waiting(workers=[worker(1.1)]),
                idle_since=ago(hours=2, minutes=1),
                lasting=timedelta(hours=26),
            ),
            Case(
                _waiting(),
                "train.ipynb is running",
                None,
                timedelta(days=2),
                IdlePolicy(silent_kernel_seconds=0),
                kernel_id="k1",
            ),
            Case(
                _waiting(workers=[worker(0, gpus=[0], gpu_memory_mib=900)]),
                "train.ipynb is running",
                None,
                timedelta(days=2),
                kernel_id="k1",
            ),
            Case(
                _waiting(workers=[worker(9, kernel_id=f"other{n}") for n in range(50)]),
                "train.ipynb is running",
                None,
                timedelta(days=2),
                kernel_id="k1",
            ),
            Case(
                _waiting(workers=None),
                "train.ipynb is running",
                None,
                timedelta(days=2),
                kernel_id="k1",
            ),
        ),
    ),
    Row(
        "A kernel is starting",
        "yes, for 2 minutes at most",
        (
            _works("train.ipynb is starting", "k1", kernels=[kernel("starting", ago(seconds=20))]),
            _idle(ago(minutes=10), kernels=[kernel("starting", ago(minutes=10))]),
            _idle(ago(minutes=10), kernels=[kernel("unknown", ago(minutes=10))]),
        ),
    ),
    Row(
        "A terminal runs a job in the foreground: Jupyter's, a `tmux` pane's, an ssh session's",
        "yes, except programs that wait for a person: editors (`vim`, `nano`, `emacs`…), pagers "
        "(`less`, `man`…), logs (`tail`, `journalctl`, `dmesg`), monitors (`top`, `htop`, `nvtop`, "
        "`nvidia-smi`, `watch`…), `tmux`, `screen`",
        (
            _works("python train.py runs in a terminal", terminals=terminal("python train.py")),
            _works("sleep 600 runs in a terminal", terminals=terminal("less log", "sleep 600")),
            _idle(terminals=terminal("vim x", "nano x", "emacs x", "less x", "man ls")),
            _idle(terminals=terminal("tail -f train.log", "journalctl -f", "dmesg -w")),
            _idle(terminals=terminal("top", "htop", "nvtop", "nvidia-smi -l", "watch ls")),
            _idle(terminals=terminal("tmux attach", "/usr/bin/screen")),
        ),
    ),
    Row(
        "A shell, an interpreter or a database client waits at its prompt, also behind `sudo` or "
        "`su`: `bash`, `python`, `ipython`, `R`, `julia`, `node`, `bc`, `psql`, `sqlite3`, `mysql`",
        "no",
        (_idle(terminals=terminal("")),),
    ),
    Row(
        "A job runs in the background (`&`, `nohup`, a daemon)",
        "by its GPU and CPU use, see the next two lines",
        (
            _works(
                "python train.py is using the CPU",
                terminals=terminal(""),
                cpu=steady(90),
                workers=[worker(90, kind="program", name="python train.py", kernel_id="")],
            ),
        ),
    ),
    Row(
        "A GPU is used at least `gpu_busy_percent` (5 %)",
        "yes",
        (
            _works("The GPU is in use", gpu=steady(5)),
            _works("The GPU is in use", gpu=in_pauses()),
            _works(
                "train.ipynb is using the GPU",
                "k1",
                kernels=[kernel()],
                gpu=steady(40),
                workers=[
                    worker(90, kind="program", name="make", kernel_id=""),
                    worker(2, gpus=[0], gpu_memory_mib=900),
                ],
            ),
            _idle(gpu=steady(4.9)),
            _idle(ago(seconds=60), gpu=[*steady(95, 60, ago(seconds=60)), *steady(0, 59)]),
        ),
    ),
    Row(
        "Kernels, terminals and what they have started use at least `cpu_busy_percent` (20 % of "
        "one core); Jupyter's own server does not count",
        "yes",
        (
            _works("A program of yours is using the CPU", cpu=steady(20)),
            _works(
                "train.ipynb is using the CPU",
                "k1",
                kernels=[kernel()],
                cpu=steady(90),
                workers=[worker(2, kind="program", name="make", kernel_id=""), worker(88)],
            ),
            _idle(cpu=steady(19)),
            _idle(cpu=[*steady(2, 60, ago(seconds=3)), *steady(100, 2)]),
        ),
    ),
    Row(
        "Somebody presses a key, a mouse button or scrolls in the notebook",
        "no work, but it starts the idle time over",
        (_idle(ago(minutes=3), last_input=ago(minutes=3)),),
    ),
    Row(
        "A cell has just ended",
        "no work, but it starts the idle time over",
        (_idle(ago(minutes=50), kernels=[kernel("idle", ago(minutes=50))]),),
    ),
    Row("A tab is open, connects, polls, autosaves", "no", (_idle(), _idle(kernels=[kernel()]))),
)


# --- what follows ----------------------------------------------------------------------------

BERLIN = "Mon-Fri 08:00-18:00 Europe/Berlin"
BY_HOURS = {"server": "1h", "working_hours": {"when": BERLIN, "server": "3h"}}


def berlin(clock: str, day: int = 3) -> datetime:
    """A time of a winter's day in Berlin."""
    return datetime.fromisoformat(f"2026-11-{day:02}T{clock}+01:00").astimezone(UTC)


@dataclass(frozen=True)
class Stop:
    """A line of the page's second table: idle words as an admin writes them, and a day in Berlin.

    The server starts on Tuesday, the 3rd of November, at 07:00.
    """

    idle: dict[str, Any]
    situation: str
    stop: str
    """As the page says it; what follows from `signals` is `stops_at`."""
    stops_at: datetime | None
    idle_since: datetime | None
    """None while something works."""
    extended_until: datetime | None = None
    chosen: float | None = None
    """The limit that its user chose, in seconds."""
    started_at: datetime = field(default=berlin("07:00"))


WHEN_IT_STOPS: Sequence[Stop] = (
    Stop(
        {"server": "1h"},
        "Idle since 13:00",
        "14:00",
        berlin("14:00"),
        berlin("13:00"),
    ),
    Stop({"server": "1h"}, "A cell runs", "not at all", None, None),
    Stop(
        {"server": "1h"},
        "Idle since 13:00; at 13:50 its user asks to keep it for 4 hours",
        "17:50",
        berlin("17:50"),
        berlin("13:00"),
        extended_until=berlin("17:50"),
    ),
    Stop(
        {"server": "1h", "user_may_set": {"server": ["15m", "8h"]}},
        "Idle since 13:00; its user has chosen 2 hours",
        "15:00",
        berlin("15:00"),
        berlin("13:00"),
        chosen=7200,
    ),
    Stop(
        {"server": "1h", "user_may_set": {"server": ["15m", "8h"]}},
        "The same, and 5 minutes chosen",
        "13:15",
        berlin("13:15"),
        berlin("13:00"),
        chosen=300,
    ),
    Stop({"max_age": "8h"}, "A cell runs", "15:00", berlin("15:00"), None),
    Stop(
        {"max_age": "8h"},
        "Idle since 13:00; its user asked to keep it until 17:00",
        "15:00",
        berlin("15:00"),
        berlin("13:00"),
        extended_until=berlin("17:00"),
    ),
    Stop(BY_HOURS, "Idle since 13:00", "16:00", berlin("16:00"), berlin("13:00")),
    Stop(
        BY_HOURS,
        "Idle since 17:50",
        "18:50: at 18:00 it has been idle for less than an hour",
        berlin("18:50"),
        berlin("17:50"),
    ),
    Stop(
        BY_HOURS,
        "Idle since 15:30",
        "18:00: it has been idle for longer than an hour then",
        berlin("18:00"),
        berlin("15:30"),
    ),
    Stop(
        BY_HOURS,
        "Idle since 07:30",
        "10:30: at 08:00 it has been idle for less than an hour",
        berlin("10:30"),
        berlin("07:30"),
    ),
    Stop({"server": 0}, "Idle since 13:00", "not at all", None, berlin("13:00")),
)
