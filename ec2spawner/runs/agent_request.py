"""Asks the hub about the runs of a server, through the local socket of its instance's agent."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

from pydantic import ValidationError

from ..agent_socket import SOCKET
from ..agent_socket.exchange import exchange
from ..wire import NotebookReply, RunsAnswer, RunsRequest, RunSubmission
from .errors import RunError, RunRefused


class HubSilent(RunError):
    """Neither the hub's answer nor a refusal: whether it was done is not known."""


class HubBusy(HubSilent):
    """The hub is receiving too many requests and did not process this one: ask again after
    `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "The hub is receiving too many requests from this server and did not process this one. "
            f"Try again in {math.ceil(seconds)} s."
        )
        self.seconds = seconds


def ask(request: RunsRequest) -> RunsAnswer:
    """The hub's answer. Raises `RunRefused` with its reason where it refuses, `HubBusy` where it
    wants to be asked later, `HubSilent` where there is no answer, and `RunError`."""
    path = os.environ.get(SOCKET)
    if not path:
        raise RunError(
            "This is not a server of ec2spawner, which passes on what you ask. Open a terminal on "
            "your server, in JupyterLab, or use the hub's API: POST /hub/api/ec2/runs. For `runs`, "
            "you can name the hub: --hub=https://hub.example.org"
        )
    try:
        reply = exchange(path, {"type": "runs", "runs": request.model_dump(mode="json")})
    except OSError as error:
        raise HubSilent(
            "The agent of this machine does not answer, so it is not known whether that was done: "
            "`ec2spawner runs` shows it."
        ) from error
    return answer_in(_parsed(reply))


Asking = Callable[[RunsRequest], RunsAnswer]
"""Asks as `ask` does."""


def ask_patiently(request: RunsRequest, asking: Asking = ask) -> RunsAnswer:
    """Ask again for as long as the hub is busy. Raises otherwise as `ask`."""
    while True:
        try:
            return asking(request)
        except HubBusy as busy:
            time.sleep(busy.seconds)


def submit(submission: RunSubmission) -> RunsAnswer:
    """Submit, and once more where no answer came: the hub knows a submission by its id. Raises as
    `ask_patiently`."""
    request = RunsRequest(action="submit", submission=submission)
    try:
        return ask_patiently(request)
    except HubSilent:
        return ask_patiently(request)


def answer_in(reply: NotebookReply) -> RunsAnswer:
    """What the agent's reply has of the hub. Raises as `ask`."""
    if reply.ok:
        if reply.runs is None:
            raise RunError(_OLD)
        return reply.runs
    detail = reply.sentence.params.get("detail") if reply.sentence else None
    if detail:
        text = str(detail)
        raise RunRefused(f"The hub refused it: {text[:1].lower()}{text[1:]}")
    if reply.retry_after_seconds:
        raise HubBusy(reply.retry_after_seconds)
    raise HubSilent(
        "The hub does not answer now, so it is not known whether that was done: "
        "`ec2spawner runs` shows it once the hub answers. Runs continue meanwhile."
    )


_OLD = (
    "The agent of this machine does not know runs: its image has another version of ec2spawner. An "
    "admin must bake a new image."
)


def _parsed(reply: dict[str, object]) -> NotebookReply:
    try:
        return NotebookReply.model_validate(reply)
    except ValidationError as error:
        raise RunError(_OLD) from error
