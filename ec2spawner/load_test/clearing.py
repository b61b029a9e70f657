"""Removes what the child has left: servers that still run, users that were created."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from .journal import Journal, read
from .settings import Settings
from .user.session import StepFailed
from .user.visitor import Visitor

AT_ONCE: Final = 8
"""Servers that are stopped at the same time."""


def clear(settings: Settings, secret: str) -> dict[str, str]:
    """User -> why something of it is still there; empty if nothing is."""
    made = read(Path(settings.folder))
    journal = Journal(settings.folder)

    def clear_one(user: str) -> str:
        visitor = Visitor(settings, user, secret, journal, lambda _sample: None)
        try:
            visitor.clear(delete_user=user in made.users)
        except StepFailed as error:
            return str(error)
        return ""

    users = sorted({*made.running, *made.users})
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = dict(zip(users, threads.map(clear_one, users), strict=True))
    return {user: why for user, why in answers.items() if why}
