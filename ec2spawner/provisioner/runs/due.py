"""Which queued runs to request a lease for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from ...core.runs.queue import QueuePlace, next_runs
from ...core.runs.terms import Terms
from ..model.leases.run import Run, RunState
from ..state.state import State


def due_runs(state: State) -> list[Run]:
    """The first at the front. Forgets what held runs that are not queued any more."""
    rules, now, runs = state.settings.runs, state.clock.now(), state.runs.open()
    # Also those that have ended and whose instance has not yet.
    started = [run.place() for run in runs if run.lease_id]
    free = rules.at_once - len(started)
    if free <= 0:
        return []
    queued = [run for run in runs if run.state is RunState.QUEUED]
    places = _places(state, queued, Counter(each.array for each in started), free, now)
    found = (state.runs.get(x) for x in next_runs(places, started, rules, now))
    return [run for run in found if run is not None]


def _places(
    state: State, queued: Sequence[Run], of_array: Mapping[int, int], free: int, now: datetime
) -> list[QueuePlace]:
    """Those of the runs whose terms are not held; of terms that were, one run that tries again."""
    holds = state.runs.holds
    if holds.is_empty:
        return [run.place() for run in queued]
    by_terms = _by_terms(queued, now)
    holds.keep(by_terms.keys())
    doubtful: list[Terms] = []
    places: list[QueuePlace] = []
    for terms, runs in by_terms.items():
        if holds.is_doubtful(terms):
            doubtful.append(terms)
        elif not holds.is_held(terms):
            places += [run.place() for run in runs]
    for terms in holds.to_retry(doubtful, free, has_others=bool(places)):
        can_start = (run for run in by_terms[terms] if _can_start(run, of_array, now))
        places += [run.place() for run in can_start][:1]
    return places


def _can_start(run: Run, of_array: Mapping[int, int], now: datetime) -> bool:
    """As far as only the run and its array decide."""
    if run.not_before is not None and run.not_before > now:
        return False
    most = run.array_at_once
    return not run.array or most is None or of_array[run.array] < most


def _by_terms(runs: Sequence[Run], now: datetime) -> dict[Terms, list[Run]]:
    """The runs of an array share their terms until they have had an instance: then those of
    thousands of runs need not be made one by one."""
    found: dict[Terms, list[Run]] = {}
    of_arrays: dict[int, list[Run]] = {}
    for run in runs:
        group = None if run.attempts else of_arrays.get(run.array)
        if group is None:
            group = found.setdefault(run.terms(now), [])
            if run.array and not run.attempts:
                of_arrays[run.array] = group
        group.append(run)
    return found
