"""Why a server stopped, shown to its user on the next spawn page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jupyterhub.user import User

from ....provisioner.model.lease import Lease
from ....provisioner.provisioner import Provisioner
from ...app.user_account import created_at


@dataclass(frozen=True, slots=True)
class StopNotice:
    """Why and when a server stopped. `reason` and `files` are plain text."""

    at: datetime
    reason: str
    files: str
    """What happened to the files, in a sentence."""


def last_stop(provisioner: Provisioner, user: User, server: str) -> StopNotice | None:
    """How this server's last run ended; None if its user ended it."""
    return notice_of(provisioner.last_ended(user.name, server), created_at(user))


def notice_of(lease: Lease | None, created: datetime | None) -> StopNotice | None:
    """The notice for the last server under a user's name; None if its user stopped it, or if it was
    requested before the user was `created`: then it was a deleted user's of that name."""
    if lease is None or lease.stop is None or lease.ended_at is None:
        return None
    if created is not None and lease.requested_at < created:
        return None
    not_kept = lease.after_stop.then != "terminate" and lease.stop.then == "terminate"
    if (lease.stop.reason == "user" and not not_kept) or lease.ready_at is None:
        return None
    return StopNotice(
        at=lease.ended_at,
        reason=lease.stop.message.rstrip(". ") or "No reason was given",
        files="Your files are kept." if lease.home_kind != "none" else "Its files were not kept.",
    )
