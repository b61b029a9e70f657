"""An idle policy combined with its user's choice. Pure."""

from __future__ import annotations

from ...wire import IdlePolicy


def in_force(policy: IdlePolicy) -> IdlePolicy:
    """The effective policy: the user's choice, within its bounds, replaces the limits.

    A warning that would come before the idle time begins is moved to half of it.
    """
    update: dict[str, object] = {}
    chosen = policy.user_server_seconds
    if chosen is not None:
        kept = bounded(policy, chosen)
        update["user_server_seconds"] = kept
        if kept is not None:
            update |= {"server_seconds": kept, "working_hours": None}
    in_place = policy.model_copy(update=update) if update else policy
    shortest = shortest_limit(in_place)
    if shortest and in_place.warn_seconds >= shortest:
        in_place = in_place.model_copy(update={"warn_seconds": shortest / 2})
    return in_place


def bounded(policy: IdlePolicy, seconds: float) -> float | None:
    """A requested limit, in seconds, moved into the bounds; None if the policy leaves no choice."""
    least, most = bounds(policy)
    return min(max(seconds, least), most) if most > 0 else None


def bounds(policy: IdlePolicy) -> tuple[float, float]:
    """The shortest and the longest limit, in seconds, that a user may choose; 0 is no choice.

    The longest is never above the server's maximum age.
    """
    most = policy.user_server_max_seconds
    if policy.max_age_seconds:
        most = min(most, policy.max_age_seconds)
    return min(policy.user_server_min_seconds, most), most


def shortest_limit(policy: IdlePolicy) -> float:
    """The shortest idle time, in seconds, after which this policy stops a server; 0 for never."""
    hours = policy.working_hours
    limits = (policy.server_seconds, hours.server_seconds if hours else 0.0)
    return min((limit for limit in limits if limit), default=0.0)
