"""What the progress page says of the session that a start brings back."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.text.sizes import in_words
from ....provisioner.model.leases.lease import Lease, LeaseState
from ....provisioner.model.session_wake import wakes
from ....provisioner.model.sleeping_session import SleepingSession
from ....provisioner.provisioner import Provisioner
from ....wire import SavedSession

GOING = {
    "interruption": "AWS reclaimed the machine of your server. It continues on another one, and "
    "your open pages reconnect by themselves.",
    "hardware": "Your server continues on the hardware that you chose, and your open pages "
    "reconnect by themselves.",
}
"""By why a session was saved: what happened to a server that continues."""


@dataclass(frozen=True, slots=True)
class Waking:
    """Plain text."""

    heading: str
    """Goes before the profile's name."""
    lines: tuple[str, ...]


def waking_of(provisioner: Provisioner, lease: Lease) -> Waking | None:
    """What this start brings back; None for nothing."""
    last = provisioner.sleeping.last(lease.user, lease.server)
    previous = provisioner.remembered(lease.continues) if lease.continues else None
    return waking(lease, last, previous)


def waking(lease: Lease, last: SleepingSession | None, previous: Lease | None) -> Waking | None:
    """What a start brings back; None for nothing. Pure.

    `last` is what was saved last of the server, `previous` the lease that this one continues.
    """
    if wakes(lease, last) == "no" or (last and last.expires_at <= lease.requested_at):
        last = None
    if lease.continues:
        return Waking("Moving your session to", _continued(lease, last, previous))
    if last is None or last.woken_at is not None:
        return None
    return Waking("Waking your session on", (f"Your session comes back: {saved(last.session)}.",))


def _continued(
    lease: Lease, last: SleepingSession | None, previous: Lease | None
) -> tuple[str, ...]:
    stop = previous.stop if previous else None
    # A machine that went without a notice had no time to save.
    why = GOING[(stop.sleep if stop and stop.sleep in GOING else None) or "interruption"]
    if previous is not None and previous.state is not LeaseState.ENDED:
        return why, "Its documents and variables are being saved."
    if last is not None and last.lease_id == lease.continues:
        return why, f"Saved before: {saved(last.session)}."
    if last is not None:
        return why, f"There was no time to save it again. Saved earlier: {saved(last.session)}."
    return why, "Your files are kept; no variables were saved."


def saved(session: SavedSession) -> str:
    """`14 variables (3.2 GB) of 2 notebooks`."""
    count = sum(kernel.variables for kernel in session.kernels)
    variables = "1 variable" if count == 1 else f"{count} variables"
    if session.kernel_count > len(session.kernels):
        variables = f"more than {variables}"
    notebooks = "1 notebook" if session.kernel_count == 1 else f"{session.kernel_count} notebooks"
    return f"{variables} ({in_words(session.size_bytes)}) of {notebooks}"
