"""Runs and their documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, and_, delete, func, not_, or_, select

from ..model.leases.run import Run, RunState
from .databases.database_thread import DatabaseThread
from .statements import upsert
from .tables import run_document_table, run_table

log = logging.getLogger(__name__)

KEPT: Final = timedelta(days=30)
"""For so long a run that has ended is shown, and its documents are kept."""

Kind = Literal["source", "result"]

_RUN: Final = TypeAdapter(Run)
_COLUMN: Final = run_table.c
_DOCUMENT: Final = run_document_table.c
_LAST: Final = select(func.max(run_table.c.number)).scalar_subquery()
_NOT_ENDED: Final = (RunState.QUEUED.value, RunState.STARTED.value)


class RunStore:
    """Runs with what they execute and what they bring. All methods may raise `StoreError`."""

    def __init__(self, database: DatabaseThread) -> None:
        self._database = database

    async def add(self, runs: Sequence[Run], source: str, at: datetime) -> None:
        """Insert the runs of one submission with what they all execute; repeated, it changes
        nothing."""

        def write(connection: Connection) -> None:
            for run in runs:
                upsert(connection, run_table, _row(run))
            _save_document(connection, "source", runs[0].source, source, at)

        await self._database.write(write)

    async def save(self, run: Run, result: str | None, at: datetime) -> None:
        """Replace a run and, unless it is None, its result, written at this instant."""

        def write(connection: Connection) -> None:
            upsert(connection, run_table, _row(run))
            if result is not None:
                _save_document(connection, "result", run.number, result, at)

        await self._database.write(write)

    async def save_result(self, number: int, result: str, at: datetime) -> None:
        """Replace what a run that has not ended has brought so far."""
        await self._database.write(
            lambda connection: _save_document(connection, "result", number, result, at)
        )

    async def document(self, kind: Kind, number: int) -> str:
        """What a run executes, or its result so far; empty for none."""
        query = select(_DOCUMENT.document).where(_DOCUMENT.document_id == f"{kind}/{number}")
        return await self._database.read(
            lambda connection: connection.execute(query).scalar() or ""
        )

    async def forget_source(self, number: int) -> None:
        """Delete what the runs of one submission executed, once all have ended; one that is not
        there is no error."""
        source = delete(run_document_table).where(_DOCUMENT.document_id == f"source/{number}")
        await self._database.write(lambda connection: connection.execute(source))

    async def forget_results(self, numbers: Sequence[int]) -> None:
        """Delete what these runs have brought."""
        ids = [f"result/{number}" for number in numbers]
        results = delete(run_document_table).where(_DOCUMENT.document_id.in_(ids))
        await self._database.write(lambda connection: connection.execute(results))

    async def forget(self, numbers: Sequence[int]) -> None:
        """Delete these runs and what they have brought; of the last run its number stays, which is
        given to no other."""
        ids = [f"result/{number}" for number in numbers]
        results = delete(run_document_table).where(_DOCUMENT.document_id.in_(ids))
        runs = delete(run_table).where(_COLUMN.number.in_(numbers), _COLUMN.number < _LAST)

        def write(connection: Connection) -> None:
            connection.execute(results)
            connection.execute(runs)

        await self._database.write(write)

    async def forget_documents(self, now: datetime, open_sources: Sequence[int]) -> None:
        """Delete runs that ended, and documents, longer than `KEPT` ago, but for the results of
        runs that have not ended, and for what these numbers of sources still execute."""
        old = _DOCUMENT.written_at < now - KEPT
        is_open = select(_COLUMN.number).where(_COLUMN.state.in_(_NOT_ENDED))
        is_source = _DOCUMENT.document_id.like("source/%")

        def write(connection: Connection) -> None:
            results = delete(run_document_table).where(old, not_(is_source))
            connection.execute(results.where(_DOCUMENT.number.not_in(is_open)))
            sources = delete(run_document_table).where(old, is_source)
            connection.execute(sources.where(_DOCUMENT.number.not_in(open_sources)))
            ended = delete(run_table).where(_COLUMN.state == RunState.ENDED.value)
            connection.execute(ended.where(_COLUMN.ended_at < now - KEPT, _COLUMN.number < _LAST))

        await self._database.write(write)


def load(connection: Connection, ended_since: datetime) -> tuple[Run, ...]:
    """Those that have not ended, or since then, by number; within the caller's transaction."""
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


def _save_document(
    connection: Connection, kind: Kind, number: int, document: str, at: datetime
) -> None:
    row = {
        "document_id": f"{kind}/{number}",
        "number": number,
        "written_at": at,
        "document": document,
    }
    upsert(connection, run_document_table, row)


def _row(run: Run) -> dict[str, Any]:
    return {
        "number": run.number,
        "user_name": run.user,
        "state": run.state.value,
        "ended_at": run.ended_at,
        "record": _RUN.dump_python(run, mode="json"),
    }
