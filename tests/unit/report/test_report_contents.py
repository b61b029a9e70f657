"""Sums of the ledger as lines of a report: nothing is lost between them."""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.report.contents import DIMENSIONS
from ec2spawner.report.request import WrongRequest, billing_period, scope_of
from tests.unit.report.ledger import HOUR, ROWS, USD, report

TODAY = date(2026, 11, 23)


def asked(**changes: object) -> argparse.Namespace:
    defaults = {"since": "", "until": "", "by": "user", "user": "", "bill": "", "profile": ""}
    flags = dict.fromkeys(("reconcile", "json", "csv", "html", "focus"), False)
    return argparse.Namespace(**(defaults | flags | changes))


def test_each_user_has_one_line_and_the_dearest_is_first() -> None:
    lines = {line.key: line for line in report("user").lines}
    assert list(lines) == [("bob",), ("ada",), ("",), ("eve",)]
    ada = lines["ada",]
    assert (ada.used, ada.idle, ada.overhead) == (USD, USD // 2, USD // 20)
    assert ada.nano_usd == USD + USD // 2 + USD // 20
    assert lines["eve",].unknown == 1


def test_days_are_in_their_order() -> None:
    keys = [line.key[0] for line in report("day", "user").lines]
    assert keys == sorted(keys)


def test_overhead_has_its_causes() -> None:
    assert report("user").overhead == {"unassigned": USD // 4, "start": USD // 20}


def test_gpu_hours_and_hours_count_instances() -> None:
    total = report().total
    assert total.hours == pytest.approx(sum(row.microseconds for row in ROWS) / HOUR)
    assert total.gpu_hours == pytest.approx(total.hours)


def test_a_group_is_the_payer() -> None:
    assert {line.key[0] for line in report("group").lines} == {
        "group:research",
        "user:bob",
        "user:eve",
        "hub",
    }


names = st.lists(st.sampled_from(sorted(DIMENSIONS)), max_size=4, unique=True)


@given(names, st.lists(st.sampled_from(ROWS)))
def test_lines_days_and_purposes_add_up_to_the_total(by: list[str], rows: list) -> None:
    made = report(*by, rows=rows)
    assert made.total.nano_usd == sum(row.nano_usd or 0 for row in rows)
    for several in (made.lines, made.days):
        assert sum(line.nano_usd for line in several) == made.total.nano_usd
        assert sum(line.unknown for line in several) == made.total.unknown
    for line in (*made.lines, made.total):
        assert line.used + line.idle + line.overhead == line.nano_usd
    assert sum(made.overhead.values()) == made.total.overhead


def test_by_default_it_is_this_month_by_what_was_asked() -> None:
    scope = scope_of(asked(by="group, day,group"), "demo", "Europe/Berlin", TODAY)
    assert (scope.since, scope.until, scope.by) == (date(2026, 11, 1), TODAY, ("group", "day"))


def test_the_month_before_is_asked_by_its_last_day() -> None:
    scope = scope_of(asked(until="2026-10-31"), "demo", "UTC", TODAY)
    assert (scope.since, scope.until) == (date(2026, 10, 1), date(2026, 10, 31))
    period = billing_period(scope)
    assert period.start == datetime(2026, 10, 1, tzinfo=UTC)
    assert period.end == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("today", "since", "is_cut"),
    [("2026-11-14", "2026-11-01", False), ("2026-11-15", "2026-11-02", True)],
)
def test_against_cost_explorer_it_begins_with_what_that_knows(
    today: str, since: str, is_cut: bool
) -> None:
    day = date.fromisoformat(today)
    scope = scope_of(asked(reconcile=True), "demo", "UTC", day)
    assert (scope.since, scope.until, scope.is_cut) == (date.fromisoformat(since), day, is_cut)


@pytest.mark.parametrize(
    "changes",
    [{}, {"reconcile": True, "bill": "s3://b/x"}, {"since": "2026-11-01"}],
)
def test_nothing_else_is_cut(changes: dict) -> None:
    scope = scope_of(asked(**changes), "demo", "UTC", TODAY)
    assert (scope.since, scope.is_cut) == (date(2026, 11, 1), False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"since": "2026-13-01"}, "--from"),
        ({"until": "yesterday"}, "--to"),
        ({"since": "2026-11-03", "until": "2026-11-01"}, "is after"),
        ({"since": "2001-01-01"}, "ten years"),
        ({"since": "0001-01-01"}, "--from"),
        ({"since": "9999-12-01", "until": "9999-12-31"}, "--to"),
        ({"by": "colour"}, "colour"),
        ({"user": "ada", "reconcile": True}, "--user"),
        ({"bill": "s3://bucket"}, "--reconcile"),
        ({"reconcile": True, "csv": True}, "--csv"),
        ({"reconcile": True, "until": "2026-10-31"}, "--to=2026-11-10 or later"),
        ({"reconcile": True, "since": "2026-11-09"}, "--from=2026-11-10 or later"),
    ],
)
def test_a_wrong_request_says_what_to_change(changes: dict, said: str) -> None:
    with pytest.raises(WrongRequest, match=said) as raised:
        scope_of(asked(**changes), "demo", "UTC", TODAY)
    assert "Fix:" in str(raised.value)
