"""What idleness says to people, in one sentence that holds no countdown. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from ...wire import IdlePolicy
from ..text.durations import in_words
from . import working_hours
from .activity import Signals, Work
from .policy import bounds, shortest_limit

WORK = "no running cell, no busy terminal, no GPU use and nobody typing"


def sentence(
    signals: Signals,
    policy: IdlePolicy,
    now: datetime,
    work: Work | None,
    idle_since: datetime | None,
    stop_at: datetime | None,
) -> str:
    """It changes only when the state does."""
    if work is not None or idle_since is None:
        stays = ", so this server stays on" if shortest_limit(policy) else ""
        said = f"{work.because if work else 'Something works'}{stays}."
    else:
        said = f"Nothing has worked here since {clock_time(idle_since, now)}."
        if shortest_limit(policy):
            said += f" It stops after {_limits(policy)} without work: {WORK}."
            if signals.extended_until is not None and stop_at == signals.extended_until:
                said += f" You asked to keep it until {clock_time(stop_at, now)}."
    if policy.max_age_seconds:
        said += f" Whatever runs, it stops {in_words(policy.max_age_seconds)} after its start."
    return said


def bounded_choice(policy: IdlePolicy) -> str:
    """To whom has asked for a limit that is not allowed: what is, and what they have got."""
    least, most = map(in_words, bounds(policy))
    allowed = least if least == most else f"{least} to {most}"
    return f"Allowed: {allowed}. It stops after {in_words(policy.server_seconds)} without work now."


def _limits(policy: IdlePolicy) -> str:
    """`1 hour`, or `3 hours (Mon-Fri 08:00-18:00 Europe/Berlin) or 1 hour (at other times)`."""
    hours, outside = policy.working_hours, policy.server_seconds
    if hours is None:
        return in_words(outside)
    parts = []
    if hours.server_seconds:
        parts.append(f"{in_words(hours.server_seconds)} ({working_hours.in_words(hours)})")
    if outside:
        parts.append(f"{in_words(outside)} (at other times)")
    return " or ".join(parts)


def clock_time(instant: datetime, now: datetime) -> str:
    """`13:50 UTC`, with the day where that is another one."""
    instant, now = instant.astimezone(UTC), now.astimezone(UTC)
    form = "%H:%M UTC" if instant.date() == now.date() else "%d %b %H:%M UTC"
    return instant.strftime(form)
