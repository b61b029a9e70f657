"""Idleness: what is said and what follows, and what must hold whatever happens.

The rules themselves are cases, see `idle_cases.py`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ec2spawner.core.idle.activity import Reading, Signals
from ec2spawner.core.idle.policy import bounds
from ec2spawner.core.idle.stop_decision import Past, assess, stop_at
from ec2spawner.core.text.durations import approximate, in_words
from ec2spawner.wire import IdlePolicy, KernelState, TerminalState, WorkingHours
from tests.idle_cases import NOW, STARTED, ago, kernel, steady, worker

POLICY = IdlePolicy(server_seconds=3600, kernel_seconds=7200, warn_seconds=600)
HOURS = WorkingHours(
    days=[0, 1, 2, 3, 4],
    from_minute=480,
    to_minute=1080,
    timezone="Europe/Berlin",
    server_seconds=10800,
)


def test_an_extension_postpones_the_stop() -> None:
    until = NOW + timedelta(hours=3)
    idleness, _ = assess(Signals(STARTED, extended_until=until), POLICY, NOW)
    assert idleness.stop_at == until
    assert idleness.warn_at == until - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("asked", "max_age", "allowed"),
    [
        ((900, 28800), 0, (900, 28800)),
        ((900, 28800), 7200, (900, 7200)),
        ((3600, 3600), 0, (3600, 3600)),
        ((10800, 28800), 7200, (7200, 7200)),
    ],
)
def test_max_age_bounds_the_choice_of_an_idle_time(
    asked: tuple[float, float], max_age: float, allowed: tuple[float, float]
) -> None:
    shortest, longest = asked
    policy = POLICY.model_copy(
        update={
            "user_server_min_seconds": shortest,
            "user_server_max_seconds": longest,
            "max_age_seconds": max_age,
        }
    )
    assert bounds(policy) == allowed


def test_an_extension_never_shortens() -> None:
    signals = Signals(STARTED, last_input=NOW, extended_until=NOW + timedelta(minutes=1))
    idleness, _ = assess(signals, POLICY, NOW)
    assert idleness.stop_at == NOW + timedelta(hours=1)


def test_max_age_ends_active_servers_too() -> None:
    policy = POLICY.model_copy(update={"max_age_seconds": 6 * 3600})
    signals = Signals(STARTED, kernels=[kernel("busy")], extended_until=NOW + timedelta(days=1))
    idleness, _ = assess(signals, policy, NOW)
    assert idleness.stop_at == STARTED + timedelta(hours=6)


def test_rules_that_are_off() -> None:
    off = IdlePolicy(
        server_seconds=0, kernel_seconds=0, warn_seconds=0, gpu_busy_percent=0, cpu_busy_percent=0
    )
    signals = Signals(STARTED, kernels=[kernel()], gpu=steady(90), cpu=steady(90))
    idleness, _ = assess(signals, off, NOW)
    assert idleness.idle_since == STARTED
    assert (idleness.stop_at, idleness.warn_at, idleness.cull_kernels) == (None, None, [])


def test_the_longest_idle_kernels_are_culled_first() -> None:
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


def test_no_kernel_is_culled_during_computation() -> None:
    """A thread of an idle kernel may be what computes."""
    for signals in (
        Signals(STARTED, kernels=[kernel()], gpu=steady(50)),
        Signals(STARTED, kernels=[kernel()], cpu=steady(50)),
    ):
        assert assess(signals, POLICY, NOW)[0].cull_kernels == []


@pytest.mark.parametrize(
    ("read", "culled"),
    [
        (steady(1), ["k1"]),
        (steady(1, 60, ago(seconds=5)), ["k1"]),
        (steady(1, 60, ago(seconds=6)), []),
        (steady(50, 60, ago(minutes=5)), []),
        ([*steady(1, 30, ago(seconds=30)), *steady(1, 20)], []),
        ([*steady(1, 30, ago(seconds=90)), *steady(1, 61)], ["k1"]),
    ],
    ids=["read", "just now", "not lately", "not for long", "read again", "read for long again"],
)
def test_no_kernel_is_culled_without_observations(read: list[Reading], culled: list[str]) -> None:
    signals = Signals(STARTED, kernels=[kernel()], cpu=read)
    assert assess(signals, POLICY, NOW)[0].cull_kernels == culled


def test_no_kernel_is_culled_during_an_extension_or_user_activity() -> None:
    for signals, culled in (
        (Signals(STARTED, kernels=[kernel()], extended_until=NOW + timedelta(minutes=1)), []),
        (Signals(STARTED, kernels=[kernel()], extended_until=NOW), ["k1"]),
        (Signals(STARTED, kernels=[kernel()], last_input=ago(minutes=119)), []),
        (Signals(STARTED, kernels=[kernel()], last_input=ago(minutes=121)), ["k1"]),
    ):
        assert assess(signals, POLICY, NOW)[0].cull_kernels == culled


def test_activity_is_remembered_after_its_kernel_has_ended() -> None:
    _, past = assess(Signals(STARTED, kernels=[kernel("busy")]), POLICY, NOW)
    later = NOW + timedelta(minutes=5)
    idleness, _ = assess(Signals(STARTED), POLICY, later, past, 300)
    assert idleness.idle_since == NOW


@pytest.mark.parametrize("jump", [timedelta(hours=3), timedelta(hours=-3)])
def test_a_clock_change_restarts_the_idle_time(jump: timedelta) -> None:
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
    assert idleness.busy is not None
    shown = str(idleness.busy.params["name"])
    assert len(shown) <= 80
    assert shown.isprintable()


def test_working_hours_decide_when_an_idle_server_stops() -> None:
    policy = POLICY.model_copy(update={"working_hours": HOURS})
    idleness, _ = assess(Signals(STARTED, last_input=ago(minutes=10)), policy, NOW)
    assert idleness.stop_at == NOW + timedelta(hours=2, minutes=50)


def test_a_silent_kernel_is_culled_when_it_has_been_idle_for_long_enough() -> None:
    """Idle since it counts as work no more; and in its place among the others."""
    policy = IdlePolicy(kernel_seconds=3600, silent_kernel_seconds=7200)
    silent = kernel("busy", kernel_id="silent")
    others = [
        KernelState(id=name, execution_state="idle", last_activity=ago(hours=hours))
        for name, hours in (("older", 4), ("younger", 1.2), ("young", 0.5))
    ]
    past, at, culled = None, ago(hours=3, minutes=30), {}
    while at <= NOW:
        seen = Signals(ago(days=2), [silent.model_copy(update={"last_activity": at}), *others])
        seen = Signals(seen.started_at, seen.kernels, workers=[worker(1.1, kernel_id="silent")])
        idleness, past = assess(seen, policy, at, past, 60 if past else None)
        culled[at] = idleness.cull_kernels
        at += timedelta(minutes=1)
    assert "silent" not in culled[ago(minutes=31)]
    assert culled[NOW] == ["older", "silent", "younger"]


def test_a_silent_kernel_counts_again_once_it_is_active() -> None:
    policy = IdlePolicy(silent_kernel_seconds=600)
    past, at = None, ago(minutes=30)
    for cpu in [0.0] * 20 + [50.0] * 2:
        seen = Signals(STARTED, [kernel("busy", at)], workers=[worker(cpu)])
        idleness, past = assess(seen, policy, at, past, 60 if past else None)
        assert (idleness.idle_since is None) == (at < ago(minutes=20) or cpu > 0)
        at += timedelta(minutes=1)


def test_a_remote_kernels_state_is_trusted() -> None:
    """The use of a gateway's kernel cannot be observed."""
    policy = IdlePolicy(silent_kernel_seconds=60)
    elsewhere = kernel("busy").model_copy(update={"pid": None})
    past = None
    for minutes in range(10, 0, -1):
        seen = Signals(STARTED, [elsewhere], workers=[])
        idleness, past = assess(seen, policy, ago(minutes=minutes), past, 60 if past else None)
        assert idleness.busy_because == "train.ipynb is running"


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


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (40, "40 seconds"),
        (60, "1 minute"),
        (100, "2 minutes"),
        (1200, "20 minutes"),
        (3600, "1 hour"),
        (5400, "1.5 hours"),
        (86400, "1 day"),
        (259200, "3 days"),
    ],
)
def test_durations_in_one_unit(seconds: float, words: str) -> None:
    assert approximate(seconds) == words


