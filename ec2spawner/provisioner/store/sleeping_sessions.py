"""What sleeps of each server, in SQL. Within the caller's transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select

from ...wire import SavedSession
from ..model.sleeping_session import SleepingSession
from .tables import sleeping_session_table

log = logging.getLogger(__name__)


def save(connection: Connection, session: SleepingSession) -> None:
    """Insert it, or replace what its server had."""
    row = {
        "user_name": session.user,
        "server_name": session.server,
        "lease_id": session.lease_id,
        "session": session.session.model_dump(mode="json"),
        "slept_at": session.session.slept_at,
        "expires_at": session.expires_at,
        "woken_at": session.woken_at,
        "expiry_reported": session.expiry_reported,
    }
    forget(connection, session.user, session.server)
    connection.execute(insert(sleeping_session_table), row)


def forget(connection: Connection, user: str, server: str) -> None:
    """Delete the record; one that is not there is no error."""
    connection.execute(delete(sleeping_session_table).where(_of(user, server)))


def load(connection: Connection) -> tuple[SleepingSession, ...]:
    """All that are stored, in no order. A row that cannot be read is logged and left out: it must
    not prevent the hub's start."""
    return tuple(_readable(connection))


def _readable(connection: Connection) -> Iterator[SleepingSession]:
    for row in connection.execute(select(sleeping_session_table)).mappings():
        try:
            session = SavedSession.model_validate(row["session"])
        except ValidationError as error:
            log.warning(
                "The sleeping session of %r of %r cannot be read: %d errors, the first %s",
                row["server_name"],
                row["user_name"],
                error.error_count(),
                error.errors(include_input=False)[0]["type"],
            )
            continue
        yield SleepingSession(
            user=row["user_name"],
            server=row["server_name"],
            lease_id=row["lease_id"],
            session=session,
            expires_at=row["expires_at"],
            woken_at=row["woken_at"],
            expiry_reported=row["expiry_reported"],
        )


def _of(user: str, server: str) -> ColumnElement[bool]:
    column = sleeping_session_table.c
    return and_(column.user_name == user, column.server_name == server)
