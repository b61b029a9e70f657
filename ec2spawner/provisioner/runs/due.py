"""Which queued runs to request a lease for."""

from __future__ import annotations

from collections.abc import Sequence
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
    if len(started) >= rules.at_once:
        return []
    queued = _places(state, [run for run in runs if run.state is RunState.QUEUED], now)
    found = (state.runs.get(x) for x in next_runs(queued, started, rules, now))
    return [run for run in found if run is not None]


def _places(state: State, queued: Sequence[Run], now: datetime) -> list[QueuePlace]:
    """Those of the runs whose terms are not held."""
    holds = state.runs.holds
    if holds.is_empty:
        return [run.place() for run in queued]
    by_terms = _by_terms(queued, now)
    holds.keep(by_terms.keys())
    places: list[QueuePlace] = []
    for terms, runs in by_terms.items():
        if not holds.is_held(terms):
            doubtful = terms if holds.is_doubtful(terms) else None
            places += [run.place(doubtful) for run in runs]
    return places


def _by_terms(runs: Sequence[Run], now: datetime) -> dict[Terms, list[Run]]:
    """The runs of an array share their terms until they have had an instance: then those of
    20,000 runs need not be made one by one."""
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
