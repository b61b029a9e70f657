"""Reports each phase of a start, each start and each end of a lease once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Final

from ...core.ledger.amount import amount_of, total
from ...core.ledger.cost_rows import Purpose
from ..model import metrics
from ..model.leases.costs import costs_of, payer_of
from ..model.leases.events import LeaseEnded, PhaseEnded, Subject
from ..model.leases.lease import Lease, LeaseState
from ..model.leases.start import (
    ended_at,
    is_measured,
    is_start_over,
    market_of,
    outcome_of,
    phases_of,
    reason_of,
    stopped_at,
)
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
    _reported: dict[str, Lease] = field(default_factory=dict)
    """By lease id: the lease as it was reported last."""
    _reporting: Supervised = field(default_factory=lambda: Supervised("Reporting a lease"))

    def load(self) -> None:
        """What the store knew was reported by an earlier process."""
        for lease in self.state.leases.in_memory():
            self._reported[lease.lease_id] = lease

    async def reconcile(self, now: datetime) -> None:
        """Never raises."""
        found: dict[str, Lease] = {}
        changed = 0
        for lease in list(self.state.leases.in_memory()):
            reported = self._reported.get(lease.lease_id)
            if reported is not lease:
                with self._reporting:  # no defect here may end a pass
                    self._report(lease, reported)
                changed += 1
                if changed % BATCH == 0:
                    await asyncio.sleep(0)
            found[lease.lease_id] = lease
        self._reported = found

    def _report(self, lease: Lease, reported: Lease | None) -> None:
        """`reported` is the lease as it was reported last, if it was."""
        was_over = reported is not None and is_start_over(reported)
        if is_start_over(lease) and is_measured(lease) and not was_over:
            self._report_phases(lease)
        if lease.events and _is_started(lease) and not _is_started(reported):
            self._count_start(lease)
        is_news = reported is None or reported.state is not LeaseState.ENDED
        if lease.state is LeaseState.ENDED and is_news:
            self.state.lease_events.add(self._end(lease))

    def _report_phases(self, lease: Lease) -> None:
        subject = _subject(lease)
        for phase in phases_of(lease).phases:
            if phase.is_complete:
                market = subject.market or metrics.NO_MARKET
                metrics.PHASE_SECONDS.labels(phase.phase, market).observe(phase.seconds)
            self.state.lease_events.add(PhaseEnded(subject, lease.requested_at, phase))

    def _count_start(self, lease: Lease) -> None:
        over_at = lease.ready_at or stopped_at(lease)
        took = max(over_at - lease.requested_at, timedelta()).total_seconds()
        market = market_of(lease) or metrics.NO_MARKET
        metrics.START_SECONDS.labels(outcome_of(lease), market).observe(took)

    def _end(self, lease: Lease) -> LeaseEnded:
        at = ended_at(lease)
        ready_at = lease.ready_at or stopped_at(lease)
        return LeaseEnded(
            subject=_subject(lease),
            at=at,
            start=outcome_of(lease),
            reason=reason_of(lease),
            ready_seconds=max(stopped_at(lease) - ready_at, timedelta()).total_seconds(),
            usd=_usd(lease, at, self.state.settings.time_zone),
        )


def _is_started(lease: Lease | None) -> bool:
    """Whether its start is over, one way or the other."""
    return lease is not None and (lease.ready_at is not None or lease.state is LeaseState.ENDED)


def _usd(lease: Lease, now: datetime, time_zone: tzinfo) -> Mapping[Purpose, float | None]:
    rows = costs_of(lease, now, time_zone)
    return {
        purpose: total(amount_of(row) for row in rows if row.purpose is purpose).usd
        for purpose in Purpose
    }


def _subject(lease: Lease) -> Subject:
    """With its last instance."""
    last = lease.segments[-1] if lease.segments else None
    return Subject(
        lease_id=lease.lease_id,
        user=lease.user,
        server=lease.server,
        payer=payer_of(lease),
        profile=lease.profile,
        market=market_of(lease),
        instance_type=last.instance_type if last else "",
        zone=last.zone if last else "",
    )
