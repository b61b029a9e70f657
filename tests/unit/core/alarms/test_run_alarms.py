"""The message that a run has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

from ec2spawner.core.alarms.alarm import Kind, Severity
from ec2spawner.core.alarms.run_rules import WORDS, EndedRun, runs_ended
from ec2spawner.wire.runs import RunOutcome

NOW = datetime(2026, 11, 25, tzinfo=UTC)

RUN = EndedRun(7, 0, "ann", "train.ipynb", "failed", "cell 2: ValueError", 1.5)


def test_every_outcome_has_words() -> None:
    assert set(WORDS) == set(get_args(RunOutcome))


def test_a_run_of_its_own_says_how_it_ended_and_what_it_cost() -> None:
    alarm = runs_ended([RUN], NOW)
    assert (alarm.kind, alarm.alarm_id) == (Kind.RUN_ENDED, "run-ended/run 7/")
    assert alarm.severity is Severity.INFO
    assert "ann" in alarm.title
    assert "ValueError" in alarm.body
    assert "1.50 USD" in alarm.body


def test_an_array_is_one_message() -> None:
    runs = [replace(RUN, number=n, array=7, outcome=("succeeded", "failed")[n % 2]) for n in (7, 8)]
    alarm = runs_ended(runs, NOW)
    assert alarm.subject == "array 7"
    assert "1 succeeded, 1 failed" in alarm.body
    assert "3.00 USD" in alarm.body


def test_what_users_and_instances_write_cannot_deceive() -> None:
    alarm = runs_ended([replace(RUN, path="a\u202eb.py", message="\x1b[31mred")], NOW)
    assert "\u202e" not in alarm.title
    assert "\x1b" not in alarm.body
