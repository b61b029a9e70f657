"""Events of spot instances in the queue, and one interruption that two report."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.sleep.spot_events import (
    OVERDUE,
    RECOMMENDATION,
    WARNING,
    Notices,
    SpotEvent,
    UnknownEvent,
    parse,
)

NOW = datetime(2026, 5, 4, 14, 10, tzinfo=UTC)
ENDS = NOW + timedelta(minutes=2)
EVENT = SpotEvent("interruption", "i-0123456789abcdef0", NOW)


def event(**changes: Any) -> dict[str, Any]:
    """From "EC2 Spot Instance interruption notices" in the EC2 User Guide."""
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": WARNING,
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-05-04T14:10:00Z",
        "region": "us-east-1",
        "resources": ["arn:aws:ec2:us-east-1a:instance/i-0123456789abcdef0"],
        "detail": {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"},
        **changes,
    }


def test_the_two_events() -> None:
    assert parse(json.dumps(event())) == EVENT
    assert EVENT.ends_at == ENDS
    detail = {"instance-id": "i-0123456789abcdef0"}
    found = parse(json.dumps(event(**{"detail-type": RECOMMENDATION, "detail": detail})))
    assert found.kind == "rebalance"


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "aws.autoscaling"},
        {"source": None},
        {"detail-type": "EC2 Instance State-change Notification"},
        {"detail": None},
        {"detail": {}},
        {"detail": {"instance-id": "i-0; rm"}},
        {"detail": {"instance-id": ["i-0123456789abcdef0"]}},
        {"detail": {"instance-id": "i-0123456789abcdef0", "instance-action": "dance"}},
        {"time": "yesterday"},
        {"time": "2026-05-04T14:10:00"},
        {"time": 3},
        {"time": "9999-12-31T23:59:59Z"},
    ],
)
def test_what_is_no_event(changes: dict[str, Any]) -> None:
    with pytest.raises(UnknownEvent):
        parse(json.dumps(event(**changes)))


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_refused_in_one_way(body: str) -> None:
    with pytest.raises(UnknownEvent):
        parse(body)


def test_the_agent_is_more_exact() -> None:
    notices = Notices().happened(EVENT)
    assert notices.ends_at(NOW) == ENDS
    exact = ENDS - timedelta(seconds=3)
    assert notices.heard(exact).ends_at(NOW) == exact
    assert notices.heard(exact).happened(EVENT).ends_at(NOW) == exact


def test_an_agent_that_has_not_seen_it_withdraws_nothing() -> None:
    assert Notices().happened(EVENT).heard(None).ends_at(NOW) == ENDS


def test_the_agent_withdraws_what_it_has_seen() -> None:
    notices = Notices().happened(EVENT).heard(ENDS).heard(None)
    assert notices.ends_at(NOW) is None
    assert notices.happened(EVENT).ends_at(NOW) is None, "delivered twice"
    later = SpotEvent("interruption", EVENT.instance_id, NOW + timedelta(minutes=9))
    assert notices.happened(later).ends_at(later.at) == later.ends_at


def test_an_announcement_of_which_nothing_comes_ends() -> None:
    notices = Notices().happened(EVENT)
    assert notices.ends_at(ENDS + OVERDUE) == ENDS
    assert notices.ends_at(ENDS + OVERDUE + timedelta(seconds=1)) is None


@given(st.lists(st.sampled_from(["agent", "queue"]), min_size=1))
def test_one_event_whoever_reports_it_and_how_often(order: list[str]) -> None:
    """It is known from the first report on, and stays so."""
    notices = Notices()
    for who in order:
        notices = notices.heard(ENDS) if who == "agent" else notices.happened(EVENT)
        assert notices.ends_at(NOW) == ENDS
