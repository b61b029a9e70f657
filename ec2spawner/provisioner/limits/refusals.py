"""Lets admins and the event log see which starts a limit has refused."""

from __future__ import annotations

from ...core.alarms.limit_rules import denied_start
from ...core.limits.admission import Refusal
from ..model.leases.costs import payer_of
from ..model.leases.events import StartDenied, Subject
from ..model.leases.lease import Lease
from ..model.metrics import DENIED_STARTS
from ..state.state import State


def record_refusal(state: State, lease: Lease, refusal: Refusal) -> None:
    """Count and report a refused start, show it on the page *Instances*, and raise its alarm.

    The lease is one that was not admitted, or that was and still waited for its instance.
    """
    whose = refusal.scope.partition(":")[0]
    DENIED_STARTS.labels(whose, refusal.kind or refusal.obstacle).inc()
    today, now = state.spending.today(), state.clock.now()
    state.denied_starts.record(lease, refusal, now)
    subject = Subject(
        lease_id=lease.lease_id,
        user=lease.user,
        server=lease.server,
        payer=payer_of(lease),
        profile=lease.profile,
        market=None,
        instance_type="",
        zone="",
    )
    state.lease_events.add(StartDenied(subject, now, refusal.scope, refusal.kind))
    name, displayed = state.accounts.name(lease.user), state.accounts.displayed_scope(refusal)
    state.incidents.record(denied_start(name, lease.profile_name, displayed, today, now))
