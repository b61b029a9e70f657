"""Who may have a kept instance, when it goes, and whose key counts: whatever happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.instances.matching import Need, Supply
from ec2spawner.core.instances.retention_rules import (
    FAILURES,
    LINGERS_AFTER,
    STOPS_AFTER,
    AfterStop,
    Kept,
    decide,
    may_rebind,
    may_take,
    moved_with_clock,
    why_surplus,
)
from ec2spawner.wire import Market

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

names = st.sampled_from(["ada", "eve", ""])
keys = st.sampled_from(["k1", "k2"])
types = st.sampled_from(["g4dn.xlarge", "g5.xlarge"])
zones = st.sampled_from(["us-east-1a", "us-east-1b"])
markets = st.sampled_from(Market)
instants = st.integers(-20, 20).map(lambda minutes: NOON + timedelta(minutes=minutes))
reasons = st.sampled_from(
    ["user", "idle", "admin", "budget", "interruption", "max-age", "hub", "capacity", "failed"]
)


@st.composite
def kept_instances(draw: st.DrawFn) -> Kept:
    return Kept(
        instance_id="i-1",
        user=draw(names),
        server=draw(names),
        lease_id="lease-1",
        profile="t4",
        profile_name="T4",
        then=draw(st.sampled_from(["linger", "stop"])),
        fit_key=draw(keys),
        kept_at=NOON,
        until=draw(instants),
        launched_at=draw(instants),
        disk_gib=100,
        asked_at=draw(st.none() | instants),
    )


@st.composite
def needs(draw: st.DrawFn) -> Need:
    return Need(
        lease_id="lease-2",
        base_key="any",
        instance_types=draw(st.frozensets(types)),
        zones=draw(st.frozensets(zones)),
        markets=draw(st.frozensets(markets)),
        requested_at=draw(instants),
    )


@st.composite
def machines(draw: st.DrawFn) -> Supply:
    return Supply(
        "i-1",
        "any",
        frozenset({draw(types)}),
        frozenset({draw(zones)}),
        frozenset({draw(markets)}),
    )


@given(kept_instances(), machines(), needs(), names, names, keys)
def test_only_the_same_server_of_the_same_user_reuses_it(
    kept: Kept, machine: Supply, need: Need, user: str, server: str, fit_key: str
) -> None:
    if may_take(kept, machine, need, user, server, fit_key):
        assert (user, server) == (kept.user, kept.server)
        assert fit_key == kept.fit_key
        assert machine.instance_types <= need.instance_types
        assert machine.zones <= need.zones
        assert machine.markets <= need.markets
        assert need.requested_at < kept.until


@given(kept_instances(), machines())
def test_its_own_server_may_reuse_it_within_the_retention_time(kept: Kept, machine: Supply) -> None:
    need = Need("lease-2", "any", machine.instance_types, machine.zones, machine.markets, NOON)
    takes = may_take(kept, machine, need, kept.user, kept.server, kept.fit_key)
    assert takes == (kept.until > NOON)


@given(kept_instances(), instants, st.booleans(), st.booleans(), st.booleans())
def test_it_is_retained_only_while_reuse_is_possible(
    kept: Kept, now: datetime, wanted: bool, elsewhere: bool, silent: bool
) -> None:
    why = why_surplus(kept, now, wanted=wanted, elsewhere=elsewhere, is_silent=silent)
    assert bool(why) == (now >= kept.until or not wanted or elsewhere or silent)


@given(kept_instances(), st.integers(0, 20), st.integers(-(10**7), 10**7))
def test_a_clock_change_does_not_affect_the_remaining_time(
    kept: Kept, passed: int, minutes: int
) -> None:
    by, before = timedelta(minutes=minutes), kept.kept_at + timedelta(minutes=passed)
    moved = moved_with_clock(kept, by, before + by)
    assert moved.until - (before + by) == kept.until - before


@given(kept_instances(), st.integers(0, 60))
def test_a_clock_wrong_by_years_retains_nothing_for_years(kept: Kept, years: int) -> None:
    by, now = timedelta(days=365 * years), NOON + timedelta(minutes=20)
    moved = moved_with_clock(kept, by, now)
    assert moved.until - now <= kept.until - kept.kept_at


@given(kept_instances(), st.none() | instants, instants)
def test_another_key_is_accepted_once_for_each_requested_start(
    kept: Kept, bound_at: datetime | None, pending_time: datetime
) -> None:
    if may_rebind(kept, bound_at, pending_time):
        assert kept.then == "stop"
        assert kept.asked_at is not None
        assert pending_time > kept.launched_at, "a document of an earlier boot proves nothing"
        assert not may_rebind(kept, kept.asked_at, pending_time), "once bound after it, no more"
    assert not may_rebind(replace(kept, asked_at=None), bound_at, pending_time)


@given(
    st.sampled_from(["terminate", "linger", "stop"]),
    reasons,
    markets,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 4),
)
def test_the_fate_of_an_instance_after_a_stop(
    then: str,
    reason: str,
    market: Market,
    agent_can: bool,
    was_kept: bool,
    reclaimed: bool,
    already: int,
) -> None:
    after = AfterStop(then, 600.0, per_user=2)  # type: ignore[arg-type]
    decision = decide(
        after,
        reason,
        market=market,
        agent_can=agent_can,
        was_kept=was_kept,
        reclaimed=reclaimed,
        stopped_already=already,
    )
    if decision.then == "linger":
        assert then == "linger"
        assert reason in LINGERS_AFTER
    if decision.then == "stop":
        assert then == "stop"
        assert reason in STOPS_AFTER or (was_kept and reason in FAILURES)
        assert market is Market.ON_DEMAND
        assert already < 2
    if decision.then != "terminate":
        assert agent_can
        assert not reclaimed
        assert not decision.why_not
    elif then != "terminate" and reason == "user":
        assert decision.why_not, "a user who could expect it gets the reason"
