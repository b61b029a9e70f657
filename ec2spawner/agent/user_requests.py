"""Passes what a user requests in the notebook on to the hub, which decides."""

from __future__ import annotations

from collections.abc import Callable

from ..core.idle.policy import bounds
from ..wire import (
    ClusterRequest,
    ExtendResponse,
    Limit,
    NotebookReply,
    NotebookRequest,
    RunsRequest,
    Sentence,
    sentence,
)
from .hub.client import HubClient, HubError
from .lease_status import LeaseStatus

DEFAULT_SECONDS = 3600.0
"""Of a request without a duration."""


class UserRequests:
    """What the owner of one server asks for: its end, its times, its hardware.

    What the hub grants is applied to `status`, and `push` shows it to the user.
    """

    def __init__(self, hub: HubClient, status: LeaseStatus, push: Callable[[], None]) -> None:
        self._hub = hub
        self._status = status
        self._push = push

    async def answer(self, request: NotebookRequest) -> NotebookReply:
        """The hub's decision, or that it does not answer. Raises nothing of the hub's."""
        seconds = request.seconds or DEFAULT_SECONDS
        try:
            if request.type == "hardware":
                found = await self._hub.hardware()
                return NotebookReply(id=request.id, ok=True, hardware=found)
            if request.type == "continue":
                move = await self._hub.continue_on(request.profile)
                return NotebookReply(id=request.id, ok=True, move=move)
            if request.type == "cluster":
                found_cluster = await self._hub.cluster(request.cluster or ClusterRequest())
                return NotebookReply(id=request.id, ok=True, cluster=found_cluster)
            if request.type == "runs":
                found_runs = await self._hub.runs(request.runs or RunsRequest())
                return NotebookReply(id=request.id, ok=True, runs=found_runs)
            if request.type == "run" and request.run is not None:
                work = await self._hub.report_run(request.run)
                return NotebookReply(id=request.id, ok=True, work=work)
            if request.type in {"stop", "sleep"}:
                await self._hub.stop(sleep=request.type == "sleep")
                granted = None
            elif request.type == "idle":
                granted = await self._choose_idle(seconds)
            else:
                granted = await self._extend(seconds)
        except HubError as error:
            detail = getattr(error, "message", "")
            why = sentence("refused", detail=detail) if detail else sentence("hub-silent")
            wait = error.retry_after
            return NotebookReply(id=request.id, ok=False, sentence=why, retry_after_seconds=wait)
        return NotebookReply(id=request.id, ok=True, sentence=granted)

    async def _extend(self, seconds: float) -> Sentence | None:
        """None if the hub granted exactly what was requested."""
        answer = await self._hub.extend(seconds)
        if answer.extended_until != self._status.extended_until:
            self._status.extended_by = ""
        self._status.extended_until = answer.extended_until
        self._status.assess()
        self._push()
        return extension_sentence(answer, self._status.stopping_limit())

    async def _choose_idle(self, seconds: float) -> Sentence | None:
        """None if the hub granted exactly what was requested."""
        answer = await self._hub.choose_idle(seconds)
        self._status.follow(answer.idle)
        self._push()
        if not answer.bounded:
            return None
        shortest, longest = bounds(answer.idle)
        return sentence(
            "idle-time-bounded",
            min_seconds=shortest,
            max_seconds=longest,
            seconds=answer.idle.server_seconds,
        )


def extension_sentence(answer: ExtendResponse, limit: Limit | None) -> Sentence | None:
    """What comes of an extension, if not exactly what was requested. `limit` is the one whose
    announced stop comes first: no extension moves that."""
    if limit is not None and limit.stop_at is not None and limit.stop_at < answer.extended_until:
        whose = {"scope": limit.scope, "name": limit.name}
        return sentence("limit-not-extended", **whose, at=limit.stop_at.timestamp())
    return sentence("extension-bounded") if answer.bounded else None
