"""What decides whether a queued run can start now."""

from __future__ import annotations

from typing import NamedTuple


class Terms(NamedTuple):
    """If one run cannot start for now, others with the same terms cannot either. Most runs of an
    array have the same."""

    user: str
    server: str
    """Name of the server that sent it: its volume may begin as a copy of that server's home."""
    payer: str
    """Empty is the user."""
    profile: str
    """Slug."""
    spot_usd_per_hour: float | None
    """Only a spot instance at this price or less will do now; None for any instance."""
    left_usd: float | None
    """Of its cost cap; None without one."""
    zone: str
    """Of its last instance, where its volume is; empty before the first one."""
