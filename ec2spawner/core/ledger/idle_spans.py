"""When a server was idle: spans folded from what its heartbeats report. Pure.

Idle is the time in which the idle rule saw no work. The spans say which part of a lease's cost was
for nothing, and what a shorter idle limit would have saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

MIN_SPAN: Final = timedelta(seconds=60)
"""Shorter pauses are use: a person reads. It also bounds the writes to one a minute."""

MAX_SPANS: Final = 500
"""Spans of one lease. Beyond them the shortest is dropped, and counts as use: a lease is written as
a whole, and what is reported comes from the user's instance."""


class IdleSpan(NamedTuple):
    """A period without work. Instants in UTC."""

    start: datetime
    end: datetime | None = None
    """None while it lasts, or until the server ended."""


def record(
    spans: Sequence[IdleSpan], idle_since: datetime | None, now: datetime
) -> tuple[IdleSpan, ...]:
    """The spans after a heartbeat that reports idleness since then; None is work."""
    if not spans or spans[-1].end is not None:
        return _begun(tuple(spans), idle_since, now)
    *past, last = spans
    if idle_since is not None and idle_since <= last.start + timedelta(seconds=1):
        return tuple(spans)
    # Work between two heartbeats is seen only by when it ended.
    ended = max(now if idle_since is None else idle_since, last.start)
    return _begun((*past, last._replace(end=ended)), idle_since, now)


def _begun(
    spans: tuple[IdleSpan, ...], idle_since: datetime | None, now: datetime
) -> tuple[IdleSpan, ...]:
    if idle_since is None or now - idle_since < MIN_SPAN:
        return spans
    after = spans[-1].end if spans else None
    if after is not None and now - after < MIN_SPAN:
        return spans  # it says that it was idle for longer than it has been
    begun = (*spans, IdleSpan(max(idle_since, after or idle_since)))
    if len(begun) <= MAX_SPANS:
        return begun
    shortest = min(range(MAX_SPANS), key=lambda place: _length(begun[place]))
    return (*begun[:shortest], *begun[shortest + 1 :])


def _length(span: IdleSpan) -> timedelta:
    return timedelta.max if span.end is None else span.end - span.start
