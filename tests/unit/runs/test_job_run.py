"""A job has one run, whatever answers of the hub are lost."""

from __future__ import annotations

import json
import time

import pytest

from ec2spawner.core.runs.documents import pack
from ec2spawner.runs.agent_request import HubSilent
from ec2spawner.runs.errors import RunError, RunRefused, WrongRequest
from ec2spawner.runs.schedules import job_run
from ec2spawner.runs.schedules.job_run import JobStopped
from ec2spawner.wire import RunsAnswer, RunsRequest, RunSubmission, RunSummary
from ec2spawner.wire.runs import MAX_SHOWN_RUNS

from .agent_socket import summary
from .job_hub import NOTEBOOK, JobHub, silent_once

PATH = ".jobs/1/train.ipynb"


@pytest.fixture
def hub() -> JobHub:
    return JobHub()


ID = "job-1"

SUBMISSION = RunSubmission(request_id=ID, path=PATH, document=pack([b"{}"]), profile="t4")


def submission() -> RunSubmission:
    return SUBMISSION


def no_pause(seconds: float) -> None:
    assert seconds > 0


def begin(hub: JobHub) -> RunSummary:
    return job_run.begin(ID, submission, pause=no_pause, asking=hub)


def test_a_job_is_submitted_once(hub: JobHub) -> None:
    assert begin(hub).number == 12
    assert hub.actions() == ["list", "submit"]


@pytest.mark.parametrize("times", [1, 3])
def test_a_submission_whose_answer_was_lost_makes_one_run(hub: JobHub, times: int) -> None:
    hub.fails = silent_once("submit", times)
    hub.runs[11] = summary(11, path="other.ipynb")
    assert begin(hub).number == 12
    assert set(hub.runs) == {11, 12}


def test_a_submission_that_never_arrived_is_repeated(hub: JobHub) -> None:
    lost = [HubSilent("no answer")] * 2

    def asking(request: RunsRequest) -> RunsAnswer:
        if lost:
            raise lost.pop()
        return hub(request)

    assert job_run.begin(ID, submission, pause=no_pause, asking=asking).number == 12
    assert hub.actions() == ["list", "submit"]


def test_a_job_that_was_begun_before_has_its_run_still(hub: JobHub) -> None:
    hub.outcome = None
    begin(hub)

    def impossible() -> RunSubmission:
        raise WrongRequest("its deadline is over")

    assert job_run.begin(ID, impossible, pause=no_pause, asking=hub).number == 12
    assert set(hub.runs) == {12}


def test_a_refusal_ends_the_job(hub: JobHub) -> None:
    def refused(request: RunsRequest) -> RunsAnswer:
        raise RunRefused("no such profile")

    with pytest.raises(RunRefused):
        job_run.begin(ID, submission, pause=no_pause, asking=refused)


def test_a_hub_that_stays_silent_ends_the_job(hub: JobHub, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    hub.fails = silent_once("list", 10_000)
    with pytest.raises(HubSilent):
        job_run.begin(ID, submission, pause=pause, asking=hub)
    assert job_run.MAX_SILENCE <= now <= job_run.MAX_SILENCE + job_run.RETRY_SECONDS


def test_a_run_is_followed_to_its_end_with_longer_pauses_and_a_silent_hub(hub: JobHub) -> None:
    hub.outcome = None
    begin(hub)
    hub.fails = silent_once("list", 3)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 20:
            hub.end(12, "failed")

    run = job_run.wait(12, pause=pause, asking=hub)
    assert run.outcome == "failed"
    assert pauses[:3] == [job_run.RETRY_SECONDS] * 3
    assert pauses[3] == job_run.FIRST_PAUSE < pauses[4]
    assert max(pauses) == job_run.MAX_PAUSE


def test_a_run_is_followed_and_cancelled_however_many_are_newer(hub: JobHub) -> None:
    hub.outcome = None
    begin(hub)
    hub.runs |= {number: summary(number) for number in range(13, 14 + MAX_SHOWN_RUNS)}

    def pause(seconds: float) -> None:
        job_run.cancel(ID, may_arrive=False, sleep=no_pause, asking=hub)

    assert job_run.wait(12, pause=pause, asking=hub).outcome == "cancelled"


def test_a_run_that_the_hub_does_not_know_any_more_ends_the_job(hub: JobHub) -> None:
    with pytest.raises(RunError, match="12"):
        job_run.wait(12, pause=no_pause, asking=hub)


def test_a_stop_is_not_taken_for_a_silent_hub(hub: JobHub) -> None:
    def stopped(seconds: float) -> None:
        raise JobStopped("stopped")

    hub.fails = silent_once("list")
    with pytest.raises(JobStopped):
        job_run.begin(ID, submission, pause=stopped, asking=hub)


@pytest.mark.parametrize("lost", ["cancel", ""])
def test_only_the_run_of_the_job_is_cancelled(hub: JobHub, lost: str) -> None:
    hub.outcome = None
    begin(hub)
    hub.runs[13] = summary(13)
    hub.fails = silent_once(lost)
    job_run.cancel(ID, may_arrive=True, sleep=no_pause, asking=hub)
    assert hub.runs[12].outcome == "cancelled"
    assert hub.runs[13].outcome is None


def test_a_run_that_is_made_after_the_job_was_stopped_is_cancelled(hub: JobHub) -> None:
    """Of a submission that was under way in the hub when its answer was given up."""
    hub.outcome = None

    def sleep(seconds: float) -> None:
        assert seconds >= job_run.RETRY_SECONDS
        begin(hub)

    job_run.cancel(ID, may_arrive=True, sleep=sleep, asking=hub)
    assert hub.runs[12].outcome == "cancelled"


def test_a_job_that_sent_nothing_is_stopped_at_once(hub: JobHub) -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError

    job_run.cancel(ID, may_arrive=False, sleep=sleep, asking=hub)
    assert hub.actions() == ["cancel"]


def test_the_result_is_fetched_until_it_arrives(hub: JobHub) -> None:
    begin(hub)
    hub.fails = silent_once("result", 2)
    assert json.loads(job_run.executed(12, pause=no_pause, asking=hub)) == NOTEBOOK

    def damaged(request: RunsRequest) -> RunsAnswer:
        return RunsAnswer(result="AAAA")

    with pytest.raises(RunError, match="12"):
        job_run.executed(12, pause=no_pause, asking=damaged)
