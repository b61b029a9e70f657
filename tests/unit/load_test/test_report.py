"""What a report says of its samples, and how a person sees it."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ec2spawner.load_test.command import status_of
from ec2spawner.load_test.report import MAX_MESSAGES, Report, failures, steps, times
from ec2spawner.load_test.report_table import print_report
from ec2spawner.load_test.samples import Sample, Step, parse


def report(**changes: object) -> Report:
    samples = [
        *(Sample(Step.CELL, seconds / 100) for seconds in range(1, 101)),
        Sample(Step.LOGIN, 0.5),
        Sample(Step.START, 9.0, "no capacity\x1b[31m"),
        Sample(Step.START, 9.0, "no capacity\x1b[31m"),
        Sample(Step.START, 1.0, "sold out"),
    ]
    return Report.model_validate(
        {
            "users": 4,
            "steps": steps(samples),
            "health": times([0.01], 2),
            "failures": failures(samples),
            "estimated_usd": 0.25,
            "driver_busy": False,
            "ended_by": "",
            "left": {},
        }
        | changes
    )


def test_each_step_has_its_times_and_failures() -> None:
    found = report()
    assert list(found.steps) == ["login", "start to ready", "cell"]
    cells = found.steps["cell"]
    assert (cells.count, cells.failures) == (100, 0)
    assert (cells.median_s, cells.p95_s, cells.p99_s, cells.max_s) == (0.5, 0.95, 0.99, 1.0)
    starts = found.steps["start to ready"]
    assert (starts.count, starts.failures, starts.median_s) == (0, 3, None), "no time of a failure"
    assert [(each.message[:8], each.count) for each in found.failures] == [
        ("no capac", 2),
        ("sold out", 1),
    ]


@given(st.lists(st.floats(0, 1e4), min_size=1))
def test_percentiles_are_times_that_were_measured_in_order(seconds: list[float]) -> None:
    found = times(seconds, 0)
    figures = [found.median_s, found.p95_s, found.p99_s, found.max_s]
    assert figures == sorted(figures)
    assert set(figures) <= {round(each, 4) for each in seconds}
    assert found.max_s == round(max(seconds), 4)


def test_messages_that_are_all_different_are_counted_together() -> None:
    samples = [Sample(Step.OPEN, 1, f"message {number}") for number in range(MAX_MESSAGES + 7)]
    found = failures(samples)
    assert len(found) == MAX_MESSAGES + 1
    assert (found[-1].message, found[-1].count) == ("other messages", 7)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"failures": []}, 0),
        ({}, 1),
        ({"failures": [], "left": {"load-0001": "no answer"}}, 1),
        ({"failures": [], "ended_by": "its servers have cost about $2"}, 1),
        ({"ended_by": "it was stopped"}, 130),
    ],
)
def test_the_exit_status_says_whether_all_is_well(changes: dict[str, object], status: int) -> None:
    assert status_of(report(**changes)) == status


def test_people_see_figures_failures_and_what_is_left() -> None:
    output = io.StringIO()
    left = {"load-0003": "the server still runs after 300 s"}
    print_report(report(left=left, ended_by="locust ended"), Console(file=output, width=120))
    shown = output.getvalue()
    assert "0.950" in shown
    assert "hub health" in shown
    assert "no capacity\\x1b[31m" in shown
    assert "The test ended early: locust ended." in shown
    assert "cost about $0.25 while servers existed" in shown
    assert "retained, replaced and pool instances are not included" in " ".join(shown.split())
    assert "may still cost money: load-0003: the server still runs after 300 s" in shown
    assert "90 % of a core" not in shown


def test_people_see_when_the_times_are_not_only_the_hubs() -> None:
    output = io.StringIO()
    print_report(report(driver_busy=True), Console(file=output, width=120))
    assert "90 % of a core" in output.getvalue()


def test_a_sample_that_was_cut_off_is_ignored() -> None:
    line = json.dumps(["cell", 0.5, ""])
    assert parse([line, line[:7]]) == [Sample(Step.CELL, 0.5)]
