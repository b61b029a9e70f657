"""What the test has made is known from its journal, whatever ended the process that wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.load_test.budget import Budget
from ec2spawner.load_test.journal import Event, Journal, Made, made, read
from ec2spawner.load_test.price import Price


def test_what_was_requested_and_is_not_gone_is_left(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    for user in ("ann", "ben"):
        journal.write(user, Event.USER_CREATED)
        journal.write(user, Event.SERVER_REQUESTED)
    journal.write("ann", Event.SERVER_GONE)
    journal.write("ann", Event.USER_GONE)
    found = read(tmp_path)
    assert list(found.running) == ["ben"]
    assert found.users == {"ben"}
    assert len(found.ended) == 1


@given(st.integers(0, 200))
def test_a_journal_that_ends_anywhere_is_read(cut: int) -> None:
    lines = [
        '{"at": 1.0, "user": "ann", "event": "server-requested"}',
        '{"at": 9.0, "user": "ann", "event": "server-gone"}',
    ]
    found = made("\n".join(lines)[:cut].splitlines())
    assert list(found.running) in ([], ["ann"])


def test_nothing_is_written_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Journal("").write("ann", Event.SERVER_REQUESTED)
    assert not list(tmp_path.iterdir())
    assert read(tmp_path) == Made()


def test_each_start_counts_for_a_minute_at_least() -> None:
    found = Made(running={"ann": 1000.0}, ended=[10.0, 100.0])
    assert found.server_seconds(1010.0) == 60 + 60 + 100
    assert found.server_seconds(1090.0) == 90 + 60 + 100


def test_the_budget_ends_the_test_at_the_price_of_the_most_expensive_offer(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    price = Price("t4", 0.1, 60.0)
    budget = Budget(tmp_path, price, 2.0)
    journal.write("ann", Event.SERVER_REQUESTED)
    assert budget.spent_usd() == pytest.approx(1.0)
    assert budget.why_end() == ""
    journal.write("ben", Event.SERVER_REQUESTED)
    assert budget.why_end() == "its servers have cost about $2.00, and --max-usd=2"
    assert Budget(tmp_path, price, None).why_end() == ""
    assert Budget(tmp_path, None, None).spent_usd() is None
