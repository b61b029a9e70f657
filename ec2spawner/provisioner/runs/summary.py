"""A run as its owner sees it."""

from __future__ import annotations

import json
from datetime import datetime

from ...core.ledger.charges import rate
from ...core.ledger.cost import known_usd
from ...wire import Market, RunSummary
from ...wire.runs import RunState as ShownState
from ..model.leases.lease import OPEN, Lease
from ..model.leases.run import Run, RunState
from ..state.state import State


def summary(state: State, run: Run) -> RunSummary:
    """As of now."""
    now = state.clock.now()
    lease = state.leases.get(run.lease_id) if run.lease_id else None
    current = lease.segments[-1] if lease is not None and lease.segments else None
    last = run.attempts[-1] if run.attempts else None
    place = current or last
    is_open = current is not None and current.end is None
    # Not validated again: a page shows a thousand.
    return RunSummary.model_construct(
        number=run.number,
        array=run.array,
        server=run.server,
        path=run.path,
        parameters=json.loads(run.parameters),
        profile=run.profile,
        profile_name=run.profile_name,
        payer=run.payer,
        state=_shown_state(run, lease),
        outcome=run.outcome,
        message=_message(state, run, lease),
        submitted_at=run.submitted_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        deadline=run.deadline,
        cells_done=run.cells_done,
        cells_total=run.cells_total,
        attempts=len(run.attempts) + (current is not None),
        retries=run.retries,
        instance_type=place.instance_type if place else "",
        zone=place.zone if place else "",
        market=Market(place.market) if place else None,
        usd=_usd(run, lease, now),
        usd_per_hour=rate(current, now).known_usd_per_hour if current and is_open else None,
        max_usd=run.max_usd,
        has_result=run.has_result,
        delivered=run.delivered,
    )


def _usd(run: Run, lease: Lease | None, now: datetime) -> float | None:
    """None where it has had instances and no price is known."""
    costs = [each.usd for each in run.attempts]
    if lease is not None and lease.segments:
        costs.append(known_usd(lease.segments, now))
    known = [each for each in costs if each is not None]
    return sum(known) if known or not costs else None


def _shown_state(run: Run, lease: Lease | None) -> ShownState:
    if run.state is RunState.STARTED:
        return "running" if run.begun else "starting"
    return "ended" if run.state is RunState.ENDED else "queued"


def _message(state: State, run: Run, lease: Lease | None) -> str:
    """Of a run that waits, why none with its terms can start; of one that starts, the last step of
    its lease."""
    if run.state is RunState.QUEUED:
        if not state.settings.runs.at_once:
            return "This hub starts no runs at present"
        return state.runs.holds.message(run.terms(state.clock.now())) or run.message
    is_starting = run.state is RunState.STARTED and not run.begun
    if is_starting and lease is not None and lease.state in OPEN and lease.events:
        return lease.events[-1].message
    return run.message
