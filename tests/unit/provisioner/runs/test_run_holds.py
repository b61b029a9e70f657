"""Terms under which no run can start for now: how long, and what is remembered of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.limits.admission import Obstacle, Refusal
from ec2spawner.core.limits.bounds import Kind
from ec2spawner.core.runs.terms import Terms
from ec2spawner.provisioner.model.leases.run import Run, RunAttempt
from ec2spawner.provisioner.runtime.clock import Clock as HubClock
from ec2spawner.provisioner.state.run_holds import MIN_SECONDS, RunHolds
from ec2spawner.wire import Market
from tests.simulated_cloud import Clock

T4 = Terms("ann", "", "", "t4", None, None, "")

A10G = T4._replace(profile="a10g")

MINUTE = timedelta(minutes=1)

FULL = Refusal("user:ann", Obstacle.LIMIT, Kind.SERVERS, 1, 0, 1)


class Holds:
    """On a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.holds = RunHolds(HubClock(self.clock, self.clock.monotonic))


@pytest.fixture
def held() -> Holds:
    """T4s are held for a minute, by a limit of ann's."""
    found = Holds()
    found.holds.hold(T4, "no room", MINUTE, "user:ann")
    return found


def test_a_hold_is_of_its_terms_only(held: Holds) -> None:
    assert held.holds.is_held(T4)
    assert not held.holds.is_held(A10G)
    assert held.holds.message(T4) == "no room"
    assert held.holds.message(A10G) == ""


def test_what_is_over_stays_doubtful_until_it_is_tried(held: Holds) -> None:
    held.clock.advance(60)
    assert not held.holds.is_held(T4)
    assert held.holds.is_doubtful(T4)
    assert held.holds.message(T4) == "no room"
    held.holds.clear(T4)
    assert not held.holds.is_doubtful(T4)
    assert held.holds.message(T4) == ""


@pytest.mark.parametrize("by", [-7200, 7200])
def test_a_hold_lasts_as_long_when_the_clock_of_the_hub_is_set(held: Holds, by: float) -> None:
    held.clock.jump(by)
    held.clock.advance(59)
    assert held.holds.is_held(T4)
    held.clock.advance(1)
    assert not held.holds.is_held(T4)


def test_the_end_of_a_lease_releases_what_a_limit_of_its_scope_holds(held: Holds) -> None:
    held.holds.hold(A10G, "too dear", MINUTE)
    held.clock.advance(MIN_SECONDS)
    assert not held.holds.release(("user:eve", "hub"))
    assert held.holds.is_held(T4)
    assert held.holds.release(("user:ann", "hub"))
    assert not held.holds.is_held(T4)
    assert held.holds.is_held(A10G), "no limit holds these"


def test_a_limit_holds_some_seconds_however_many_leases_end(held: Holds) -> None:
    held.clock.advance(1)
    held.holds.release(("user:ann",))
    held.clock.advance(MIN_SECONDS - 2)
    held.holds.release(("user:ann",))
    assert held.holds.is_held(T4)
    held.clock.advance(1)
    assert not held.holds.is_held(T4)


def test_a_refusal_is_new_once_for_each_limit_as_long_as_runs_wait(held: Holds) -> None:
    holds = held.holds
    month = Refusal("hub", Obstacle.LIMIT, Kind.MONTH, 1, 0, 1)
    unknown = Refusal("hub", Obstacle.UNKNOWN_PRICE)
    for refusal in (FULL, month, unknown):
        assert holds.is_first_refusal(T4, refusal)
        assert not holds.is_first_refusal(T4, refusal)
    assert holds.is_first_refusal(A10G, FULL)
    holds.clear(T4)
    assert not holds.is_first_refusal(T4, FULL), "others still wait"
    holds.keep({A10G})
    assert holds.is_first_refusal(T4, FULL)


def test_retries_take_turns_and_leave_half_of_the_places_to_others() -> None:
    found = Holds()
    terms = [T4._replace(left_usd=float(n)) for n in range(5)]
    for each in terms:
        found.holds.hold(each, "no room", MINUTE)
        found.clock.advance(1)
    found.clock.advance(60)

    def retried(free: int, *, has_others: bool = True) -> list[float | None]:
        found.clock.advance(1)
        return [x.left_usd for x in found.holds.to_retry(terms, free, has_others=has_others)]

    assert retried(4) == [0, 1]
    assert retried(4) == [2, 3]
    assert sorted([len(retried(1)), len(retried(1))]) == [0, 1]
    assert retried(4, has_others=False)[0] == 0
    assert len(retried(100, has_others=False)) == 5


def test_nothing_is_left_of_terms_that_no_run_has(held: Holds) -> None:
    held.holds.is_first_refusal(T4, FULL)
    held.holds.keep({T4})
    assert held.holds.is_held(T4)
    held.holds.keep(set())
    assert held.holds.is_empty
    assert not held.holds.is_doubtful(T4)


# --- what terms are ---


def run(clock: Clock, number: int = 1, **fields: Any) -> Run:
    return Run(number, "ann", "", "x.py", "t4", "T4", "", clock(), **fields)


def test_a_run_has_other_terms_once_it_takes_any_price() -> None:
    clock = Clock()
    soon, later = clock() + MINUTE, clock() + 2 * MINUTE
    first = run(clock, max_spot_usd_per_hour=0.3, wait_until=soon)
    other = run(clock, 2, max_spot_usd_per_hour=0.3, wait_until=later)
    assert first.terms(clock()) == other.terms(clock())
    assert first.terms(clock()).spot_usd_per_hour == 0.3
    assert first.terms(soon) == run(clock, 3).terms(clock())
    assert other.terms(soon).spot_usd_per_hour == 0.3


def test_a_run_that_has_had_an_instance_has_terms_of_its_own() -> None:
    """What is left of its cap may not suffice, and its volume is in a zone that sells nothing."""
    clock = Clock()
    attempt = RunAttempt("l-1", "g4dn.xlarge", "us-east-1a", Market.SPOT, 0.25, "interruption")
    terms = run(clock, max_usd=1.0, attempts=(attempt,)).terms(clock())
    assert (terms.left_usd, terms.zone) == (0.75, "us-east-1a")
    assert terms != run(clock, 2, max_usd=1.0).terms(clock())
