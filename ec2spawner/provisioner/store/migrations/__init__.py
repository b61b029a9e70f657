"""The versions of the store's schema, and the way from any of them to the newest.

A new one is made in the repository's root with
`alembic --config ec2spawner/provisioner/migrations/alembic.ini revision --autogenerate`.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

_ALEMBIC = threading.Lock()
"""Alembic keeps the migration at work in module globals: one at a time in a process."""


class SchemaTooNewError(Exception):
    """The database is at a revision that this code does not know."""

    def __init__(self, revision: str) -> None:
        super().__init__(revision)
        self.revision = revision


class ForeignSchemaError(Exception):
    """The database is at a revision of another program: ours are numbers."""


def upgrade(connection: Connection) -> str | None:
    """Bring the schema to the newest version within the connection's transaction.

    Returns the revision that it had before; None for an empty database.

    Raises `SchemaTooNewError` and `ForeignSchemaError`, and then has changed nothing. Blocks: not
    for the event loop.
    """
    # Imported here, in the store's thread: together they take a tenth of a second.
    from alembic import command
    from alembic.runtime.migration import MigrationContext
    from alembic.util import CommandError

    script = _scripts()
    current = MigrationContext.configure(connection).get_current_revision()
    if current == script.get_current_head():
        return current
    if current is not None:
        try:
            script.get_revision(current)
        except CommandError as error:
            if not current.isdecimal():
                raise ForeignSchemaError(current) from error
            raise SchemaTooNewError(current) from error
    config = _config()
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
    return current


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


@cache
def _scripts() -> ScriptDirectory:
    """Cached: it imports all versions once."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())
