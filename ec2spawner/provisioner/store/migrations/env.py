"""Alembic runs this: on the connection it was handed, or on the URL of `alembic.ini`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from ec2spawner.provisioner.store.tables import metadata


def run(connection: Connection) -> None:
    # SQLite can roll DDL back once `BEGIN` is ours, and cannot alter a table but by copying it.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transactional_ddl=True,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


handed: Connection | None = context.config.attributes.get("connection")
if handed is not None:
    run(handed)
else:
    url = context.config.get_main_option("sqlalchemy.url")
    assert url is not None, "alembic.ini names no sqlalchemy.url"
    with create_engine(url).begin() as own:
        run(own)
