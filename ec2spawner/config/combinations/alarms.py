"""Alarms without a destination, and thresholds of what is never raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...wire import Market
from ..options import Options
from ..problem import Problem
from .places import buys, listed

_KIND_OF: Final[Mapping[str, str]] = {
    "limit_used": "limit",
    "idle_gpu": "idle-gpu",
    "unattended_gpu": "unattended-gpu",
    "interruptions": "interruptions",
    "interruptions_within": "interruptions",
    "price_rise": "price",
    "quota_used": "quota",
    "discount_expires": "discount",
    "pool_unused": "pool-unused",
    "disk_used": "full-disk",
}
"""Key of `alarms` -> the kind that it is a threshold of."""


def alarm_problems(options: Options) -> Iterator[Problem]:
    """Find kinds of `alarms` that are never sent."""
    alarms, where = options.alarms, "c.EC2Spawner.alarms"
    if others := sorted(alarms.model_fields_set - {"to"}) if not alarms.to else []:
        what = f'{listed(others)} set alarms, and "to" has no destination, so none is sent'
        yield Problem(where, what, 'add "to": ["mailtos://..."], or the ARN of an SNS topic')
        return
    for name in sorted(alarms.model_fields_set & _KIND_OF.keys()):
        if _KIND_OF[name] not in alarms.kinds:
            what = f'is a threshold of alarms of kind "{_KIND_OF[name]}", which "kinds" leaves out'
            fix = f'add "{_KIND_OF[name]}" to "kinds", or leave it out'
            yield Problem(f"{where}.{name}", what, fix)
        elif why := _never_raised(name, options):
            yield Problem(f"{where}.{name}", *why)


def _never_raised(name: str, options: Options) -> tuple[str, str] | None:
    """Why nothing reaches a threshold, and the fix."""
    if name == "limit_used" and not options.limits.limits().bind:
        fix = 'c.EC2Spawner.limits = {"hub": {"usd_per_month": 10000}}, or leave it out'
        return "is about used limits, and c.EC2Spawner.limits has none", fix
    is_of_spot = name in ("interruptions", "interruptions_within", "price_rise")
    if is_of_spot and not buys(options, Market.SPOT):
        fix = 'leave it out, or let a profile buy spot, as "market": "spot-first" does'
        return 'is about spot instances, and no profile has a spot "market"', fix
    return None
