"""Why a server stopped, shown to its user on the next spawn page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...provisioner.model.lease import Lease


@dataclass(frozen=True, slots=True)
class StopNotice:
    """Why and when a server stopped. `reason` and `files` are plain text."""

    at: datetime
    reason: str
    files: str
    """What happened to the files, in a sentence."""


def notice_of(lease: Lease | None) -> StopNotice | None:
    """The notice for the last server; None if its user stopped it."""
    if lease is None or lease.stop is None or lease.ended_at is None:
        return None
    not_kept = lease.after_stop.then != "terminate" and lease.stop.then == "terminate"
    if (lease.stop.reason == "user" and not not_kept) or lease.ready_at is None:
        return None
    return StopNotice(
        at=lease.ended_at,
        reason=lease.stop.message.rstrip(". ") or "No reason was given",
        files="Your files are kept." if lease.home_kind != "none" else "Its files were not kept.",
    )
