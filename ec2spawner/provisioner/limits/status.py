"""A limit as a server's user sees it."""

from __future__ import annotations

from ...core.ledger.cost_rows import HUB
from ...core.limits.bounds import GPU_HOUR, NANO, AtLimit, Kind
from ...core.limits.standing import COUNTED, Standing
from ...wire import Limit
from .reaches import Reach


def limit_message(reach: Reach, standing: Standing) -> Limit:
    """For the agent, with the limit's standing as it is displayed. What all users of a hub have
    spent together is not said, only the share."""
    bounds = reach.bounds
    kind, _, name = standing.scope.partition(":")
    unit = {Kind.GPU_HOURS: GPU_HOUR, Kind.SERVERS: 1}.get(standing.kind, NANO)
    is_hub = standing.scope == HUB
    return Limit(
        scope=kind,
        name=name,
        kind=standing.kind,
        percent=standing.percent,
        threshold=standing.threshold,
        limit=None if is_hub else standing.limit / unit,
        used=None if is_hub else standing.used / unit,
        at_least=standing.at_least,
        days=bounds.window_days if standing.kind is Kind.WINDOW else None,
        renews=standing.renews,
        passed_on=reach.passed_on,
        reached_at=reach.at,
        stops=standing.kind in COUNTED and bounds.at_limit is AtLimit.STOP,
        stop_at=reach.stop_at,
    )
