"""Starts that a limit refused lately: at once, or while they waited for their instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

from ...core.limits.admission import Refusal
from ..model.leases.denied_start import KEPT, DeniedStart
from ..model.leases.lease import Lease
from ..store.store import Store

MAX: Final = 200
"""Servers. Beyond it the user who has most of them loses the oldest: anybody can ask again and
again, with other names of servers."""


class DeniedStarts:
    """The last one of each server. The next pass stores a change; a crash may lose it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[str, str], DeniedStart] = {}
        """By user and server, the oldest first."""

    def load(self, found: Iterable[DeniedStart]) -> None:
        """Take over what an earlier process has stored."""
        by_age = sorted(found, key=_at)
        self._found = {(each.user, each.server): each for each in by_age}

    def record(self, lease: Lease, refusal: Refusal, at: datetime) -> None:
        """Remember that this start was refused."""
        denied = DeniedStart(
            at, lease.lease_id, lease.user, lease.server, lease.profile_name, refusal
        )
        self._found.pop((lease.user, lease.server), None)
        self._found = {key: each for key, each in self._found.items() if each.at > at - KEPT}
        self._found[lease.user, lease.server] = denied
        if len(self._found) > MAX:
            [(user, _)] = Counter(user for user, _ in self._found).most_common(1)
            del self._found[next(key for key in self._found if key[0] == user)]
        write = partial(self._store.save_denied_starts, tuple(self._found.values()))
        self._store.write_behind.later("refused starts", write)

    def since(self, instant: datetime) -> tuple[DeniedStart, ...]:
        """The last one of each server after that instant, the newest first."""
        found = (each for each in self._found.values() if each.at > instant)
        return tuple(sorted(found, key=_at, reverse=True))


def _at(denied: DeniedStart) -> datetime:
    return denied.at
