"""How much the documents of runs take in the store, in all and of each user."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ...core.fair_share import share
from ...core.text import sizes
from ..model.leases.run import Run

MAX_BYTES: Final = 5 * 2**30
"""What all runs execute and have brought takes so much at most, as it is stored. A hub's disk has
20 GiB."""


class RunBytes:
    """Follows each change of a run: what its submission executes counts once, until the last of its
    runs is over and cleared away, and its result as long as it is stored."""

    def __init__(self) -> None:
        self._of_user: Counter[str] = Counter()
        self._sources: dict[int, tuple[str, int]] = {}
        """User and bytes, by number of the source."""

    def changed(self, before: Run | None, run: Run) -> None:
        """Take over a new run, or a change of one."""
        self._add(run.user, run.result_bytes - (before.result_bytes if before else 0))
        if run.source not in self._sources and run.source_bytes and not run.is_cleared:
            self._sources[run.source] = run.user, run.source_bytes
            self._add(run.user, run.source_bytes)

    def forgotten(self, run: Run) -> None:
        """Its result is deleted."""
        self._add(run.user, -run.result_bytes)

    def source_forgotten(self, number: int) -> None:
        """What the runs of one submission executed is deleted."""
        if found := self._sources.pop(number, None):
            user, size = found
            self._add(user, -size)

    def lacking(self, user: str, size: int) -> int:
        """How many bytes too many the user would have with so many more; 0 or less for none."""
        held = self._of_user[user]
        return held + size - share(MAX_BYTES, self._of_user.total() - held)

    def why_none(self, user: str) -> str:
        """That the user has as much as is possible, in words."""
        held = sizes.in_words(self._of_user[user])
        return (
            f"your runs and their results take {held} in the hub's database, and no more is free "
            "for you: start the servers that results wait for, so that they get into your home"
        )

    def _add(self, user: str, size: int) -> None:
        self._of_user[user] += size
        if not self._of_user[user]:
            del self._of_user[user]
