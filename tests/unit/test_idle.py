"""Idleness: the rules as a table, and what must hold whatever happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.idle import Past, Reading, Signals, assess, in_words
from ec2spawner.wire import IdlePolicy, KernelState, TerminalState

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
STARTED = NOW - timedelta(hours=5)
POLICY = IdlePolicy(server_seconds=3600, kernel_seconds=7200, warn_seconds=600)


def ago(**units: float) -> datetime:
    return NOW - timedelta(**units)


def kernel(
    state: str = "idle", active: datetime = STARTED, name: str = "train.ipynb"
) -> KernelState:
    return KernelState(id="k1", name=name, execution_state=state, last_activity=active)


def terminal(foreground: str = "") -> TerminalState:
    return TerminalState(name="1", foreground=foreground)


def steady(percent: float, seconds: int = 60, end: datetime = NOW) -> list[Reading]:
    """One reading a second up to `end`."""
    return [
        Reading(end - timedelta(seconds=seconds - each), percent) for each in range(seconds + 1)
    ]


WORKS = {
    "a busy kernel": (
        Signals(STARTED, kernels=[kernel("busy")]),
        "train.ipynb is running",
    ),
    "a busy kernel without a notebook": (
        Signals(STARTED, kernels=[kernel("busy", name="")]),
        "A kernel is running",
    ),
    "a terminal's foreground job": (
        Signals(STARTED, terminals=[terminal("python train.py")]),
        "python train.py runs in a terminal",
    ),
    "a sleep in a terminal": (
        Signals(STARTED, terminals=[terminal("sleep 600")]),
        "sleep 600 runs in a terminal",
    ),
    "GPU use": (Signals(STARTED, gpu=steady(40)), "The GPU is in use"),
    "CPU use": (Signals(STARTED, cpu=steady(90)), "A program of yours is using the CPU"),
    "GPU use with pauses between batches": (
        Signals(
            STARTED,
            gpu=[Reading(ago(seconds=60 - s), 90.0 if s % 8 < 2 else 0.0) for s in range(60)],
        ),
        "The GPU is in use",
    ),
    "a kernel that starts": (
        Signals(STARTED, kernels=[kernel("starting", ago(seconds=20))]),
        "train.ipynb is starting",
    ),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_works(name: str) -> None:
    signals, because = WORKS[name]
    idleness, past = assess(signals, POLICY, NOW)
    assert idleness.busy_because == because
    assert idleness.idle_since is None
    assert idleness.stop_at is None
    assert idleness.warn_at is None
    assert idleness.sentence == f"{because}, so this server stays on."
    assert past.last_active == NOW


IDLE = {
    "nothing at all": (Signals(STARTED), STARTED),
    "an idle kernel": (
        Signals(STARTED, kernels=[kernel("idle", ago(minutes=50))]),
        ago(minutes=50),
    ),
    "typing": (Signals(STARTED, last_input=ago(minutes=3)), ago(minutes=3)),
    "a shell at its prompt": (Signals(STARTED, terminals=[terminal()]), STARTED),
    "a pager that was left open": (Signals(STARTED, terminals=[terminal("less log")]), STARTED),
    "a log that was left open": (
        Signals(STARTED, terminals=[terminal("journalctl -f"), terminal("tail -f train.log")]),
        STARTED,
    ),
    "a monitor that was left open": (
        Signals(STARTED, terminals=[terminal("watch nvidia-smi")]),
        STARTED,
    ),
    "a GPU at rest": (Signals(STARTED, gpu=steady(2)), STARTED),
    "a CPU at rest": (Signals(STARTED, cpu=steady(8)), STARTED),
    "a page load": (
        Signals(STARTED, cpu=[*steady(2, 60, ago(seconds=3)), *steady(100, 2)]),
        STARTED,
    ),
    "a training run that has ended": (
        Signals(STARTED, gpu=[*steady(95, 60, ago(seconds=60)), *steady(0, 59)]),
        ago(seconds=60),
    ),
    "a kernel stuck in its start": (
        Signals(STARTED, kernels=[kernel("starting", ago(minutes=10))]),
        ago(minutes=10),
    ),
    "a kernel of which nothing is known": (
        Signals(STARTED, kernels=[kernel("unknown", ago(minutes=10))]),
        ago(minutes=10),
    ),
}


@pytest.mark.parametrize("name", IDLE)
def test_what_does_not_work(name: str) -> None:
    signals, since = IDLE[name]
    idleness, _ = assess(signals, POLICY, NOW)
    assert idleness.idle_since == since
    assert idleness.busy_because == ""
    assert idleness.stop_at == since + timedelta(hours=1)
    assert idleness.warn_at == since + timedelta(minutes=50)


def test_the_sentence_of_an_idle_server() -> None:
    idleness, _ = assess(Signals(STARTED, last_input=ago(minutes=10)), POLICY, NOW)
    assert idleness.sentence == (
        "Nothing has worked here since 13:50 UTC. It stops after 1 hour without work: "
        "no running cell, no busy terminal, no GPU use and nobody typing."
    )


def test_an_extension_is_kept_and_said() -> None:
    until = NOW + timedelta(hours=3)
    idleness, _ = assess(Signals(STARTED, extended_until=until), POLICY, NOW)
    assert idleness.stop_at == until
    assert idleness.warn_at == until - timedelta(minutes=10)
    assert idleness.sentence.endswith("You asked to keep it until 17:00 UTC.")


def test_an_extension_never_shortens() -> None:
    signals = Signals(STARTED, last_input=NOW, extended_until=NOW + timedelta(minutes=1))
    idleness, _ = assess(signals, POLICY, NOW)
    assert idleness.stop_at == NOW + timedelta(hours=1)


def test_max_age_ends_work_too() -> None:
    policy = POLICY.model_copy(update={"max_age_seconds": 6 * 3600})
    signals = Signals(STARTED, kernels=[kernel("busy")], extended_until=NOW + timedelta(days=1))
    idleness, _ = assess(signals, policy, NOW)
    assert idleness.stop_at == STARTED + timedelta(hours=6)
    assert idleness.sentence.endswith("Whatever runs, it stops 6 hours after its start.")


def test_rules_that_are_off() -> None:
    off = IdlePolicy(
        server_seconds=0, kernel_seconds=0, warn_seconds=0, gpu_busy_percent=0, cpu_busy_percent=0
    )
    signals = Signals(STARTED, kernels=[kernel()], gpu=steady(90), cpu=steady(90))
    idleness, _ = assess(signals, off, NOW)
    assert idleness.idle_since == STARTED
    assert (idleness.stop_at, idleness.warn_at, idleness.cull_kernels) == (None, None, [])
    assert idleness.sentence == "Nothing has worked here since 09:00 UTC."


def test_idle_kernels_are_culled_the_longest_idle_first() -> None:
    def one(name: str, state: str, hours: float) -> KernelState:
        return KernelState(id=name, execution_state=state, last_activity=ago(hours=hours))

    kernels = [
        one("lunch", "idle", 1),
        one("old", "idle", 3),
        one("older", "idle", 4),
        one("busy", "busy", 4),
        one("starting", "starting", 4),
    ]
    idleness, _ = assess(Signals(STARTED, kernels=kernels), POLICY, NOW)
    assert idleness.cull_kernels == ["older", "old"]


def test_no_kernel_is_culled_while_something_computes() -> None:
    """A thread of an idle kernel may be what computes."""
    for signals in (
        Signals(STARTED, kernels=[kernel()], gpu=steady(50)),
        Signals(STARTED, kernels=[kernel()], cpu=steady(50)),
    ):
        assert assess(signals, POLICY, NOW)[0].cull_kernels == []


def test_no_kernel_is_culled_under_who_keeps_the_server_or_works_in_it() -> None:
    for signals, culled in (
        (Signals(STARTED, kernels=[kernel()], extended_until=NOW + timedelta(minutes=1)), []),
        (Signals(STARTED, kernels=[kernel()], extended_until=NOW), ["k1"]),
        (Signals(STARTED, kernels=[kernel()], last_input=ago(minutes=119)), []),
        (Signals(STARTED, kernels=[kernel()], last_input=ago(minutes=121)), ["k1"]),
    ):
        assert assess(signals, POLICY, NOW)[0].cull_kernels == culled


def test_work_is_remembered_when_its_kernel_is_gone() -> None:
    _, past = assess(Signals(STARTED, kernels=[kernel("busy")]), POLICY, NOW)
    later = NOW + timedelta(minutes=5)
    idleness, _ = assess(Signals(STARTED), POLICY, later, past, 300)
    assert idleness.idle_since == NOW


@pytest.mark.parametrize("jump", [timedelta(hours=3), timedelta(hours=-3)])
def test_a_clock_that_is_set_starts_idle_time_over(jump: timedelta) -> None:
    signals = Signals(STARTED, kernels=[kernel("idle", ago(minutes=59))])
    _, past = assess(signals, POLICY, NOW)
    after = NOW + timedelta(seconds=1) + jump
    idleness, past = assess(signals, POLICY, after, past, 1)
    assert idleness.idle_since == after
    assert idleness.cull_kernels == []
    idleness, _ = assess(signals, POLICY, after + timedelta(seconds=1), past, 1)
    assert idleness.idle_since == after
    assert idleness.cull_kernels == []


def test_a_hostile_name_stays_a_short_line() -> None:
    name = "a\nb\x1b[31m" + "x" * 490
    idleness, _ = assess(Signals(STARTED, kernels=[kernel("busy", name=name)]), POLICY, NOW)
    assert len(idleness.sentence) < 200
    assert idleness.sentence.isprintable()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (45, "45 seconds"),
        (60, "1 minute"),
        (5400, "1 hour 30 minutes"),
        (7200, "2 hours"),
        (90061, "1 day 1 hour"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


# --- whatever happens ------------------------------------------------------------------------

instants = st.integers(-6 * 3600, 600).map(lambda seconds: NOW + timedelta(seconds=seconds))
kernels = st.builds(
    KernelState,
    id=st.uuids().map(str),
    name=st.text(max_size=500),
    execution_state=st.sampled_from(["idle", "busy", "starting", "unknown"]),
    last_activity=instants,
)
terminals = st.builds(
    TerminalState,
    name=st.just("1"),
    foreground=st.sampled_from(["", "", "less", "vim x", "sleep 9", "python a.py", "/usr/bin/top"]),
)
readings = st.lists(
    st.builds(Reading, at=instants, percent=st.floats(0, 400, allow_nan=False)), max_size=30
).map(lambda found: sorted(found, key=lambda reading: reading.at))
policies = st.builds(
    IdlePolicy,
    server_seconds=st.sampled_from([0, 1, 60, 3600, 86400]),
    kernel_seconds=st.sampled_from([0, 1, 60, 7200]),
    warn_seconds=st.sampled_from([0, 1, 600, 100000]),
    max_age_seconds=st.sampled_from([0, 1, 86400]),
    gpu_busy_percent=st.sampled_from([0, 5, 100]),
    cpu_busy_percent=st.sampled_from([0, 20, 200]),
)
signals = st.builds(
    Signals,
    started_at=st.just(STARTED),
    kernels=st.lists(kernels, max_size=3),
    terminals=st.lists(terminals, max_size=2),
    last_input=st.none() | instants,
    extended_until=st.none() | instants,
    gpu=readings,
    cpu=readings,
)


@given(signals, policies)
def test_any_assessment_makes_sense(seen: Signals, policy: IdlePolicy) -> None:
    idleness, past = assess(seen, policy, NOW)
    assert (idleness.idle_since is None) == bool(idleness.busy_because)
    assert STARTED <= past.last_active <= NOW
    if any(each.execution_state == "busy" for each in seen.kernels):
        assert idleness.idle_since is None
    busy = {each.id for each in seen.kernels if each.execution_state != "idle"}
    assert not busy & set(idleness.cull_kernels)
    if idleness.idle_since is None and not policy.max_age_seconds:
        assert idleness.stop_at is None
    if idleness.stop_at is not None and not policy.max_age_seconds:
        assert idleness.stop_at >= idleness.idle_since + timedelta(seconds=policy.server_seconds)
    if idleness.warn_at is not None:
        assert (idleness.idle_since or STARTED) <= idleness.warn_at or (
            idleness.warn_at == idleness.stop_at
        )
        assert idleness.warn_at <= idleness.stop_at
    assert len(idleness.sentence) <= 500


@given(signals, policies)
def test_what_is_active_never_becomes_less(seen: Signals, policy: IdlePolicy) -> None:
    past = Past(last_active=NOW - timedelta(seconds=7), assessed_at=NOW - timedelta(seconds=1))
    _, after = assess(seen, policy, NOW, past, 1)
    assert after.last_active >= past.last_active


steps = st.lists(
    st.tuples(
        st.floats(0.5, 30),
        st.sampled_from([0, 0, 0, 0, -86400, -3600, -60, 60, 3600, 86400]),
        st.booleans(),
    ),
    max_size=40,
)


@given(steps)
def test_nothing_stops_before_it_was_idle_for_long_enough(
    story: list[tuple[float, int, bool]],
) -> None:
    """By a clock that nobody sets, however often somebody sets the other one."""
    policy = IdlePolicy(server_seconds=120, kernel_seconds=60)
    monotonic, worked_at, wall = 0.0, 0.0, NOW
    seen = Signals(NOW)
    _, past = assess(seen, policy, wall)
    for seconds, jump, works in story:
        monotonic += seconds
        wall += timedelta(seconds=seconds + jump)
        state = "busy" if works else "idle"
        known = max(past.last_active, NOW) if not works else wall
        seen = Signals(NOW, kernels=[kernel(state, min(known, wall))])
        idleness, past = assess(seen, policy, wall, past, seconds)
        if works:
            worked_at = monotonic
        if idleness.stop_at is not None and idleness.stop_at <= wall:
            assert monotonic - worked_at >= policy.server_seconds - 0.001
        if idleness.cull_kernels:
            assert monotonic - worked_at >= policy.kernel_seconds - 0.001
