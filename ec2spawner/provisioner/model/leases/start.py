"""What became of the start of a lease, and where its time went."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ....core.starts.outcome import Outcome, outcome_of_failure
from ....core.starts.phases import Marks, StartPhases, start_phases
from ....wire import Market
from .lease import AttemptOutcome, Lease, LeaseState


def phases_of(lease: Lease) -> StartPhases:
    """The phases of its start, as far as they are over."""
    marks = lease.marks
    if lease.state is LeaseState.ENDED and lease.ready_at is None and marks.ended is None:
        # Ended by an earlier process, before it could measure that.
        marks = replace(marks, ended=(stopped_at(lease) - lease.requested_at).total_seconds())
    return start_phases(marks)


def is_start_over(lease: Lease) -> bool:
    """Whether nothing will be added to its phases: its route is there, or it has ended."""
    return lease.marks.routed is not None or lease.state is LeaseState.ENDED


def is_measured(lease: Lease) -> bool:
    """Whether its phases count as those of a start.

    False for a server that continues on another instance, because nobody has asked for a start, and
    for one whose start an earlier version made, which measured nothing.
    """
    return not lease.continues and (lease.ready_at is None or lease.marks != Marks())


def outcome_of(lease: Lease) -> Outcome:
    """Of a start that is over."""
    if lease.ready_at is not None:
        return Outcome.READY
    refused = bool(lease.attempts) and lease.attempts[-1].outcome is AttemptOutcome.REFUSED
    return outcome_of_failure(reason_of(lease), is_refused=refused)


def reason_of(lease: Lease) -> str:
    """`wire.Stop.reason` of a lease that has ended."""
    return lease.stop.reason if lease.stop else "failed"


def market_of(lease: Lease) -> Market | None:
    """Of its last instance, or of the last one that EC2 found; None while nothing is bought."""
    if lease.segments:
        return lease.segments[-1].market
    found = [each.market for each in lease.attempts if each.outcome is AttemptOutcome.FOUND]
    return found[-1] if found else None


def ended_at(lease: Lease) -> datetime:
    """When it ended, UTC."""
    return lease.ended_at or lease.requested_at


def stopped_at(lease: Lease) -> datetime:
    """When its stop began, UTC."""
    return lease.stop_requested_at or ended_at(lease)
