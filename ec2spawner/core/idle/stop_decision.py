"""Signals + policy + now -> since when a server is idle, when it stops, and why it does not. Pure.

`assess` is folded over time: the `Past` that it returns goes into the next call, so that work that
has left the signals (a kernel shut down, a terminal closed) still counts.

`activity` finds what is working, `stuck_kernels` busy kernels that do nothing, and `working_hours`
the limit for an hour of the week.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ...wire import Idleness, IdlePolicy
from . import stuck_kernels, working_hours
from .activity import Signals, computes, in_english, instants, is_watched, work

CLOCK_SET = timedelta(seconds=5)
"""If wall clock and monotonic clock differ by more than this between two calls, the clock was set.
Idle time is unknown then and starts again: an hour too long is better than a lost job."""


@dataclass(frozen=True, slots=True)
class Past:
    """What one assessment passes to the next."""

    last_active: datetime
    """The latest end of work or instant of activity seen so far."""
    assessed_at: datetime
    clock_set_at: datetime | None = None
    """When the clock was last set: no idle time begins earlier."""
    silences: Mapping[str, stuck_kernels.Silence] = field(default_factory=dict)
    """Of busy kernels, by their ids."""


def assess(
    signals: Signals,
    policy: IdlePolicy,
    now: datetime,
    past: Past | None = None,
    elapsed: float | None = None,
) -> tuple[Idleness, Past]:
    """Idleness at `now`, and the `past` of the next call.

    `elapsed` is the time since `past.assessed_at` by a monotonic clock, in seconds; it shows
    whether the wall clock was set.
    """
    clock_set_at = _clock_set_at(past, now, elapsed)
    silences = _silences(signals, policy, now, past, elapsed)
    silent = stuck_kernels.counted_out(silences, policy)
    works = work(signals, policy, now, silent.keys())
    known = [signals.started_at, *instants(signals, policy, now, silent.keys())]
    if past is not None:
        known.append(past.last_active)
    if clock_set_at is not None:
        known.append(clock_set_at)
    # Instants after now are from before the clock was set back.
    believed = (instant for instant in known if instant <= now + CLOCK_SET)
    last_active = now if works else min(max(believed, default=now), now)
    idle_since = None if works else last_active
    ends = stop_at(policy, signals.started_at, idle_since, signals.extended_until)
    idleness = Idleness(
        idle_since=idle_since,
        busy=works.what if works else None,
        busy_because=in_english(works.what) if works else "",
        busy_kernel_id=works.kernel_id if works else "",
        busy_path=works.path if works else "",
        stop_at=ends,
        warn_at=_warn_at(policy, ends, idle_since or signals.started_at),
        cull_kernels=_kernels_to_cull(signals, policy, now, clock_set_at, silent),
    )
    return idleness, Past(last_active, now, clock_set_at, silences)


def _clock_set_at(past: Past | None, now: datetime, elapsed: float | None) -> datetime | None:
    """When the wall clock was last set, by its present time."""
    if past is None:
        return None
    by_wall = now - past.assessed_at
    by_monotonic = timedelta(seconds=elapsed) if elapsed is not None else max(by_wall, timedelta())
    if abs(by_wall - by_monotonic) > CLOCK_SET:
        return now
    return past.clock_set_at


def _silences(
    signals: Signals, policy: IdlePolicy, now: datetime, past: Past | None, elapsed: float | None
) -> dict[str, stuck_kernels.Silence]:
    if past is None:
        return stuck_kernels.follow({}, signals, policy, now, 0.0)
    by_wall = (now - past.assessed_at).total_seconds()
    return stuck_kernels.follow(
        past.silences, signals, policy, now, by_wall if elapsed is None else elapsed
    )


def stop_at(
    policy: IdlePolicy,
    started_at: datetime,
    idle_since: datetime | None,
    extended_until: datetime | None,
) -> datetime | None:
    """When a server stops if its state stays as it is; None for never.

    The instance shows it to its user, and the hub stops by it.
    """
    ends = idle_stop_at(policy, idle_since, extended_until) if idle_since is not None else None
    if policy.max_age_seconds:
        oldest = started_at + timedelta(seconds=policy.max_age_seconds)
        ends = oldest if ends is None else min(ends, oldest)
    return ends


def idle_stop_at(
    policy: IdlePolicy, idle_since: datetime, extended_until: datetime | None
) -> datetime | None:
    """The same without the maximum age; None for never."""
    limit, ends = policy.server_seconds, None
    if policy.working_hours is not None:
        ends = working_hours.stop_after(idle_since, limit, policy.working_hours)
    elif limit:
        ends = idle_since + timedelta(seconds=limit)
    return max(ends, extended_until) if ends and extended_until else ends


def _warn_at(policy: IdlePolicy, stop_at: datetime | None, not_before: datetime) -> datetime | None:
    if stop_at is None or not policy.warn_seconds:
        return None
    return min(stop_at, max(stop_at - timedelta(seconds=policy.warn_seconds), not_before))


def _kernels_to_cull(
    signals: Signals,
    policy: IdlePolicy,
    now: datetime,
    clock_set_at: datetime | None,
    silent: Mapping[str, float],
) -> list[str]:
    """Ids of kernels idle for too long, the longest idle first.

    Empty while the GPU or the CPU is in use: a thread of an idle kernel may use it. Empty if CPU
    use was not sampled all the time. Empty while the user has extended the server or is active
    otherwise: they would miss what a kernel holds in memory. A silent kernel is idle since it
    stopped counting as work.
    """
    limit = policy.kernel_seconds
    latest = now - timedelta(seconds=limit)
    if (
        not limit
        or (signals.extended_until is not None and signals.extended_until > now)
        or (signals.last_input is not None and signals.last_input >= latest)
        or (clock_set_at is not None and clock_set_at >= latest)
        or computes(signals, policy, now)
        or not is_watched(signals, policy, now)
    ):
        return []
    idle_for = {
        kernel.id: (now - kernel.last_activity).total_seconds()
        for kernel in signals.kernels
        if kernel.execution_state == "idle"
    }
    too_long = {each: time for each, time in {**idle_for, **silent}.items() if time > limit}
    return sorted(too_long, key=lambda kernel_id: -too_long[kernel_id])
