"""Time for which a lease has waited for its agent, over restarts of the hub.

Waits count the uptime of the hub (`Clock.uptime`), which begins at zero with each process. A hub
that is restarted often would begin them anew each time, and never end a server whose agent is
silent. So each process stores how far it has come.
"""

from __future__ import annotations

from typing import Final

from ..model.leases.lease import Lease, LeaseState
from ..model.settings import Settings

RETURN_GRACE: Final = 30.0
"""Seconds that a new process waits at least: an agent repeats a failed call after four seconds at
most, and a hub with a thousand servers needs some twenty until it answers all of them."""


def wait_limit(lease: Lease, settings: Settings) -> float:
    """Seconds after which the wait for the agent is over, which begins or completes the end of the
    lease; 0 where nobody waits for it."""
    match lease.state:
        case LeaseState.STARTING:
            return settings.ready_timeout
        case LeaseState.READY:
            return settings.agent_silent_after
        case LeaseState.ENDING:
            return settings.stop_timeout + (lease.stop.save_seconds if lease.stop else 0.0)
    return 0.0


def carried_over(lease: Lease, settings: Settings) -> float:
    """Seconds of its present wait that count from earlier processes."""
    return min(lease.waited, max(wait_limit(lease, settings) - RETURN_GRACE, 0.0))
