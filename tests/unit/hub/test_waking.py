"""What the progress page says of a session that a start brings back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.pages.progress.progress import progress_event
from ec2spawner.hub.pages.progress.waking import saved, waking
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import Stop
from tests.stored import NOW, lease, sleeping

SESSION = "14 variables (3.2 GB) of 1 notebook"


def before(reason: Any = "interruption", **words: Any) -> Lease:
    stop = Stop(reason=reason, sleep=words.pop("sleep", "interruption"))
    given: dict[str, Any] = {"state": LeaseState.ENDED, "ready_at": NOW, "ended_at": NOW}
    return lease(lease_id="lease-1", stop=stop, **given | words)


def next_one(**words: Any) -> Lease:
    return lease(lease_id="lease-2", continues="lease-1", requested_at=NOW, **words)


def test_a_start_says_which_session_it_wakes() -> None:
    found = waking(lease(requested_at=NOW), sleeping(), None)
    assert found is not None
    assert found.heading == "Waking your session on"
    assert found.lines == (f"Your session comes back: {SESSION}.",)
    event = progress_event(lease(requested_at=NOW), {}, NOW, wakes=found)
    assert event["waking"] == {"heading": found.heading, "lines": found.lines}
    assert progress_event(lease(), {}, NOW)["waking"] is None


@pytest.mark.parametrize(
    "last", [None, sleeping(woken_at=NOW), sleeping(expires_at=NOW - timedelta(seconds=1))]
)
def test_a_start_that_wakes_nothing_says_nothing(last: Any) -> None:
    assert waking(lease(requested_at=NOW), last, None) is None


def test_a_fresh_start_wakes_nothing() -> None:
    assert waking(lease(sleep=SleepRules(wake="no")), sleeping(), None) is None


def test_a_server_that_continues_says_what_happened_and_what_was_saved() -> None:
    found = waking(next_one(), sleeping(lease_id="lease-1"), before())
    assert found is not None
    assert found.heading == "Moving your session to"
    what, kept = found.lines
    assert what.startswith("AWS reclaimed the machine of your server.")
    assert kept == f"Saved before: {SESSION}."


@pytest.mark.parametrize(
    ("last", "previous", "says"),
    [
        (None, before(), "Your files are kept; no variables were saved."),
        (sleeping(lease_id="lease-0"), before(), "There was no time to save it again."),
        (None, before(state=LeaseState.ENDING), "Its documents and variables are being saved."),
        (None, None, "Your files are kept; no variables were saved."),
    ],
)
def test_what_was_not_saved_is_not_promised(last: Any, previous: Any, says: str) -> None:
    found = waking(next_one(), last, previous)
    assert found is not None
    assert found.lines[1].startswith(says)


def test_a_fresh_server_that_moves_promises_only_what_it_saved_itself() -> None:
    fresh = next_one(sleep=SleepRules(wake="no"))
    left = waking(fresh, sleeping(lease_id="lease-0"), before())
    own = waking(fresh, sleeping(lease_id="lease-1"), before())
    assert left is not None
    assert own is not None
    assert left.lines[1] == "Your files are kept; no variables were saved."
    assert own.lines[1] == f"Saved before: {SESSION}."


def test_what_has_expired_is_not_promised_to_a_server_that_moves() -> None:
    found = waking(next_one(), sleeping(lease_id="lease-0", expires_at=NOW), before())
    assert found is not None
    assert found.lines[1] == "Your files are kept; no variables were saved."


def test_a_change_of_hardware_is_no_interruption() -> None:
    found = waking(next_one(), None, before("user", sleep="hardware"))
    assert found is not None
    assert found.lines[0].startswith("Your server continues on the hardware that you chose")


def test_kernels_that_are_not_listed_are_not_counted_as_none() -> None:
    session = sleeping().session.model_copy(update={"kernel_count": 25})
    assert saved(session) == "more than 14 variables (3.2 GB) of 25 notebooks"
