"""The accounts of users, in SQL. Within the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, insert, select

from ..model.user_account import Claim, Identity, UserAccount
from .tables import user_account_table


def save(connection: Connection, accounts: Sequence[UserAccount]) -> None:
    """Insert or replace. Of ten thousand, which a hub's first start may find, each statement is
    executed once for all."""
    rows = [
        {
            "account_key": account.key,
            "number": account.number,
            "name": account.name,
            "jupyterhub_id": account.identity.jupyterhub_id,
            "created_at": account.identity.created_at,
            "named_at": account.named_at,
            "claim": account.claim.value,
        }
        for account in accounts
    ]
    if rows:
        same = user_account_table.c.account_key == bindparam("key")
        keys = [{"key": row["account_key"]} for row in rows]
        connection.execute(delete(user_account_table).where(same), keys)
        connection.execute(insert(user_account_table), rows)


def load(connection: Connection) -> tuple[UserAccount, ...]:
    """All that are stored, in no order."""
    return tuple(
        UserAccount(
            key=row["account_key"],
            number=row["number"],
            name=row["name"],
            identity=Identity(row["jupyterhub_id"], row["created_at"]),
            named_at=row["named_at"],
            claim=Claim(row["claim"]),
        )
        for row in connection.execute(select(user_account_table)).mappings()
    )
