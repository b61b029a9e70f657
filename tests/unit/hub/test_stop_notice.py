"""The notice of how a server ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ec2spawner.hub.pages.spawn_page.stop_notice import StopNotice, notice_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import Stop
from tests.stored import NOW, lease

ENDED_AT = NOW + timedelta(hours=2)
NOTICE = StopNotice(
    ENDED_AT, "It was idle", "Your files are kept.", "Nobody used it. Its files are kept."
)


def ended(reason: str = "idle") -> Lease:
    stop = Stop(reason=reason, message="It was idle.")
    return lease(state=LeaseState.ENDED, ready_at=NOW, stop=stop, ended_at=ENDED_AT)


def test_a_server_that_its_user_did_not_stop_has_a_notice() -> None:
    assert notice_of(ended()) == NOTICE
    assert notice_of(ended("user")) is None
    assert notice_of(None) is None


def test_others_read_nothing_of_what_is_said_to_the_owner() -> None:
    limit = Stop(reason="budget", message="The limit of $5 per month of ann is used up")
    notice = notice_of(replace(ended(), stop=limit))
    assert notice is not None
    assert notice.for_others.startswith("It had reached a limit of what may be spent. Its files")
    failed = notice_of(replace(ended("failed"), home_kind="none"))
    assert failed is not None
    assert failed.for_others == "It ended because something failed. Its files were not kept."


def test_what_its_user_put_to_sleep_has_a_notice_too() -> None:
    notice = notice_of(ended("user"), asleep=True)
    assert notice is not None
    assert notice.asleep
    assert notice.files == "Your files and variables are kept."
