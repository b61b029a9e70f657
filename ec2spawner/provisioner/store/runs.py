"""Runs and their documents, in SQL. Within the caller's transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, and_, delete, func, not_, or_, select

from ..model.run import Run, RunState
from .statements import upsert
from .tables import run_document_table, run_table

log = logging.getLogger(__name__)

KEPT: Final = timedelta(days=30)
"""For so long a run that has ended is shown, and its documents are kept."""

Kind = Literal["source", "result"]

_RUN: Final = TypeAdapter(Run)
_COLUMN: Final = run_table.c
_DOCUMENT: Final = run_document_table.c
_NOT_ENDED: Final = (RunState.QUEUED.value, RunState.STARTED.value)


def add(connection: Connection, runs: Sequence[Run], source: str, at: datetime) -> None:
    """Insert the runs of one submission with what they all execute; once more changes nothing."""
    for run in runs:
        upsert(connection, run_table, _row(run))
    save_document(connection, "source", runs[0].source, source, at)


def save(connection: Connection, run: Run, result: str | None, at: datetime) -> None:
    """Replace a run and, unless it is None, its result so far."""
    upsert(connection, run_table, _row(run))
    if result is not None:
        save_document(connection, "result", run.number, result, at)


def save_document(
    connection: Connection, kind: Kind, number: int, document: str, at: datetime
) -> None:
    """Insert or replace."""
    row = {
        "document_id": f"{kind}/{number}",
        "number": number,
        "written_at": at,
        "document": document,
    }
    upsert(connection, run_document_table, row)


def document(connection: Connection, kind: Kind, number: int) -> str:
    """Empty where there is none."""
    query = select(_DOCUMENT.document).where(_DOCUMENT.document_id == f"{kind}/{number}")
    return connection.execute(query).scalar() or ""


def forget_documents(connection: Connection, before: datetime, open_sources: Sequence[int]) -> None:
    """Delete what was written before then, but for what belongs to runs that have not ended."""
    old = _DOCUMENT.written_at < before
    is_open = select(_COLUMN.number).where(_COLUMN.state.in_(_NOT_ENDED))
    is_source = _DOCUMENT.document_id.like("source/%")
    connection.execute(
        delete(run_document_table).where(old, not_(is_source), _DOCUMENT.number.not_in(is_open))
    )
    connection.execute(
        delete(run_document_table).where(old, is_source, _DOCUMENT.number.not_in(open_sources))
    )


def forget_source(connection: Connection, number: int) -> None:
    """One that is not there is no error."""
    connection.execute(
        delete(run_document_table).where(_DOCUMENT.document_id == f"source/{number}")
    )


def load(connection: Connection, ended_since: datetime) -> tuple[Run, ...]:
    """Those that have not ended, or since then, by number."""
    query = (
        select(run_table)
        .where(
            or_(
                _COLUMN.state.in_(_NOT_ENDED),
                and_(_COLUMN.state == RunState.ENDED.value, _COLUMN.ended_at >= ended_since),
            )
        )
        .order_by(_COLUMN.number)
    )
    return tuple(_readable(connection.execute(query).mappings()))


def last_number(connection: Connection) -> int:
    """The highest that was given; 0 for none."""
    return connection.execute(select(func.max(_COLUMN.number))).scalar() or 0


def _readable(rows: Any) -> Iterator[Run]:
    """A row that cannot be read is logged and left out: it must not prevent the hub's start."""
    for row in rows:
        try:
            yield _RUN.validate_python(row["record"])
        except ValidationError as error:
            log.warning("Run %d cannot be read: %s", row["number"], error.errors()[0]["type"])


def _row(run: Run) -> dict[str, Any]:
    return {
        "number": run.number,
        "user_name": run.user,
        "state": run.state.value,
        "ended_at": run.ended_at,
        "record": _RUN.dump_python(run, mode="json"),
    }
