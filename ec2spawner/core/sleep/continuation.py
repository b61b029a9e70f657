"""How a server continues on another instance: in which markets, how often, and until when its old
instance waits for the new one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ...wire import IdlePolicy, Market, Trigger
from ..ledger.price_change import HourlyPrice
from .rules import AfterInterruption
from .step_budgets import LATEST_SAVE_SECONDS, RECLAIM_SECONDS

LATEST_STOP: Final = timedelta(seconds=LATEST_SAVE_SECONDS + 5.0)
"""By then before EC2 reclaims an instance its server is stopped, even if no other instance is there
yet: just before its agent would begin to save by itself."""

SHORT_RUN: Final = timedelta(minutes=2)
"""A server that was ready for less than this got no work done."""

MAX_SHORT_RUNS: Final = 3
"""After so many short runs in a row a server does not continue: it sleeps. Nothing else bounds what
a market would cost that reclaims each instance at once, or a server that ends its instances."""


RETRY_INTERVAL: Final = timedelta(minutes=10)
"""Between two notices for which another instance is bought ahead of the end, where the first was
withdrawn. EC2 hardly ever does that, but an agent could pretend it all the time."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a lease has taken over from the one that it continues."""

    trigger: Trigger = "interruption"
    """Why it continues it."""
    ran_seconds: float = 0.0
    """How long the server had run before, on all its instances together."""
    idle_seconds: float = 0.0
    """How long it had been idle when it left the last one."""
    short_runs: int = 0
    """How many of the last instances in a row it had for less than `SHORT_RUN`, or lost without a
    reason."""
    is_handed_over: bool = False
    """Whether the server has left the last instance to continue here."""
    price: HourlyPrice | None = None
    """What it cost when it left the last instance; None is unknown."""


def markets_after(then: AfterInterruption, allowed: Sequence[Market]) -> tuple[Market, ...]:
    """Where a server that was interrupted buys its next instance, of the markets that its user has
    agreed to; a price that was not agreed to is never paid."""
    if then == "resume-on-demand" and Market.ON_DEMAND in allowed:
        return (Market.ON_DEMAND,)
    return tuple(allowed)


def taken_over(
    before: TakenOver,
    trigger: Trigger,
    ready_at: datetime,
    idle_since: datetime | None,
    now: datetime,
    *,
    price: HourlyPrice | None = None,
    is_explained: bool = True,
) -> TakenOver:
    """What the next lease takes over at `now` from one that has been ready since `ready_at` and
    costs `price`.

    Where AWS has not said why its instance ended (`is_explained`), the run counts as a short one:
    it may have crashed by itself.
    """
    ran = max(now - ready_at, timedelta())
    idle = max(now - idle_since, timedelta()) if idle_since else timedelta()
    ran_seconds = before.ran_seconds + ran.total_seconds()
    return TakenOver(
        trigger=trigger,
        is_handed_over=True,
        ran_seconds=ran_seconds,
        idle_seconds=min(idle.total_seconds(), ran_seconds),
        short_runs=before.short_runs + 1 if ran < SHORT_RUN or not is_explained else 0,
        price=price,
    )


def is_interrupted_too_often(after: TakenOver) -> bool:
    """Whether the server shall not continue once more, by what its next lease would take over."""
    return after.trigger == "interruption" and after.short_runs >= MAX_SHORT_RUNS


def seconds_to_save(save_seconds: float, until: datetime | None, now: datetime) -> float:
    """How long saving the variables may take, of at most `save_seconds`, where EC2 reclaims the
    instance at `until`."""
    if until is None:
        return save_seconds
    return max(min(save_seconds, (until - now).total_seconds() - RECLAIM_SECONDS), 0.0)


def with_age(policy: IdlePolicy, over: TakenOver) -> IdlePolicy:
    """The policy of a server whose age counts from before its present lease.

    Idle time and age are both counted from `idle_seconds` before it got ready.
    """
    if not policy.max_age_seconds:
        return policy
    left = policy.max_age_seconds - over.ran_seconds + over.idle_seconds
    return policy.model_copy(update={"max_age_seconds": max(left, 1.0)})
