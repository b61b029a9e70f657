"""The notice of a scheduled event of a running server's machine, for its user's home page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jupyterhub.user import User

from ....core.instances.scheduled_events import REBOOTS, STOPS, ScheduledEvent
from ....core.sleep.rules import SleepRules
from ....provisioner.model.leases.lease import LeaseState
from ....provisioner.provisioner import Provisioner
from ...app.user_account import account_of


@dataclass(frozen=True, slots=True)
class ScheduledNotice:
    """Plain text around an instant."""

    what: str
    """Such as `AWS stops the machine of this server`."""
    at: datetime
    """The earliest time of the event, UTC."""
    meaning: str
    """Sentences that say what follows and what its user can do."""


CHOOSE: Final = (
    "To choose the time yourself, use “Continue on…” in the panel of JupyterLab, or stop this "
    "server and start it again."
)


def scheduled_notice(provisioner: Provisioner, user: User, server: str) -> ScheduledNotice | None:
    """Return the notice of a server that is ready; None where AWS has announced nothing."""
    account = account_of(provisioner.accounts, user)
    for seen in provisioner.overview.servers(account):
        lease, event = seen.lease, seen.scheduled_event
        if event is not None and lease.server == server and lease.state is LeaseState.READY:
            return notice_of(event, lease.sleep)
    return None


def notice_of(event: ScheduledEvent, sleep: SleepRules) -> ScheduledNotice:
    """The notice of one event."""
    if event.code in REBOOTS | STOPS:
        does = "reboots" if event.code in REBOOTS else "stops"
        what = f"AWS {does} the machine of this server"
        return ScheduledNotice(what, event.not_before, f"{_follows(sleep)} {CHOOSE}")
    return ScheduledNotice(
        "AWS maintains the host of this server's machine",
        event.not_before,
        "The machine may be unreachable for a short time, or reboot. Save what you need before.",
    )


def _follows(sleep: SleepRules) -> str:
    if sleep.after_interruption != "stop":
        return "Ten minutes before that, your server leaves it and continues on another one."
    saved = "saved and " if sleep.save_seconds else ""
    return f"Ten minutes before that, this server is {saved}stopped."
