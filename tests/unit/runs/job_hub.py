"""A hub that has the runs of jobs, for tests of what submits and follows them."""

from __future__ import annotations

import json
from collections.abc import Callable

from ec2spawner.core.runs.documents import pack, unpack
from ec2spawner.runs.agent_request import HubSilent
from ec2spawner.wire import RunsAnswer, RunsRequest, RunSubmission, RunSummary
from ec2spawner.wire.runs import MAX_SHOWN_RUNS

from .agent_socket import Refusal, summary

NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "one",
            "metadata": {},
            "source": "print(6 * 7)",
            "execution_count": 1,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "42\n"}],
        }
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


class JobHub:
    """Numbers what is submitted from 12 on. A run is `running`, or has the `outcome` at once."""

    def __init__(self) -> None:
        self.asked: list[RunsRequest] = []
        self.runs: dict[int, RunSummary] = {}
        self._of_request: dict[str, int] = {}
        self.outcome: str | None = "succeeded"
        self.message = ""
        self.fails: Callable[[RunsRequest], None] = lambda request: None
        """Called after a request was done: what it raises is instead of the answer."""

    def __call__(self, request: RunsRequest) -> RunsAnswer:
        self.asked.append(request)
        answer = self._answer(request)
        self.fails(request)
        return answer

    def actions(self) -> list[str]:
        return [request.action for request in self.asked]

    def is_asked_about_a_run(self) -> bool:
        """Whether a job follows what it has submitted."""
        return any(request.action == "list" and request.number for request in self.asked)

    def end(self, number: int, outcome: str) -> None:
        changes = {"state": "ended", "outcome": outcome, "message": self.message, "attempts": 1}
        self.runs[number] = self.runs[number].model_copy(
            update=changes | {"has_result": outcome != "cancelled", "usd": 0.25}
        )

    def submitted(self) -> RunSubmission:
        """The last one."""
        return [each.submission for each in self.asked if each.submission][-1]

    def submitted_cells(self) -> list[dict[str, object]]:
        """Of the notebook that was submitted last."""
        cells: list[dict[str, object]] = json.loads(unpack(self.submitted().document))["cells"]
        return cells

    def _answer(self, request: RunsRequest) -> RunsAnswer:
        newest_first = sorted(self.runs.values(), key=lambda run: -run.number)
        if request.action == "submit":
            assert request.submission is not None
            number = self._of_request.get(request.submission.request_id)
            return RunsAnswer(runs=[self.runs[number or self._new(request.submission)]])
        number = request.number
        if request.request_id and (number := self._of_request.get(request.request_id)) is None:
            return RunsAnswer()
        if number is None:
            assert request.action == "list"
            return RunsAnswer(runs=newest_first[:MAX_SHOWN_RUNS])
        if number not in self.runs:
            raise Refusal(f"you have no run {number}")
        if request.action == "cancel" and self.runs[number].state != "ended":
            self.end(number, "cancelled")
        if request.action in {"list", "cancel"}:
            return RunsAnswer(runs=[self.runs[number]])
        assert request.action == "result"
        return RunsAnswer(result=pack([json.dumps(NOTEBOOK).encode()]))

    def _new(self, submission: RunSubmission) -> int:
        number = max(self.runs, default=11) + 1
        self.runs[number] = summary(number, path=submission.path)
        if submission.request_id:
            self._of_request[submission.request_id] = number
        if self.outcome is not None:
            self.end(number, self.outcome)
        return number


def silent_once(action: str, times: int = 1) -> Callable[[RunsRequest], None]:
    """The answers to this are lost so often."""
    left = [HubSilent("no answer")] * times

    def fails(request: RunsRequest) -> None:
        if request.action == action and left:
            raise left.pop()

    return fails
