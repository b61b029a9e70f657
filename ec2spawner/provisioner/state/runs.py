"""All runs that have not ended, and those that ended lately; each change also in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from ...core.fair_share import PART, share
from ..model.leases.run import Run, RunState
from ..runtime.clock import Clock
from ..store.store import Store, StoreError
from .run_bytes import RunBytes
from .run_holds import RunHolds

MAX_OPEN: Final = 10_000
"""Runs of all users that have not ended, or of which something is left in EC2: to compare so many
takes up to 50 ms. Of these, as of all that is bounded here, each user has a share."""

MAX_OPEN_OF_USER: Final = MAX_OPEN // PART
"""Open runs of one user, where nobody else has any."""

MAX_KNOWN: Final = 30_000
"""Runs in memory and in the store, with those that have ended: each takes some KB."""

MAX_UNSTORED_BYTES: Final = 32 * 2**20
"""Results in memory that the store has not taken yet have so much; their instances keep further
ones."""


class TooManyRuns(Exception):
    """Why no more runs are queued, in words for their user."""


class Runs:
    """By number. Memory changes at once; the store follows by its write-behind queue."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._found: dict[int, Run] = {}
        self._open: dict[int, None] = {}
        """Numbers of those that have not ended, or of which something is left in EC2."""
        self._of_user: dict[str, dict[int, None]] = {}
        self._of_array: dict[int, dict[int, None]] = {}
        self._unstored: dict[tuple[str, str, str], list[Run]] = {}
        """By user, server and id of the submission: those of which it is not known whether they are
        stored."""
        self._undelivered: dict[tuple[str, str], dict[int, None]] = {}
        """By user and server: those that have ended and whose result is not in the home yet."""
        self._results: dict[int, str] = {}
        """Of runs that have ended, until they are stored."""
        self._adding = asyncio.Lock()
        """One submission at a time: a repeated one finds what the first has made."""
        self._of_request: dict[tuple[str, str, str], int] = {}
        """Number of the first run, by user, server and id of the submission."""
        self._to_report: dict[int, None] = {}
        """Numbers of the runs, and of the first of arrays, of which an alarm reports the end."""
        self._last = 0
        self.bytes = RunBytes()
        self.forgotten: set[int] = set()
        """Numbers of those that are no longer known here, and whose records are to be deleted."""
        self.changed = asyncio.Event()
        """Set and replaced at each change that may let a run start."""
        self.holds = RunHolds(clock)

    def load(self, runs: Iterable[Run], last: int) -> None:
        """Take over what an earlier process has stored."""
        self._last = last
        for run in runs:
            self._put(run)

    # --- reading ---

    def get(self, number: int) -> Run | None:
        """A run that has not ended, or ended lately."""
        return self._found.get(number)

    def of_user(self, user: str) -> list[Run]:
        """The newest first."""
        return [self._found[number] for number in sorted(self._of_user.get(user, ()), reverse=True)]

    def of_array(self, array: int) -> list[Run]:
        """By number; none for 0."""
        return [self._found[number] for number in sorted(self._of_array.get(array, ()))]

    def open(self) -> list[Run]:
        """Those that have not ended, and those of which something is left in EC2, by number."""
        return [self._found[number] for number in sorted(self._open)]

    def undelivered(self, user: str, server: str) -> list[Run]:
        """Whose result belongs into the home of this server, by number."""
        return [self._found[number] for number in sorted(self._undelivered.get((user, server), ()))]

    def count_undelivered(self, user: str, server: str) -> int:
        """How many those are."""
        return len(self._undelivered.get((user, server), ()))

    def of_request(self, user: str, server: str, request_id: str) -> list[Run]:
        """Those that this submission from the user's server has made, by number."""
        first = self._of_request.get((user, server, request_id))
        return [] if first is None else self.of_array(first) or [self._found[first]]

    def ended_to_report(self, since: datetime) -> list[list[Run]]:
        """Of runs that have ended since then and whose end is to be reported: each of its own, and
        each array once all of it has ended, by number."""
        found: list[list[Run]] = []
        for number in sorted(self._to_report):
            run = self._found[number]
            runs = self.of_array(run.array) or [run]
            ends = [each.ended_at for each in runs if each.ended_at is not None]
            if len(ends) < len(runs):
                continue
            if max(ends) >= since:
                found.append(runs)
            else:
                del self._to_report[number]
        return found

    # --- changing ---

    async def add(self, runs: Sequence[Run], source: str) -> list[Run]:
        """Give numbers to new runs, all of one submission, and store them with what they execute.

        Several become an array. A submission that is repeated makes none. Raises `TooManyRuns`, and
        `StoreError`, and then there are none.
        """
        async with self._adding:
            place = runs[0].user, runs[0].server, runs[0].request_id
            if known := self.of_request(*place):
                return known
            self._require_room(runs[0].user, len(runs), len(source))
            # What could not be stored may have been, nevertheless: it keeps its numbers.
            new = [replace(run, source_bytes=len(source)) for run in runs]
            numbered = self._unstored.pop(place, []) or self._numbered(new)
            if runs[0].request_id:
                self._unstored[place] = numbered
            await asyncio.shield(self._store.runs.add(numbered, source, self._clock.now()))
            self._unstored.pop(place, None)
        for run in numbered:
            self._put(run)
        self.announce()
        return numbered

    def _require_room(self, user: str, count: int, size: int) -> None:
        """For so many runs and bytes of one submission. Forgets ended runs of the user instead."""
        of_user = self._of_user.get(user, {})
        open_ones = len(of_user.keys() & self._open.keys())
        most = share(MAX_OPEN, len(self._open) - open_ones)
        if open_ones + count > most:
            raise TooManyRuns(
                f"you have {open_ones} runs that wait or run, and with those of others in the "
                f"queue of this hub at most {most} may: submit fewer, or wait until some have ended"
            )
        if self.bytes.lacking(user, size) > 0:
            raise TooManyRuns(self.bytes.why_none(user))
        excess = len(of_user) + count - share(MAX_KNOWN, len(self._found) - len(of_user))
        if excess > 0 and self._make_room(user, excess) < excess:
            raise TooManyRuns(
                f"you have {len(of_user)} runs that have not ended or whose results wait for their "
                "server: start it, so that they get into your home"
            )

    def _numbered(self, runs: Sequence[Run]) -> list[Run]:
        first = self._last + 1
        self._last += len(runs)
        array = first if len(runs) > 1 else 0
        return [replace(run, number=number, array=array) for number, run in enumerate(runs, first)]

    async def change(self, number: int, *, result: str | None = None, **changes: Any) -> Run:
        """Replace fields of a run and store it, with a `result` that ends it.

        Raises `StoreError`: the change holds nevertheless, and the next pass stores it.
        """
        await asyncio.shield(self.begin_changing(number, result=result, **changes))
        return self._found[number]

    def begin_changing(
        self, number: int, *, result: str | None = None, **changes: Any
    ) -> asyncio.Task[None]:
        """The same: it holds at once, and the task stores it before what begins to be stored
        later."""
        run = replace(self._found[number], **changes)
        self._put(run)
        self.announce()
        if result is not None:
            self._results[number] = result
        return self._store.write_behind.begin(f"run/{number}", partial(self._write, run))

    async def _write(self, run: Run) -> None:
        """With the result that is not stored yet: a later change of the run replaces this write."""
        result = self._results.get(run.number)
        await self._store.runs.save(run, result, self._clock.now())
        if self._results.get(run.number) is result:
            self._results.pop(run.number, None)

    async def move(self, user: str, server: str, new: str) -> None:
        """Let the runs of a server be those of another name. Raises `StoreError`: it holds
        nevertheless, and each pass retries."""
        moved = [run.number for run in self.of_user(user) if run.server == server]
        tasks = [self.begin_changing(number, server=new) for number in moved]
        await asyncio.gather(*map(asyncio.shield, tasks))

    def remember(self, number: int, **changes: Any) -> None:
        """Replace fields of a run; the next pass stores it. For what a crash may lose."""
        run = replace(self._found[number], **changes)
        self._put(run)
        self._store.write_behind.later(f"run/{number}", partial(self._write, run))

    def is_stored(self, number: int) -> bool:
        """Whether the store has the run as it is now."""
        return not self._store.write_behind.is_pending(f"run/{number}")

    async def be_stored(self, number: int) -> None:
        """Return once the store has the run as it is now. Raises `StoreError`."""
        await self._store.write_behind.flush(f"run/{number}")

    def require_stored_results(self) -> None:
        """Raises `StoreError` while so many results wait to be stored that no more may."""
        if sum(map(len, self._results.values())) > MAX_UNSTORED_BYTES:
            raise StoreError("results of runs that have ended are not stored yet")

    def announce(self) -> None:
        """Wake those who wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def _put(self, run: Run) -> None:
        before = self._found.get(run.number)
        self.bytes.changed(before, run)
        if before is not None and before.server != run.server:
            self._unlist(before)
        self._found[run.number] = run
        self._of_user.setdefault(run.user, {})[run.number] = None
        if run.array:
            self._of_array.setdefault(run.array, {})[run.number] = None
        if run.state is RunState.ENDED and run.is_cleared:
            self._open.pop(run.number, None)
        else:
            self._open[run.number] = None
        if run.request_id and run.array in {0, run.number}:
            self._of_request[run.user, run.server, run.request_id] = run.number
        if run.notify and run.array in {0, run.number}:
            self._to_report[run.number] = None
        place = run.user, run.server
        if run.state is RunState.ENDED and run.has_result and not run.delivered:
            self._undelivered.setdefault(place, {})[run.number] = None
        elif run.number in (waiting := self._undelivered.get(place, {})):
            del waiting[run.number]
            if not waiting:
                del self._undelivered[place]

    def clock_was_set(self, by: timedelta) -> None:
        """Pauses move with the clock."""
        for number in list(self._open):
            run = self._found[number]
            if run.not_before is not None:
                self.remember(number, not_before=run.not_before + by)

    def forget_ended(self, kept: int, expired: datetime) -> None:
        """Forget what each user has beyond so many that have ended, the oldest first, and what
        ended before `expired`.

        An array stays as a whole while any of it is open: its first run has the id of the
        submission, and says whether its end is to be reported.
        """
        open_arrays = self._open_arrays()
        for numbers in list(self._of_user.values()):
            found = [self._found[x] for x in sorted(numbers) if x not in self._open]
            ended = [run for run in found if run.array not in open_arrays]
            excess = {run.number for run in ended[: max(len(ended) - kept, 0)]}
            for run in ended:
                is_old = run.ended_at is not None and run.ended_at < expired
                if is_old or (run.number in excess and _is_over(run)):
                    self._forget(run)

    def _make_room(self, user: str, count: int) -> int:
        """Forget up to so many ended runs of the user, the oldest first, last those of arrays that
        have not ended as a whole; how many."""
        open_arrays = self._open_arrays()
        found = (self._found[number] for number in self._of_user.get(user, ()))
        over = [x for x in found if _is_over(x) and x.number not in self._open]
        over.sort(key=lambda run: (run.array in open_arrays, run.number))
        for run in over[:count]:
            self._forget(run)
        return min(len(over), count)

    def _open_arrays(self) -> set[int]:
        return {self._found[number].array for number in self._open} - {0}

    def _forget(self, run: Run) -> None:
        self.forgotten.add(run.number)
        self.bytes.forgotten(run)
        self._unlist(run)

    def _unlist(self, run: Run) -> None:
        del self._found[run.number]
        self._to_report.pop(run.number, None)
        place = run.user, run.server, run.request_id
        if self._of_request.get(place) == run.number:
            del self._of_request[place]
        of_groups: tuple[tuple[dict[Any, Any], object], ...] = (
            (self._of_user, run.user),
            (self._of_array, run.array),
            (self._undelivered, (run.user, run.server)),
        )
        for groups, key in of_groups:
            if (members := groups.get(key)) is not None:
                members.pop(run.number, None)
                if not members:
                    del groups[key]


def _is_over(run: Run) -> bool:
    """Whether nothing is left to do for it: if it has a result, that is in the home."""
    return run.state is RunState.ENDED and (run.delivered or not run.has_result)
