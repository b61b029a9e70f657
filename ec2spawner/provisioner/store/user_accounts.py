"""The accounts of users, in SQL. Within the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from ..model.user_account import Identity, UserAccount
from .statements import upsert
from .tables import user_account_table


def save(connection: Connection, accounts: Sequence[UserAccount]) -> None:
    """Insert or replace."""
    for account in accounts:
        row = {
            "account_key": account.key,
            "name": account.name,
            "jupyterhub_id": account.identity.jupyterhub_id,
            "created_at": account.identity.created_at,
            "named_at": account.named_at,
            "is_lost": account.is_lost,
        }
        upsert(connection, user_account_table, row)


def load(connection: Connection) -> tuple[UserAccount, ...]:
    """All that are stored, in no order."""
    return tuple(
        UserAccount(
            key=row["account_key"],
            name=row["name"],
            identity=Identity(row["jupyterhub_id"], row["created_at"]),
            named_at=row["named_at"],
            is_lost=row["is_lost"],
        )
        for row in connection.execute(select(user_account_table)).mappings()
    )
