"""Users stay logged in while JupyterHub's database cannot be written, as on a full disk.

JupyterHub records the last activity of a token and its user while it identifies who sent a request,
and takes a user whose activity it cannot record for one who is not logged in. Running servers would
then refuse their own users, whose tokens they let the hub check.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jupyterhub.handlers.base import BaseHandler
from sqlalchemy.exc import SQLAlchemyError

Record = Callable[..., bool]


def keep_users_logged_in() -> None:
    """Extend all handlers of JupyterHub, which derive from one class."""
    BaseHandler._record_activity = recording_or_not(BaseHandler._record_activity)


def recording_or_not(record: Record) -> Record:
    """Wrap `_record_activity` to commit as well, and to return False where that fails.

    JupyterHub commits only where it returns True; then there is nothing left to commit.
    """
    failing_since: float | None = None

    def record_activity(self: BaseHandler, *arguments: Any, **options: Any) -> bool:
        nonlocal failing_since
        try:
            if not record(self, *arguments, **options):
                return False
            self.db.commit()
        except SQLAlchemyError as error:
            self.db.rollback()
            if failing_since is None:
                failing_since = time.monotonic()
                cause = getattr(error, "orig", None) or error
                self.log.error(
                    "JupyterHub cannot write to its database: %s. Users stay logged in; their "
                    "activity is not recorded",
                    cause,
                )
            return False
        if failing_since is not None:
            seconds = time.monotonic() - failing_since
            failing_since = None
            self.log.warning("Users' activity is recorded again, after %.0f s", seconds)
        return True

    return record_activity
