"""The users of a rehearsal: who they are, and which of them an earlier one has left. Pure.

Their names say until when their rehearsal may take. So whatever ended it, the next one knows which
users nobody needs any more, without a record of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

PREFIX: Final = "rehearsal-"
"""Of all names. JupyterHub's names of users are in lower case."""

_INSTANT: Final = "%Y%m%dt%H%M%Sz"
_NAME: Final = re.compile(r"rehearsal-(\d{8}t\d{6}z)-[0-9a-f]{4}-\d{4}")


def names(until: datetime, run: str, number: int) -> Sequence[str]:
    """So many users of a rehearsal that is over at that instant, UTC, whatever happens.

    `run` is four hexadecimal digits, so that two rehearsals of the same second share no user.
    """
    return [f"{PREFIX}{until:{_INSTANT}}-{run}-{each:04}" for each in range(1, number + 1)]


def until_of(name: str) -> datetime | None:
    """Until when the rehearsal of that user may take; None for any other user."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        return datetime.strptime(found[1], _INSTANT).replace(tzinfo=UTC)
    except ValueError:
        return None


def left_by_earlier(found: Iterable[str]) -> dict[str, datetime]:
    """Of these names the users of rehearsals, and until when each of them may take."""
    return {name: until for name in found if (until := until_of(name)) is not None}
