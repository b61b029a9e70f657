"""Starts that a limit refused lately, in SQL. Within the caller's transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, delete, insert, select

from ..model.leases.denied_start import DeniedStart
from .tables import denied_start_table

log = logging.getLogger(__name__)

_DENIED = TypeAdapter(DeniedStart)


def replace_all(connection: Connection, found: Sequence[DeniedStart]) -> None:
    """Store these in the place of all earlier ones; at most one of each server."""
    connection.execute(delete(denied_start_table))
    rows = [
        {
            "user_name": each.user,
            "server_name": each.server,
            "denied": _DENIED.dump_python(each, mode="json"),
        }
        for each in found
    ]
    if rows:
        connection.execute(insert(denied_start_table), rows)


def load(connection: Connection) -> tuple[DeniedStart, ...]:
    """All that are stored, in no order. A row that cannot be read is logged and left out: it must
    not prevent the hub's start."""
    return tuple(_readable(connection))


def _readable(connection: Connection) -> Iterator[DeniedStart]:
    for row in connection.execute(select(denied_start_table)).mappings():
        try:
            yield _DENIED.validate_python(row["denied"])
        except ValidationError as error:
            log.warning(
                "The refused start of %r by %r cannot be read: %d errors, the first %s",
                row["server_name"],
                row["user_name"],
                error.error_count(),
                error.errors(include_input=False)[0]["type"],
            )
