"""What an admin wants of the warm pool. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ...wire import Market
from ..hours_of_week import Hours


@dataclass(frozen=True, slots=True)
class Auto:
    """As many places as the starts of the last weeks ask for, within these bounds."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class PoolRule:
    """An entry of the configuration: how many instances wait for servers of a profile."""

    profile: str
    """Slug."""
    running: int | Auto
    market: Market
    hours: Hours | None = None
    """When it is in force; None is always."""
    usd_per_hour: float | None = None
    """What its places may cost together, in USD/hour; None is no cap."""
    stopped: int = 0
    """How many prepared instances wait stopped beside these. On-demand only: a one-time spot
    instance cannot be stopped."""
    homes_ahead: int = 0
    """So many of its running instances may wait for a user who is expected, with that user's home
    attached."""
    profile_name: str = ""
    """As users see it."""


@dataclass(frozen=True, slots=True)
class PoolRules:
    """All entries, in the order of the configuration: in a total cap, earlier ones come first."""

    rules: tuple[PoolRule, ...] = ()
    usd_per_hour: float | None = None
    """What all places may cost together, in USD/hour; None is no cap."""
