"""Terms under which no queued run can start for now, and why.

In memory only: two thousand runs of an array that wait cost no write, and after a restart they are
tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from ...core.limits.admission import Refusal
from ...core.runs.terms import Terms
from ..runtime.clock import Clock

MIN_SECONDS: Final = 5.0
"""A limit holds terms for at least so long, however many leases end: others have their turn."""

MAX_MESSAGE: Final = 500


@dataclass(slots=True)
class Hold:
    """Why runs with these terms wait. Once it is over it stays until one of them was tried."""

    message: str
    since: float
    """Uptime in seconds, so that it ends in time when the hub's clock is set."""
    until: float
    scope: str
    """Of the limit that refuses them, such as `user:ann`; empty if no limit does."""
    considered: float
    """Uptime at which a retry was last considered."""


class RunHolds:
    """By terms."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[Terms, Hold] = {}
        self._scans = 0
        """In which terms were to be retried."""
        self._refusals: dict[Terms, set[tuple[str, str]]] = {}
        """Scope and kind of the limits that have refused runs with these terms."""

    # --- reading ---

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any terms."""
        return not self._found and not self._refusals

    def is_held(self, terms: Terms) -> bool:
        """Whether no run with these terms is to be tried now."""
        hold = self._found.get(terms)
        return hold is not None and hold.until > self._clock.uptime()

    def is_doubtful(self, terms: Terms) -> bool:
        """Whether the last attempt with these terms failed, and their hold is over: one run is
        enough to try again."""
        return terms in self._found and not self.is_held(terms)

    def message(self, terms: Terms) -> str:
        """Why the last attempt failed, in words for users; empty if it did not."""
        hold = self._found.get(terms)
        return "" if hold is None else hold.message

    # --- changing ---

    def hold(self, terms: Terms, message: str, pause: timedelta, scope: str = "") -> None:
        """Try no run with these terms for so long. `scope` is that of the limit that refused
        one: the hold ends when a lease of the scope does."""
        now = self._clock.uptime()
        until = now + pause.total_seconds()
        self._found[terms] = Hold(message[:MAX_MESSAGE], now, until, scope, considered=now)

    def to_retry(self, doubtful: Iterable[Terms], free: int, *, has_others: bool) -> list[Terms]:
        """Those of the doubtful terms with which a run is to be tried now, the longest ago first.

        They get half of the free places, so that any number of them leaves places to others: of one
        place every other scan.
        """
        self._scans += 1
        most = (free + self._scans % 2) // 2 if has_others else free
        order = sorted(doubtful, key=lambda terms: self._found[terms].considered)[:most]
        for terms in order:
            self._found[terms].considered = self._clock.uptime()
        return order

    def is_first_refusal(self, terms: Terms, refusal: Refusal) -> bool:
        """Whether this limit has not refused runs with these terms since they wait; from now on it
        has."""
        seen, by = self._refusals.setdefault(terms, set()), (refusal.scope, refusal.kind or "")
        is_first = by not in seen
        seen.add(by)
        return is_first

    def clear(self, terms: Terms) -> None:
        """A run with these terms is tried: it is held again, or others may follow."""
        self._found.pop(terms, None)

    def release(self, scopes: Collection[str]) -> bool:
        """A lease that counted in these scopes has ended: their limits may admit another one.
        Whether any terms were held by one of them."""
        held = [hold for hold in self._found.values() if hold.scope in scopes]
        for hold in held:
            hold.until = min(hold.until, hold.since + MIN_SECONDS)
        return bool(held)

    def keep(self, waiting: Collection[Terms]) -> None:
        """Forget all terms but these, those of the runs that wait."""
        self._found = {terms: hold for terms, hold in self._found.items() if terms in waiting}
        self._refusals = {terms: by for terms, by in self._refusals.items() if terms in waiting}
