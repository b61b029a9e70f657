"""Why a server stopped, shown to its user on the next spawn page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jupyterhub.user import User

from ....provisioner.model.leases.lease import Lease
from ....provisioner.provisioner import Provisioner
from ...app.user_account import account_of


@dataclass(frozen=True, slots=True)
class StopNotice:
    """Why and when a server stopped. `reason` and `files` are plain text."""

    at: datetime
    reason: str
    files: str
    """What happened to the files, in a sentence."""
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
    kept = "Your files and variables are kept." if asleep else "Your files are kept."
    return StopNotice(
        at=lease.ended_at,
        reason=lease.stop.message.rstrip(". ") or "No reason was given",
        files=kept if lease.home_kind != "none" else "Its files were not kept.",
        asleep=asleep,
    )
