"""Reports each phase of a start, each start and each end of a lease once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Final

from ...core.ledger.amount import amount_of, total
from ...core.ledger.cost_rows import Purpose
from ...core.starts.outcome import Outcome, outcome_of_failure
from ...core.starts.phases import Phase, phases
from ..model import metrics
from ..model.lease import AttemptOutcome, Lease, LeaseState
from ..model.lease_costs import costs_of, payer_of
from ..model.lease_events import LeaseEnded, PhaseEnded, Subject
from ..runtime.supervise import Supervised
from ..state.state import State

BATCH: Final = 100
"""After so many changed leases, whatever else waits has its turn: one takes up to 0.2 ms."""


@dataclass(slots=True)
class LeaseReports:
    """Compares the leases with what has been reported of them.

    So nothing else has to think of it: whatever changes a lease, the next pass reports it. Events
    of a pass that a crash prevented are lost, and none is reported twice.
    """

    state: State
    _reported: dict[str, _Reported] = field(default_factory=dict)
    """By lease id."""
    _reporting: Supervised = field(default_factory=lambda: Supervised("Reporting a lease"))

    def load(self) -> None:
        """What the store knew was reported by an earlier process."""
        for lease in self.state.leases.in_memory():
            self._reported[lease.lease_id] = _Reported(lease, len(_phases(lease)))

    async def reconcile(self, now: datetime) -> None:
        """Never raises."""
        found: dict[str, _Reported] = {}
        changed = 0
        for lease in list(self.state.leases.in_memory()):
            reported = self._reported.get(lease.lease_id, _NOTHING)
            if reported.lease is not lease:
                before, reported = reported, _Reported(lease, reported.phases)
                with self._reporting:  # no defect here may end a pass
                    reported = self._report(lease, before)
                changed += 1
                if changed % BATCH == 0:
                    await asyncio.sleep(0)
            found[lease.lease_id] = reported
        self._reported = found

    def _report(self, lease: Lease, reported: _Reported) -> _Reported:
        found = _phases(lease)
        for phase in found[reported.phases :]:
            subject = _subject(lease, phase)
            if phase.is_complete:
                market = subject.market or metrics.NO_MARKET
                metrics.PHASE_SECONDS.labels(phase.step, market).observe(phase.seconds)
            self.state.lease_events.add(PhaseEnded(subject, phase))
        if lease.events and _is_started(lease) and not _is_started(reported.lease):
            self._count_start(lease)
        is_news = reported.lease is None or reported.lease.state is not LeaseState.ENDED
        if lease.state is LeaseState.ENDED and is_news:
            self.state.lease_events.add(self._end(lease))
        return _Reported(lease, len(found))

    def _count_start(self, lease: Lease) -> None:
        over_at = lease.ready_at or _stopped_at(lease)
        took = max(over_at - lease.requested_at, timedelta()).total_seconds()
        market = _subject(lease).market or metrics.NO_MARKET
        metrics.START_SECONDS.labels(_outcome(lease), market).observe(took)

    def _end(self, lease: Lease) -> LeaseEnded:
        ended_at = _ended_at(lease)
        ready_at = lease.ready_at or _stopped_at(lease)
        return LeaseEnded(
            subject=_subject(lease),
            at=ended_at,
            start=_outcome(lease),
            reason=_reason(lease),
            ready_seconds=max(_stopped_at(lease) - ready_at, timedelta()).total_seconds(),
            usd=_usd(lease, ended_at, self.state.settings.time_zone),
        )


@dataclass(frozen=True, slots=True)
class _Reported:
    """What has been reported of a lease."""

    lease: Lease | None
    """As it was then."""
    phases: int
    """Of its start."""


_NOTHING = _Reported(None, 0)


def _phases(lease: Lease) -> list[Phase]:
    steps = [(event.step, event.at) for event in lease.events]
    return phases(steps, _stopped_at(lease) if lease.state is LeaseState.ENDED else None)


def _is_started(lease: Lease | None) -> bool:
    """Whether its start is over, one way or the other."""
    return lease is not None and (lease.ready_at is not None or lease.state is LeaseState.ENDED)


def _ended_at(lease: Lease) -> datetime:
    return lease.ended_at or lease.requested_at


def _stopped_at(lease: Lease) -> datetime:
    """When its stop began."""
    return lease.stop_requested_at or _ended_at(lease)


def _usd(lease: Lease, now: datetime, time_zone: tzinfo) -> Mapping[Purpose, float | None]:
    rows = costs_of(lease, now, time_zone)
    return {
        purpose: total(amount_of(row) for row in rows if row.purpose is purpose).usd
        for purpose in Purpose
    }


def _reason(lease: Lease) -> str:
    return lease.stop.reason if lease.stop else "failed"


def _outcome(lease: Lease) -> Outcome:
    if lease.ready_at is not None:
        return Outcome.READY
    refused = bool(lease.attempts) and lease.attempts[-1].outcome is AttemptOutcome.REFUSED
    return outcome_of_failure(_reason(lease), is_refused=refused)


def _subject(lease: Lease, phase: Phase | None = None) -> Subject:
    """With the instance of that phase, or else the last one."""
    segments = [
        each
        for each in lease.segments
        if phase is None
        or (each.start <= phase.ended_at and (each.end is None or each.end > phase.began_at))
    ]
    bought = [
        each.market
        for each in lease.attempts
        if each.outcome is AttemptOutcome.FOUND and (not phase or each.at <= phase.ended_at)
    ]
    last = segments[-1] if segments else None
    return Subject(
        lease_id=lease.lease_id,
        user=lease.user,
        server=lease.server,
        payer=payer_of(lease),
        profile=lease.profile,
        market=last.market if last else bought[-1] if bought else None,
        instance_type=last.instance_type if last else "",
        zone=last.zone if last else "",
    )
