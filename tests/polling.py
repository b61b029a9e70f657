"""How often a test looks whether what it waits for has come true."""

from __future__ import annotations

SHORTEST = 0.02
LONGEST = 0.3
"""Seconds: soon enough to act while a start or a stop is under way."""


def pause(waited: float) -> float:
    """Seconds until the next look: a tenth of those that were waited, within the bounds.

    A look costs CPU time, most of all where it asks an embedded EC2 or a hub, which then lacks for
    what the test waits for.
    """
    return min(max(waited / 10, SHORTEST), LONGEST)
