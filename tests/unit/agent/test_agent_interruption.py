"""EC2's notice that it takes a machine back, as the agent reads it."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.agent.metadata.interruption import NoNoticeError, parse_notice


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "terminate", "time": "2026-11-20T12:02:00Z"}',
        '{"action":"hibernate","time":"2026-11-20T12:02:00Z","new":["field"]}\n',
        '{"time": "2026-11-20T13:02:00+01:00"}',
        '{"action": "stop", "time": "2026-11-20T12:02:00"}',
    ],
    ids=["as AWS writes it", "with more in it", "in another zone", "without a zone"],
)
def test_a_notice_has_the_time_of_the_interruption(text: str) -> None:
    at = parse_notice(text)
    assert at == datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
    assert at.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"2026-11-20T12:02:00Z"',
        "{}",
        '{"time": null}',
        '{"time": 1795176120}',
        '{"time": "soon"}',
        '{"time": "0001-01-01T00:00:00+23:59"}',
        "[" * 16_000,
        "<html>" * 1000,
    ],
)
def test_a_malformed_notice_is_an_error_in_short(text: str) -> None:
    with pytest.raises(NoNoticeError) as raised:
        parse_notice(text)
    assert len(str(raised.value)) < 600


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.text() | st.fixed_dictionaries({"time": VALUES | st.lists(VALUES)}).map(json.dumps))
def test_arbitrary_responses_do_no_harm(text: str) -> None:
    with contextlib.suppress(NoNoticeError):
        assert parse_notice(text).tzinfo is UTC
