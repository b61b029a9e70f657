"""The store's address, as an admin may write it. No message repeats it: it may hold a password."""

from __future__ import annotations

import re
from typing import Annotated, Final, NoReturn

from pydantic import AfterValidator
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from .values import wrong

SQLITE_EXAMPLE: Final = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"
POSTGRESQL_EXAMPLE: Final = "postgresql://ec2spawner@db.example.org/ec2spawner"


def _a_store(value: str) -> str:
    if re.match(r"sqlite(\+pysqlite)?:///", value):
        return value
    if not value.startswith("postgresql"):
        _wrong("is no address of a SQLite file or a PostgreSQL database", SQLITE_EXAMPLE)
    try:
        url = make_url(value)
    except (ArgumentError, ValueError):
        _wrong("is no URL", POSTGRESQL_EXAMPLE)
    if url.drivername not in {"postgresql", "postgresql+psycopg"}:
        _wrong("names a driver that ec2spawner does not use: leave it out", POSTGRESQL_EXAMPLE)
    if not url.database:
        _wrong("names no database", POSTGRESQL_EXAMPLE)
    if "password" in url.query:
        wrong(
            "has a password among its parameters, where it would be shown in messages",
            "write it as postgresql://user:password@host/database, or in the hub's ~/.pgpass",
        )
    return value


def _wrong(what: str, example: str) -> NoReturn:
    wrong(what, f'c.EC2Spawner.store_url = "{example}"')


StoreURL = Annotated[str, AfterValidator(_a_store)]