# --- whatever happens ------------------------------------------------------------------------

instants = st.integers(-6 * 3600, 600).map(lambda seconds: NOW + timedelta(seconds=seconds))
kernels = st.builds(
    KernelState,
    id=st.uuids().map(str),
    pid=st.none() | st.just(7),
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
    silent_kernel_seconds=st.sampled_from([0, 1, 86400]),
    working_hours=st.none() | st.just(HOURS),
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
    workers=st.none() | st.just([]),
)


@given(signals, policies)
def test_any_assessment_is_consistent(seen: Signals, policy: IdlePolicy) -> None:
    idleness, past = assess(seen, policy, NOW)
    assert (idleness.idle_since is None) == (idleness.busy is not None)
    assert bool(idleness.busy_because) == (idleness.busy is not None)
    assert STARTED <= past.last_active <= NOW
    if any(each.execution_state == "busy" for each in seen.kernels):
        assert idleness.idle_since is None
    busy = {each.id for each in seen.kernels if each.execution_state != "idle"}
    assert not busy & set(idleness.cull_kernels)
    if idleness.idle_since is None and not policy.max_age_seconds:
        assert idleness.stop_at is None
    if idleness.stop_at is not None and not policy.max_age_seconds:
        limits = [policy.server_seconds]
        limits += [policy.working_hours.server_seconds] if policy.working_hours else []
        shortest = min(limit for limit in limits if limit)
        assert idleness.stop_at >= idleness.idle_since + timedelta(seconds=shortest)
    if idleness.warn_at is not None:
        assert (idleness.idle_since or STARTED) <= idleness.warn_at or (
            idleness.warn_at == idleness.stop_at
        )
        assert idleness.warn_at <= idleness.stop_at


