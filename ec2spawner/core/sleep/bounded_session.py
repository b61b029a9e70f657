"""A saved session's description within a number of bytes: names and errors are the user's. Pure."""

from __future__ import annotations

from ...wire import SavedSession

MAX_SESSION_BYTES = 40 * 1024
"""As JSON. The hub refuses a body of more than 64 KiB unread."""


def bounded(session: SavedSession, max_bytes: int = MAX_SESSION_BYTES) -> SavedSession:
    """The session without as much detail as has to go: first of what is lost, changed or largest,
    of the last kernel first, then the last kernels. The counts stay."""
    kernels = list(session.kernels)
    for place in reversed(range(len(kernels))):
        if _size(session.model_copy(update={"kernels": kernels})) <= max_bytes:
            break
        kernels[place] = kernels[place].model_copy(
            update={"largest": [], "lost": [], "changed": []}
        )
    while kernels and _size(session.model_copy(update={"kernels": kernels})) > max_bytes:
        kernels.pop()
    return session.model_copy(update={"kernels": kernels})


def _size(session: SavedSession) -> int:
    return len(session.model_dump_json().encode())
