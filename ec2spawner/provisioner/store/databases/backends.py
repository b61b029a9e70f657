"""Which database a URL names: a file of SQLite's, or a PostgreSQL database."""

from __future__ import annotations

from typing import Final

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from .database import Database, StoreError
from .postgresql import PostgreSQL
from .sqlite import SQLite

DEFAULT_URL: Final = "sqlite:///ec2spawner.sqlite"


def open_database(url: str) -> Database:
    """The database at a URL of SQLAlchemy's. Raises `StoreError` for one that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            f"the store's URL is not one of SQLAlchemy's: write it like {DEFAULT_URL}"
        ) from None  # it may quote the password
    match parsed.get_backend_name():
        case "sqlite":
            return SQLite(parsed)
        case "postgresql":
            return PostgreSQL(parsed)
        case other:
            raise StoreError(
                f"a store on {other} is not supported: write a file's URL, like {DEFAULT_URL}, or "
                "a PostgreSQL database's, like postgresql://ec2spawner@db.example.org/ec2spawner"
            )
