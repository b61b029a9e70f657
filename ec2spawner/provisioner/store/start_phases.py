"""The phases of starts that are over, in a table of their own: a year of them is read at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, select

from ...core.starts.outcome import Outcome
from ...core.starts.phases import Phase
from ...core.starts.summary import MeasuredStart
from ..model.leases.lease import Lease
from ..model.leases.start import is_measured, is_start_over, market_of, outcome_of, phases_of
from . import tables
from .rows import Row
from .statements import upsert

NO_MARKET = ""
"""Of a start for which nothing was bought."""


def save(connection: Connection, lease: Lease) -> None:
    """Insert or replace the phases of a lease's start once that is over, if it is measured."""
    if is_start_over(lease) and is_measured(lease):
        upsert(connection, tables.start_phases_table, start_row(lease))


def start_row(lease: Lease) -> Row:
    """A start that is over; a phase that it did not have is None."""
    found = phases_of(lease)
    seconds = {each.phase: each.seconds for each in found.phases}
    unfinished = [each.phase.value for each in found.phases if not each.is_complete]
    return {
        "lease_id": lease.lease_id,
        "requested_at": lease.requested_at,
        "profile": lease.profile,
        "market": market_of(lease) or NO_MARKET,
        "outcome": outcome_of(lease).value,
        "unfinished": unfinished[0] if unfinished else "",
        "total": found.total,
        "lost": found.lost,
        **{phase.value: seconds.get(phase) for phase in Phase},
    }


def measured_starts(
    connection: Connection, since: datetime, until: datetime, profile: str = ""
) -> Iterator[MeasuredStart]:
    """The starts that were requested at `since` or later and before `until`, of one profile or of
    all; in no order, one after the other."""
    column = tables.start_phases_table.c
    query = _starts().where(column.requested_at >= since, column.requested_at < until)
    if profile:
        query = query.where(column.profile == profile)
    return _measured(connection, query)


def measured_starts_of(
    connection: Connection, lease_ids: Collection[str]
) -> Mapping[str, MeasuredStart]:
    """Those of these leases that are over, by lease id."""
    query = _starts().where(tables.start_phases_table.c.lease_id.in_(lease_ids))
    return {each.lease_id: each for each in _measured(connection, query)}


def _starts() -> Select[Any]:
    column = tables.start_phases_table.c
    return select(
        column.lease_id,
        column.profile,
        column.market,
        column.outcome,
        column.total,
        column.lost,
        *(column[phase.value] for phase in Phase),
    )


def _measured(connection: Connection, query: Select[Any]) -> Iterator[MeasuredStart]:
    for lease_id, of_profile, market, outcome, total, lost, *seconds in connection.execute(query):
        yield MeasuredStart(
            lease_id, of_profile, market, Outcome(outcome), total, lost, tuple(seconds)
        )
