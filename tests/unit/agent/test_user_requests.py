"""What a user asks for in the notebook is the hub's to decide, and is shown as it was decided."""

from __future__ import annotations

import os
from typing import Any, Literal

import pytest

from ec2spawner.agent.hub.client import HubRefusedError
from ec2spawner.agent.lease_status import LeaseStatus
from ec2spawner.agent.user_requests import UserRequests
from ec2spawner.telemetry import Processes, Sampler, find_gpus
from ec2spawner.wire import AgentState, IdlePolicy, IdleResponse, NotebookRequest, sentence
from tests.unit.agent.lease_grant import lease_grant

POLICY = IdlePolicy(user_server_min_seconds=600, user_server_max_seconds=7200)


class Hub:
    """Allows idle times from ten minutes to two hours."""

    def __init__(self) -> None:
        self.asked_for: list[str] = []
        self.refusal = ""

    async def stop(self, *, sleep: bool = False) -> None:
        if self.refusal:
            raise HubRefusedError(409, self.refusal)
        self.asked_for.append("sleep" if sleep else "stop")

    async def choose_idle(self, seconds: float) -> IdleResponse:
        chosen = min(max(seconds, 600), 7200)
        idle = POLICY.model_copy(update={"server_seconds": chosen})
        return IdleResponse(idle=idle, bounded=chosen != seconds)


class Agent:
    """The agent of one lease, and the states that it has shown to the notebook."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.shown: list[AgentState] = []
        sampler = Sampler(find_gpus(), Processes(os.getpid()))
        status = LeaseStatus(lease_grant(POLICY), "g4dn.xlarge", sampler)
        hub: Any = self.hub
        self.requests = UserRequests(hub, status, lambda: self.shown.append(status.state()))


@pytest.mark.parametrize("kind", ["stop", "sleep"])
async def test_a_stop_saves_the_session_only_if_that_is_asked_for(
    kind: Literal["stop", "sleep"],
) -> None:
    agent = Agent()
    reply = await agent.requests.answer(NotebookRequest(type=kind, id=7))
    assert (reply.id, reply.ok, reply.sentence) == (7, True, None)
    assert agent.hub.asked_for == [kind]
    agent.hub.refusal = "at a time"
    reply = await agent.requests.answer(NotebookRequest(type=kind, id=8))
    assert (reply.id, reply.ok) == (8, False)
    assert reply.sentence == sentence("refused", detail="at a time")


@pytest.mark.parametrize(
    ("asked", "granted"), [(1800, 1800), (60, 600), (86400, 7200), (None, 3600)]
)
async def test_an_idle_time_is_shown_as_it_was_granted(asked: float | None, granted: float) -> None:
    agent = Agent()
    reply = await agent.requests.answer(NotebookRequest(type="idle", id=7, seconds=asked))
    assert [each.idle_policy.server_seconds for each in agent.shown] == [granted]
    bounded = sentence("idle-time-bounded", min_seconds=600, max_seconds=7200, seconds=granted)
    assert reply.ok
    assert reply.sentence == (bounded if asked and asked != granted else None)
