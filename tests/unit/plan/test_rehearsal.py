"""A rehearsal before it begins, and what its starts mean afterwards: each rule on plain values."""

from __future__ import annotations

import io
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ec2spawner.core.profiles.choices import MAX_TEMPORARY, MIN_TEMPORARY
from ec2spawner.core.starts.outcome import Outcome
from ec2spawner.core.starts.phases import Phase
from ec2spawner.core.starts.summary import MeasuredStart
from ec2spawner.plan.costs import Durations, Price
from ec2spawner.plan.facts import Source
from ec2spawner.plan.rehearsal.command import has_agreed
from ec2spawner.plan.rehearsal.course import Course
from ec2spawner.plan.rehearsal.prediction import Prediction, prediction
from ec2spawner.plan.rehearsal.report import consent_words, lines, print_result
from ec2spawner.plan.rehearsal.request import (
    MAX_TIMEOUT,
    MIN_TIMEOUT,
    Rehearsal,
    rehearsal_of,
    why_not,
    why_unmeasured,
)
from ec2spawner.plan.rehearsal.result import Result, result_of
from ec2spawner.plan.rehearsal.users import left_by_earlier, names, until_of
from ec2spawner.plan.request import WrongRequest
from ec2spawner.provisioner.store.read_only import Starts, UserStart
from ec2spawner.wire import Market
from tests.unit.plan.test_plan_verdicts import FACTS, wanted

NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
SPOT = Price(Market.SPOT, "g4dn.xlarge", "us-east-1a", 0.36, 0.54)
ON_DEMAND = Price(Market.ON_DEMAND, "g4dn.xlarge", "", 0.72, 0.72)
USUAL = Durations(40, 80.0, 140.0, 60.0)


# --- users ---


@given(st.integers(0, 10**10), st.integers(1, 200))
def test_names_say_until_when_their_rehearsal_may_take(seconds: int, number: int) -> None:
    until = datetime.fromtimestamp(seconds, UTC)
    users = names(until, "0a9f", number)
    assert len(set(users)) == number
    assert {until_of(each) for each in users} == {until}
    assert all(each == each.lower() for each in users), "JupyterHub lowers them"


@pytest.mark.parametrize(
    "name",
    [
        "rehearsal-",
        "rehearsal-0001",
        "rehearsal-20261399t000000z-0a9f-0001",
        "ann-20261124t080000z-0a9f-0001",
    ],
)
def test_no_other_user_is_taken_for_one(name: str) -> None:
    assert left_by_earlier([name, f"{names(NOW, '0a9f', 1)[0]}-x"]) == {}


# --- before it begins ---


def asked(**changed: object) -> Rehearsal:
    arguments = {"rehearse": 5, "timeout": 1200.0, "profile": "t4", **changed}
    return rehearsal_of(Namespace(**arguments))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rehearse": -1}, "--rehearse=-1 is not within 1 to 200"),
        ({"rehearse": 201}, "--rehearse=201 is not within"),
        ({"timeout": 10.0}, "--timeout=10 is not within 30 to 7200"),
    ],
)
def test_a_request_out_of_bounds_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(WrongRequest, match=said):
        asked(**changed)


@given(st.floats(MIN_TIMEOUT, MAX_TIMEOUT))
def test_the_hub_ends_servers_that_outlive_the_rehearsal_and_not_before(timeout: float) -> None:
    rehearsal = Rehearsal(5, "t4", timeout)
    assert MIN_TEMPORARY <= rehearsal.temporary_seconds <= MAX_TEMPORARY
    assert rehearsal.temporary_seconds > timeout
    last_start_ends = timedelta(seconds=timeout + rehearsal.temporary_seconds)
    assert rehearsal.until(NOW) > NOW + last_start_ends


def test_what_is_short_for_the_class_may_do_for_the_rehearsal() -> None:
    class_of = wanted(60)
    assert why_not(FACTS, class_of, asked(rehearse=48), NOW) == ""
    refusal = why_not(FACTS, class_of, asked(rehearse=49), NOW)
    assert "49 servers cannot start: spot vCPU quota" in refusal
    assert "--even-if-short" in refusal


def test_without_the_store_nothing_could_be_measured() -> None:
    assert why_unmeasured(FACTS) == ""
    unread = replace(FACTS, unread={Source.STORE: "no such file"})
    assert "no such file" in why_unmeasured(unread)


def test_the_prediction_is_of_the_most_expensive_offer_and_the_slowest_start() -> None:
    found = prediction(10, 1200, [SPOT, ON_DEMAND], USUAL)
    assert found.usd == pytest.approx(10 * 0.72 * (140 + 60) / 3600)
    assert found.max_usd == pytest.approx(10 * 0.72 * (1200 + 600) / 3600)
    assert prediction(10, 1200, [], USUAL).usd is None


