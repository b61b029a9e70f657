"""Why a server stopped, shown to its user on the next spawn page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jupyterhub.user import User

from ....provisioner.model.leases.lease import Lease
from ....provisioner.provisioner import Provisioner
from ...app.user_account import account_of

FOR_OTHERS: Final[Mapping[str, str]] = {
    "user": "Its owner stopped it",
    "admin": "An admin stopped it",
    "hub": "A service of this hub stopped it",
    "idle": "Nobody used it",
    "budget": "It had reached a limit of what may be spent",
    "interruption": "AWS reclaimed its machine",
    "max-age": "It had reached its maximum age",
}
"""Reason of a stop -> its words for readers who are not the owner."""

FAILED: Final = "It ended because something failed"


@dataclass(frozen=True, slots=True)
class StopNotice:
    """Why and when a server stopped. `reason` and `files` are plain text."""

    at: datetime
    reason: str
    files: str
    """What happened to the files, in a sentence."""
    for_others: str = ""
    """Both for readers who are not the server's owner, such as guests: `reason` speaks to the
    owner, and of what only the owner may know."""
    asleep: bool = False
    """A start brings the variables of its kernels back."""


def last_stop(provisioner: Provisioner, user: User, server: str) -> StopNotice | None:
    """How this server's last run ended; None if its user ended it and nothing sleeps."""
    account = account_of(provisioner.accounts, user)
    last = provisioner.last_ended(account, server)
    sleeping = provisioner.sleeping.of(account, server)
    asleep = (
        last is not None
        and sleeping is not None
        # The one that it was to continue has saved it, where the last one never got ready.
        and sleeping.lease_id in {last.lease_id, last.continues}
    )
    return notice_of(last, asleep=asleep)


def notice_of(lease: Lease | None, *, asleep: bool = False) -> StopNotice | None:
    """The notice for the last lease of a server, whose session is `asleep` or not; None if its user
    stopped it without a sleep."""
    if lease is None or lease.stop is None or lease.ended_at is None:
        return None
    not_kept = lease.after_stop.then != "terminate" and lease.stop.then == "terminate"
    is_expected = lease.stop.reason == "user" and not not_kept and not asleep
    never_ran = lease.ready_at is None and not lease.continues
    if is_expected or never_ran:
        return None
    is_kept = lease.home_kind != "none"
    kept = "Your files and variables are kept." if asleep else "Your files are kept."
    return StopNotice(
        at=lease.ended_at,
        reason=lease.stop.message.rstrip(". ") or "No reason was given",
        files=kept if is_kept else "Its files were not kept.",
        for_others=(
            f"{FOR_OTHERS.get(lease.stop.reason, FAILED)}. "
            f"Its files {'are' if is_kept else 'were not'} kept."
        ),
        asleep=asleep,
    )
