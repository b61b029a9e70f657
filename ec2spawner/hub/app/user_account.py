"""A user's account at JupyterHub: a new one may have the name of a deleted one."""

from __future__ import annotations

from datetime import UTC, datetime

from jupyterhub.user import User


def created_at(user: User) -> datetime | None:
    """When JupyterHub created the account, UTC; None where it does not know.

    What was requested earlier was requested by a deleted user of the same name.
    """
    created: datetime | None = user.orm_user.created
    return created.replace(tzinfo=UTC) if created else None
