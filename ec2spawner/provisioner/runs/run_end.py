"""Ends a run, with its one outcome, once; and gives up its home."""

from __future__ import annotations

from typing import Final

from ...wire import Stop
from ...wire.runs import RunOutcome
from ..model.leases.lease import LIVE
from ..model.leases.run import Run, RunState
from ..state.state import State

MAX_MESSAGE: Final = 500


def lease_stop(outcome: RunOutcome) -> Stop:
    """With which words the lease of its present attempt ends."""
    reason: Final = "user" if outcome == "cancelled" else "hub"
    return Stop(reason=reason, message="Its run has ended")


async def end_run(
    state: State, number: int, outcome: RunOutcome, message: str, result: str | None = None
) -> None:
    """Let a run have ended, with a result if it brings one, and its lease end; of one that has
    ended nothing changes.

    Returns once that is stored. Raises `StoreError`: it holds nevertheless, each pass retries, and
    the lease ends once it is stored.
    """
    run = state.runs.get(number)
    if run is None:
        return
    if run.state is RunState.ENDED:
        await state.runs.be_stored(number)
        return
    changes = {"has_result": True, "result_bytes": len(result)} if result else {}
    # Before its instance ends: a hub that is killed now would have the run begin again.
    await state.runs.change(
        number,
        result=result or None,
        state=RunState.ENDED,
        outcome=outcome,
        message=message[:MAX_MESSAGE],
        ended_at=state.clock.now(),
        not_before=None,
        **changes,
    )
    lease = state.leases.get(run.lease_id)
    if lease is not None and lease.state in LIVE:
        by_user = outcome == "deadline"  # which its user has chosen
        await state.end(run.lease_id, lease_stop(outcome), by_user=by_user)
    owners = state.leases.of_server(run.user, run.server)
    if owners is not None:
        state.leases.notify_agent(owners.lease_id)  # its notebook fetches the result
    state.wake()


async def leave_home(state: State, run: Run) -> None:
    """Delete what a run has written: its result is in the store. Raises `StoreError`."""
    home = state.homes.of(run.user, run.home)
    if home is not None:
        await state.homes.leave(home)
