"""A limit as a server's user sees it."""

from __future__ import annotations

from datetime import datetime

from ...core.ledger.cost_rows import HUB
from ...core.limits.bounds import GPU_HOUR, NANO, AtLimit, Bounds, Kind
from ...core.limits.standing import Standing
from ...wire import Limit


def limit_message(
    standing: Standing, bounds: Bounds, at: datetime | None, stop_at: datetime | None
) -> Limit:
    """For the agent. What all users of a hub have spent together is not said, only the share."""
    kind, _, name = standing.scope.partition(":")
    unit = GPU_HOUR if standing.kind is Kind.GPU_HOURS else NANO
    is_hub = standing.scope == HUB
    return Limit(
        scope=kind,
        name=name,
        kind=standing.kind,
        percent=standing.percent,
        threshold=standing.threshold,
        limit=None if is_hub else standing.limit / unit,
        used=None if is_hub else standing.used / unit,
        days=bounds.window_days if standing.kind is Kind.WINDOW else None,
        renews=standing.renews,
        reached_at=at,
        stops=bounds.at_limit is AtLimit.STOP,
        stop_at=stop_at,
    )
