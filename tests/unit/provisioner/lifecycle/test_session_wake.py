"""Which saved session the server of a lease brings back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from ec2spawner.core.sleep.continuation import TakenOver
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.provisioner.model.session_wake import wakes, woken_at
from tests.stored import NOW, SECOND, lease, sleeping

FRESH = SleepRules(wake="no")


def started(**changes: Any) -> Lease:
    return lease("lease-2", **{"ready_at": NOW + SECOND, **changes})


def moved(**changes: Any) -> Lease:
    """Ready on the second instance of a server that ran for a minute on the first one."""
    over = TakenOver(ran_seconds=60.0, is_handed_over=True)
    return started(continues="lease-1", taken_over=over, **changes)


def test_a_start_brings_back_what_its_user_has_chosen() -> None:
    assert wakes(started(), sleeping()) == "sleeping"
    assert wakes(started(sleep=FRESH), sleeping()) == "no"


def test_a_server_that_continues_brings_back_what_was_woken_before() -> None:
    assert wakes(moved(), None) == "last"
    assert wakes(moved(), sleeping(woken_at=NOW)) == "last"


def test_a_fresh_server_that_continues_brings_back_what_it_saved_itself() -> None:
    assert wakes(moved(sleep=FRESH), sleeping(lease_id="lease-1")) == "last"
    # Saved on the instance before the last one, and not again since.
    assert wakes(moved(sleep=FRESH), sleeping(lease_id="lease-0", woken_at=NOW)) == "last"


def test_a_fresh_server_that_continues_leaves_asleep_what_it_found() -> None:
    long_ago = sleeping(lease_id="lease-0", woken_at=NOW - timedelta(hours=1))
    session = long_ago.session.model_copy(update={"slept_at": NOW - timedelta(hours=2)})
    assert wakes(moved(sleep=FRESH), None) == "no"
    assert wakes(moved(sleep=FRESH), sleeping(lease_id="lease-0")) == "no", "however late it slept"
    assert wakes(moved(sleep=FRESH), sleeping(lease_id="lease-0", session=session)) == "no"


@pytest.mark.parametrize(
    ("of", "at"),
    [
        (started(), NOW + SECOND),
        (started(ready_at=NOW), NOW),
        (started(ready_at=None), None),
        (started(ready_at=NOW - SECOND), None),
        (started(ready_at=NOW + timedelta(days=30)), None),
        (started(sleep=FRESH), None),
        (lease("lease-1", ready_at=NOW + SECOND), None),
        (moved(sleep=FRESH), NOW + SECOND),
    ],
    ids=["later", "at once", "never", "before", "expired", "fresh", "its own", "continues"],
)
def test_when_a_session_was_woken(of: Lease, at: datetime | None) -> None:
    assert woken_at(of, sleeping(lease_id="lease-1")) == at
