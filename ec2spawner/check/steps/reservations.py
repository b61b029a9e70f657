"""The capacity reservations of the configuration."""

from __future__ import annotations

from collections.abc import Sequence

from ...wire import Market
from ..finding import Finding
from ..topics import Topic
from ..verdicts.reservations import judge_capacity_reservations
from .context import LATER, Context, ask
from .profiles import Resolved


async def check_reservations(
    context: Context, resolved: Resolved, zones: Sequence[str], findings: list[Finding]
) -> None:
    """Findings for each; none where the configuration chooses none."""
    choice = context.options.capacity_reservations.choice()
    if not choice.is_any:
        return
    asked = context.cloud.capacity_reservations()
    listed = await ask(findings, Topic.CAPACITY_RESERVATIONS, asked, LATER)
    if listed is None:
        return
    usable = {
        kind.name: zones
        for profile in resolved.profiles
        if Market.ON_DEMAND in profile.markets
        for kind in resolved.types.get(profile.slug, ())
    }
    findings += judge_capacity_reservations(choice, listed, usable)
