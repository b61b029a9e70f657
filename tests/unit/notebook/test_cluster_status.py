"""The status of a cluster, asked for once for all open pages."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.notebook.agent_link import AgentGoneError
from ec2spawner.notebook.status import cluster_status
from ec2spawner.notebook.status.cluster_status import ClusterStatusCache
from ec2spawner.wire import NotebookReply


class Agent:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_gone = False

    async def ask(self) -> NotebookReply:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        if self.is_gone:
            raise AgentGoneError("agent-gone")
        return NotebookReply(id=number, ok=True)


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cluster_status, "time", clock)
    return clock


async def test_several_pages_make_one_call_until_it_is_old(clock: Clock) -> None:
    agent = Agent()
    cache = ClusterStatusCache(agent.ask)
    agent.may_answer.clear()
    waiting = [asyncio.ensure_future(cache.latest()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # this page is closed, the others still wait
    await asyncio.sleep(0)
    agent.may_answer.set()
    assert [(await each).id for each in waiting[1:]] == [1, 1]
    clock.now += 1.9
    assert (await cache.latest()).id == 1
    clock.now += 0.2
    assert (await cache.latest()).id == 2


async def test_after_a_change_it_is_asked_anew(clock: Clock) -> None:
    agent = Agent()
    cache = ClusterStatusCache(agent.ask)
    agent.may_answer.clear()
    before = asyncio.ensure_future(cache.latest())
    await asyncio.sleep(0)
    cache.forget()
    after = asyncio.ensure_future(cache.latest())
    await asyncio.sleep(0)
    agent.may_answer.set()
    assert ((await before).id, (await after).id) == (1, 2)
    assert (await cache.latest()).id == 2


async def test_an_agent_that_is_gone_is_not_asked_by_each_page(clock: Clock) -> None:
    agent = Agent()
    agent.is_gone = True
    cache = ClusterStatusCache(agent.ask)
    for _ in range(2):
        with pytest.raises(AgentGoneError):
            await cache.latest()
    assert agent.asked == 1
    agent.is_gone = False
    clock.now += 2.0
    assert (await cache.latest()).ok
