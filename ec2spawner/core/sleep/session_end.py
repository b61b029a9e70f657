"""What becomes of a session that sleeps."""

from __future__ import annotations

from enum import StrEnum


class SessionEnd(StrEnum):
    """Each sleeping session ends in one of these."""

    WOKEN = "woken"
    """A server that was to wake it became ready."""
    REPLACED = "replaced"
    """Another session of its server was saved, after a start that left it asleep."""
    EXPIRED = "expired"
    DELETED = "deleted"
    """With its home."""