def test_consent_names_the_hub_and_the_cost() -> None:
    rehearsal = asked(rehearse=10)
    words = consent_words(rehearsal, "http://hub/", prediction(10, 1200, [ON_DEMAND], USUAL))
    assert '10 servers, all at once, of profile "t4" at http://hub/ for real' in words
    assert "about 0.40 USD, and 3.60 USD where" in words
    assert "No price is known" in consent_words(rehearsal, "x", Prediction(None, None, None))


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False)]
)
def test_a_person_at_a_terminal_is_asked(
    typed: str, agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert has_agreed("Costs money.", Namespace(yes=False)) is agreed


def test_nobody_agrees_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert not has_agreed("Costs money.", Namespace(yes=False))
    assert has_agreed("Costs money.", Namespace(yes=True))


# --- afterwards ---


def start(user: str, outcome: Outcome = Outcome.READY, total: float = 60.0) -> UserStart:
    seconds = {Phase.QUEUE: 1.0, Phase.BUY: 3.0, Phase.BOOT: total - 4.0}
    measured = MeasuredStart(
        f"lease-{user}", "t4", "spot", outcome, total, 0.0, tuple(map(seconds.get, Phase))
    )
    return UserStart(user, measured, "g4dn.xlarge", "us-east-1a")


def result(course: Course, found: Starts | None, number: int = 3) -> Result:
    return result_of(number, course, prediction(number, 1200, [SPOT], USUAL), found)


def printed(found: Result) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_result(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


READY = Course(ready={"a": 61.0, "b": 71.0, "c": 91.0}, stop_seconds=12.0)
MEASURED = Starts([start("a"), start("b", total=70), start("c", total=90)], 12_300_000, 0, 0)


def test_times_are_of_what_got_ready() -> None:
    found = result(READY, MEASURED)
    assert found.is_clean
    assert found.total is not None
    assert (found.total.median, found.total.max) == (70, 90)
    assert list(found.phases) == [Phase.QUEUE, Phase.BUY, Phase.BOOT]
    assert found.phases[Phase.BOOT].max == 86
    assert (found.usd, found.usd_lacks) == (pytest.approx(0.0123), "")
    [place] = found.places
    assert (place.market, place.zone, place.count) == ("spot", "us-east-1a", 3)
    said = printed(found)
    assert "3 of 3 servers got ready" in said
    assert "3 spot: g4dn.xlarge in us-east-1a" in said
    assert "Cost by the ledger: 0.0123 USD" in said


def test_failures_are_counted_by_reason() -> None:
    course = Course(
        ready={"a": 61.0},
        failed={"b": "EC2 has none", "c": "EC2 has none", "d": "a limit"},
        left={"d": "no answer"},
    )
    nowhere = replace(start("c", Outcome.SOLD_OUT), instance_type="", zone="")
    starts = [start("a"), start("b", Outcome.SOLD_OUT), nowhere]
    found = result(course, Starts(starts, 1, 1, 1), number=4)
    first, second = found.failures
    assert (first.outcome, first.message, first.count) == ("sold-out", "EC2 has none", 2)
    assert (second.outcome, second.count) == ("refused", 1)
    assert not found.is_clean
    assert found.total is not None
    assert found.total.count == 1
    assert "1 of the servers have not ended" in found.usd_lacks
    assert "no known price" in found.usd_lacks
    assert "1 of the starts got no instance" in found.usd_lacks


@pytest.mark.parametrize(
    ("left", "end"),
    [
        ({}, "3 of 3 starts did not succeed; nothing is left."),
        (
            {"i-1": "no answer"},
            "3 of 3 starts did not succeed; not everything could be removed. Fix: ec2spawner plan",
        ),
    ],
)
def test_where_no_server_got_ready_the_reasons_are_printed_without_times(
    left: dict[str, str], end: str
) -> None:
    course = Course(failed=dict.fromkeys("abc", "EC2 has none"), left=left)
    said = printed(result(course, Starts([start("a", Outcome.SOLD_OUT)], 0, 0, 0)))
    assert "0 of 3 servers got ready" in said
    assert "2 failed (refused): EC2 has none" in said
    assert "1 failed (sold-out): EC2 has none" in said
    assert end in said
    assert ("Not removed, and may still cost money: i-1: no answer" in said) is bool(left)
    assert "95th percentile" not in said
    assert "As their users see it" not in said


def test_what_is_left_of_servers_that_all_got_ready_is_the_only_complaint() -> None:
    said = printed(result(replace(READY, left={"c": "no answer"}), MEASURED))
    assert "3 of 3 servers got ready" in said
    assert "did not succeed" not in said
    assert "not everything could be removed" in said


def test_another_hubs_store_is_not_taken_for_free_of_charge() -> None:
    found = result(READY, Starts([], 0, 0, 0))
    assert found.usd is None
    assert any("The cost is unknown: the store knows none" in line for line in lines(found))
    assert result(READY, None).usd is None
