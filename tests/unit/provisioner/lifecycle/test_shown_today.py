"""Why the amount of today is less than a user was shown before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.core.ledger.cost import known_usd
from ec2spawner.core.ledger.instance_end import FREE
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.provisioner.state.spending.shown_today import ShownToday
from ec2spawner.wire import Market
from tests import stored

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
RUNNING = Segment("i-1", Market.SPOT, 0.60, START, None)


class Pages:
    """What one user is shown."""

    def __init__(self) -> None:
        self.shown = ShownToday()

    def show(self, minutes: float, *segments: Segment) -> dict[str, float]:
        """Show the cost of these instances, each with a lease of its own; USD by reason."""
        now = START + timedelta(minutes=minutes)
        leases = [stored.lease(x.instance_id, segments=(x,)) for x in segments]
        today = sum(known_usd(each.segments, now) or 0.0 for each in leases)
        return {x.why: x.usd for x in self.shown.show("ada", today, START.date(), now, leases)}


def ended(segment: Segment, minutes: float, **changes: Any) -> Segment:
    return replace(segment, end=START + timedelta(minutes=minutes), **changes)


def test_an_instance_that_had_ended_earlier_than_was_known() -> None:
    pages = Pages()
    assert pages.show(10, RUNNING) == {}
    assert pages.show(10.1, ended(RUNNING, 8)) == {"earlier-end": pytest.approx(0.02)}


def test_each_reason_has_an_amount_of_its_own() -> None:
    pages = Pages()
    free = replace(RUNNING, instance_id="i-2")
    pages.show(10, RUNNING, free)
    gone = ended(free, 10, usd_per_hour=0.0, source=FREE)
    assert pages.show(10, RUNNING, gone) == {"free-hour": pytest.approx(0.10)}
    corrected = replace(RUNNING, usd_per_hour=0.30)
    both = {"free-hour": pytest.approx(0.10), "correction": pytest.approx(0.05)}
    assert pages.show(10, corrected, gone) == both
    at_once = Pages()
    at_once.show(10, RUNNING)
    found = at_once.show(10, ended(corrected, 5))
    assert found == {"earlier-end": pytest.approx(0.05), "correction": pytest.approx(0.025)}