@given(signals, policies)
def test_last_activity_never_moves_back(seen: Signals, policy: IdlePolicy) -> None:
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
    """By the monotonic clock, however often the wall clock is set."""
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


@given(signals, policies, st.integers(1, 100))
def test_unchanged_state_does_not_move_the_stop(
    seen: Signals, policy: IdlePolicy, minutes: int
) -> None:
    """An open tab without input is just this: the server's time runs out."""
    assume(not any(each.execution_state != "idle" for each in seen.kernels))
    assume(not any(each.foreground == "sleep 9" for each in seen.terminals))
    seen = Signals(STARTED, seen.kernels, last_input=seen.last_input)
    begun = NOW + timedelta(minutes=20)
    idleness, past = assess(seen, policy, begun)
    for minute in range(1, minutes + 1):
        at = begun + timedelta(minutes=minute)
        later, past = assess(seen, policy, at, past, 60)
        assert (later.idle_since, later.stop_at) == (idleness.idle_since, idleness.stop_at)
        assert set(idleness.cull_kernels) <= set(later.cull_kernels)


working = st.sampled_from(
    [
        Signals(STARTED, kernels=[kernel("busy")], workers=[worker(5)]),
        Signals(STARTED, kernels=[kernel("busy")], workers=[worker(0)], gpu=steady(5)),
        Signals(STARTED, terminals=[TerminalState(name="1", foreground="sleep 99999")]),
        Signals(STARTED, gpu=steady(100)),
        Signals(STARTED, cpu=steady(100)),
    ]
)


@given(st.lists(st.tuples(working, st.floats(1, 60)), min_size=1, max_size=40))
def test_the_default_policy_stops_no_running_work(story: list[tuple[Signals, float]]) -> None:
    past, now = None, NOW
    for seen, seconds in story * 3:
        now += timedelta(seconds=seconds)
        moved = Signals(
            STARTED,
            seen.kernels,
            seen.terminals,
            gpu=[Reading(now - (NOW - each.at), each.percent) for each in seen.gpu],
            cpu=[Reading(now - (NOW - each.at), each.percent) for each in seen.cpu],
            workers=seen.workers,
        )
        idleness, past = assess(moved, IdlePolicy(), now, past, seconds if past else None)
        assert (idleness.idle_since, idleness.stop_at) == (None, None)


@given(signals, policies, st.floats(1, 10 * 86400))
def test_max_age_always_ends(seen: Signals, policy: IdlePolicy, age: float) -> None:
    policy = policy.model_copy(update={"max_age_seconds": age})
    idleness, _ = assess(seen, policy, NOW)
    assert idleness.stop_at is not None
    assert idleness.stop_at <= seen.started_at + timedelta(seconds=age)


@given(policies, instants, st.none() | instants)
def test_an_extension_moves_the_stop_to_its_own_end_at_most(
    policy: IdlePolicy, idle_since: datetime, until: datetime | None
) -> None:
    without = stop_at(policy, STARTED, idle_since, None)
    extended = stop_at(policy, STARTED, idle_since, until)
    assert (without is None) == (extended is None)
    if without is not None and extended is not None:
        assert without <= extended <= max(without, until or without)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 10)), max_size=60))
def test_no_kernel_is_ignored_before_the_silence_limit(
    story: list[tuple[float, float]],
) -> None:
    """By elapsed time, whatever the wall clock says."""
    policy = IdlePolicy(silent_kernel_seconds=200, server_seconds=3600)
    past, used_at, elapsed = None, 0.0, 0.0
    for seconds, percent in story:
        elapsed += seconds
        seen = Signals(STARTED, [kernel("busy", NOW)], workers=[worker(percent)])
        idleness, past = assess(seen, policy, NOW, past, seconds if past else None)
        if percent >= 10:
            used_at = elapsed
        if idleness.idle_since is not None:
            assert elapsed - used_at >= policy.silent_kernel_seconds - 0.001
