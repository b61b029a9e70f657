"""Room in the store for the result of a run."""

from __future__ import annotations

from ...wire import RunReport
from ..model.leases.run import Run
from ..state.state import State
from ..store.store import Store


async def has_room(state: State, store: Store, run: Run, report: RunReport) -> bool:
    """Whether the result of this report can be stored in the place of what the run has brought.

    Deletes results of its user that are in their home, the oldest first, where that makes room.
    Raises `StoreError`, also while too many results of ended runs wait to be stored.
    """
    if report.action == "end":
        state.runs.require_stored_results()
    size = len(report.result)
    lacking = state.runs.bytes.lacking(run.user, size - run.result_bytes)
    if lacking <= 0:
        return True
    given_up: list[int] = []
    for other in reversed(state.runs.of_user(run.user)):
        if lacking > 0 and other.delivered and other.result_bytes:
            given_up.append(other.number)
            lacking -= other.result_bytes
    if lacking > 0:
        return False
    await store.runs.forget_results(given_up)
    for number in given_up:
        if state.runs.get(number) is not None:
            state.runs.remember(number, has_result=False, result_bytes=0)
    return True
