"""When a run has ended, and how."""

from __future__ import annotations

import pytest

from ec2spawner.clusters.run_outcome import Outcome, outcome, takes_workers
from ec2spawner.wire import RunStatus

RUNS = RunStatus(run_id="x")
DONE = RunStatus(run_id="x", exit_code=0)
FAILED = RunStatus(run_id="x", exit_code=1)
KILLED = RunStatus(run_id="x", exit_code=-9)
DRAINED = RunStatus(run_id="x", exit_code=1, stopped="drained")
CANCELLED = RunStatus(run_id="x", exit_code=1, stopped="cancelled")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([RUNS, RUNS], None),
        ([DONE, RUNS], None),
        ([FAILED, RUNS], None),
        ([DONE, DONE], Outcome("succeeded", exit_code=0)),
        ([DRAINED, DONE], Outcome("succeeded", exit_code=0)),
        ([KILLED, DONE], Outcome("succeeded", exit_code=0)),
        ([DONE, FAILED], Outcome("failed", 2, 1)),
        ([FAILED, DRAINED], Outcome("failed", 1, 1)),
        ([KILLED, KILLED], Outcome("failed", 1, -9)),
        # All were reclaimed: a replacement continues the run.
        ([DRAINED, DRAINED], None),
        ([], None),
    ],
)
def test_a_run_ends_with_its_last_worker(seen: list[RunStatus], expected: Outcome | None) -> None:
    assert outcome(dict(enumerate(seen, 1)), {1, 2}, is_cancelled=False) == expected


def test_a_worker_that_came_too_late_fails_no_run() -> None:
    seen = {1: DONE, 2: FAILED}
    assert outcome(seen, {1}, is_cancelled=False) == Outcome("succeeded", exit_code=0)


@pytest.mark.parametrize("seen", [{1: CANCELLED}, {1: DONE}, {}])
def test_a_cancelled_run_ends_once_it_runs_nowhere(seen: dict[int, RunStatus]) -> None:
    assert outcome({1: RUNS} | {2: CANCELLED}, {1, 2}, is_cancelled=True) is None
    assert outcome(seen, {1}, is_cancelled=True) == Outcome("cancelled")


def test_new_workers_are_taken_until_torchrun_has_ended_on_one() -> None:
    assert takes_workers({1: RUNS, 2: DRAINED})
    assert takes_workers({})
    assert not takes_workers({1: RUNS, 2: DONE})
    assert not takes_workers({1: RUNS, 2: FAILED})
