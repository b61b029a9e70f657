"""The local socket between notebook and agent, with everything hostile that a user can send."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ec2spawner.agent.notebook_server.local_socket import (
    MAX_CONNECTIONS,
    MAX_LINE_BYTES,
    LocalSocket,
)
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.notebook import agent_link
from ec2spawner.notebook.agent_link import AgentGoneError, AgentLink
from ec2spawner.wire import (
    AgentState,
    Idleness,
    IdlePolicy,
    NotebookReply,
    NotebookRequest,
    Observation,
    Stop,
)

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
STATE = AgentState(at=NOW, idle_policy=IdlePolicy(), idleness=Idleness(), profile="T4")
ME = NotebookUser("me", os.getuid(), os.getgid(), (), Path("/"), "/bin/sh")


class Agent:
    """The agent's side: a socket, and what it heard."""

    def __init__(self, run_dir: Path, user: NotebookUser = ME) -> None:
        self.observations: list[Observation] = []
        self.requests: list[NotebookRequest] = []
        self.is_silent = False
        self.saved = asyncio.Event()
        self.socket = LocalSocket(
            run_dir, user, self.observations.append, self._request, lambda said: self.saved.set()
        )

    async def _request(self, request: NotebookRequest) -> NotebookReply:
        self.requests.append(request)
        if self.is_silent:
            await asyncio.Event().wait()
        return NotebookReply(id=request.id, ok=request.type == "extend", message="said the hub")


async def until(condition: object, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)


async def until_hung_up(reader: asyncio.StreamReader) -> None:
    """Nothing is said, and the connection ends; a reset is an end with something unread."""
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 60) == b""


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    with tempfile.TemporaryDirectory(prefix="sock") as run_dir:
        agent = Agent(Path(run_dir))
        await agent.socket.start()
        yield agent
        await agent.socket.close()


async def test_a_connection_that_failed_once_is_restored(agent: Agent) -> None:
    states: list[AgentState] = []

    def show(state: AgentState) -> None:
        states.append(state)
        if len(states) == 1:
            raise RuntimeError("as the test says")

    link = AgentLink(str(agent.socket.path), show)
    running = asyncio.create_task(link.run())
    await asyncio.wait_for(link.connected.wait(), 60)
    agent.socket.push(STATE)
    await until(lambda: len(states) > 1)
    assert not running.done()
    running.cancel()


async def test_states_observations_and_requests_are_exchanged(agent: Agent) -> None:
    states: list[AgentState] = []
    link = AgentLink(str(agent.socket.path), states.append)
    running = asyncio.create_task(link.run())
    await asyncio.wait_for(link.connected.wait(), 60)
    agent.socket.push(STATE)
    await until(lambda: states)
    assert link.state == STATE
    assert link.send(Observation(at=NOW))
    await until(lambda: agent.observations)
    assert await link.ask("extend", 60) == NotebookReply(id=1, ok=True, message="said the hub")
    assert not (await link.ask("stop")).ok
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_late_listener_gets_the_last_state_at_once(agent: Agent) -> None:
    agent.socket.push(STATE)
    reader, writer = await asyncio.open_unix_connection(str(agent.socket.path))
    line = await asyncio.wait_for(reader.readline(), 60)
    assert AgentState.model_validate_json(line) == STATE
    writer.close()


async def test_the_connection_is_restored_after_the_agent_restarts(agent: Agent) -> None:
    link = AgentLink(str(agent.socket.path), lambda state: None)
    with pytest.raises(AgentGoneError):
        await link.ask("stop")
    running = asyncio.create_task(link.run())
    await asyncio.wait_for(link.connected.wait(), 60)
    await agent.socket.close()
    await until(lambda: not link.connected.is_set())
    await agent.socket.start()
    await asyncio.wait_for(link.connected.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stop_that_has_begun_is_a_success_without_the_agents_reply(agent: Agent) -> None:
    agent.is_silent = True
    link = AgentLink(str(agent.socket.path), lambda state: None)
    running = asyncio.create_task(link.run())
    await asyncio.wait_for(link.connected.wait(), 60)
    stop = asyncio.create_task(link.ask("stop"))
    extension = asyncio.create_task(link.ask("extend", 60))
    await until(lambda: agent.requests)
    agent.socket.push(STATE.model_copy(update={"stop": Stop(reason="user")}))
    assert (await asyncio.wait_for(stop, 60)).ok
    await agent.socket.close()
    with pytest.raises(AgentGoneError):
        await asyncio.wait_for(extension, 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_reply_that_comes_too_late_disturbs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def reply_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reply to the first request after the second one has come."""
        writers.append(writer)
        requests = [NotebookRequest.model_validate_json(await reader.readline()) for _ in range(2)]
        for each in requests:
            reply = NotebookReply(id=each.id, ok=each.type == "extend")
            writer.write(reply.model_dump_json().encode() + b"\n")

    with tempfile.TemporaryDirectory(prefix="sock") as run_dir:
        path = f"{run_dir}/agent.sock"
        async with await asyncio.start_unix_server(reply_late, path=path):
            link = AgentLink(path, lambda state: None)
            running = asyncio.create_task(link.run())
            await asyncio.wait_for(link.connected.wait(), 60)
            with monkeypatch.context() as changed:
                changed.setattr(agent_link, "REPLY_SECONDS", 0.05)
                with pytest.raises(AgentGoneError, match="hub-timeout"):
                    await link.ask("hardware")
            reply = await asyncio.wait_for(link.ask("extend", 60), 60)
            assert (reply.id, reply.ok, link.connected.is_set()) == (2, True, True)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            writers[0].close()


async def test_connection_attempts_to_an_agent_that_hangs_up_back_off() -> None:
    """So it is for a second server that its user has started as somebody else."""
    loop = asyncio.get_running_loop()
    asked: list[float] = []

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(loop.time())
        writer.close()

    with tempfile.TemporaryDirectory(prefix="sock") as run_dir:
        path = f"{run_dir}/agent.sock"
        async with await asyncio.start_unix_server(hang_up, path=path):
            running = asyncio.create_task(AgentLink(path, lambda state: None).run())
            await until(lambda: len(asked) == 4)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert asked[-1] - asked[0] > 0.6


HOSTILE = {
    "no JSON": b"hello\n",
    "no message": b"[]\n",
    "another message": b'{"type": "state"}\n',
    "a wrong field": b'{"type": "observation", "at": "yesterday"}\n',
    "a naive time": b'{"type": "observation", "at": "2026-11-03T14:00:00"}\n',
    "not text": b"\xff\xfe\x00\n",
    "deep nesting": b"[" * 50_000 + b"\n",
    "a line without an end": b"x" * (MAX_LINE_BYTES * 2 + 10),
    "a negative extension": b'{"type": "extend", "id": 1, "seconds": -5}\n',
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_lines_close_only_their_own_connection(agent: Agent, name: str) -> None:
    reader, writer = await asyncio.open_unix_connection(str(agent.socket.path))
    writer.write(HOSTILE[name])
    await until_hung_up(reader)
    assert (agent.observations, agent.requests) == ([], [])
    writer.close()

    _, honest = await asyncio.open_unix_connection(str(agent.socket.path))
    honest.write(Observation(at=NOW).model_dump_json().encode() + b"\n")
    await until(lambda: agent.observations)
    honest.close()


async def test_the_number_of_connections_is_limited(agent: Agent) -> None:
    crowd = [
        await asyncio.open_unix_connection(str(agent.socket.path)) for _ in range(MAX_CONNECTIONS)
    ]
    for _, each in crowd:
        each.write(Observation(at=NOW).model_dump_json().encode() + b"\n")
    await until(lambda: len(agent.observations) == MAX_CONNECTIONS)
    reader, writer = await asyncio.open_unix_connection(str(agent.socket.path))
    await until_hung_up(reader)
    for _, each in [*crowd, (reader, writer)]:
        each.close()


async def test_listening_connections_are_dropped_for_speaking_ones(agent: Agent) -> None:
    """Scripts that never hang up cannot keep the extension out."""
    agent.socket.push(STATE)
    path = str(agent.socket.path)
    idle = [await asyncio.open_unix_connection(path) for _ in range(3 * MAX_CONNECTIONS)]
    for reader, _ in idle:
        line = await asyncio.wait_for(reader.readline(), 60)
        assert AgentState.model_validate_json(line) == STATE, "each still gets its state"
    link = AgentLink(path, lambda state: None)
    running = asyncio.create_task(link.run())
    await asyncio.wait_for(link.connected.wait(), 60)
    assert link.send(Observation(at=NOW))
    await until(lambda: agent.observations)
    more = [await asyncio.open_unix_connection(path) for _ in range(3 * MAX_CONNECTIONS)]
    assert await link.ask("extend", 60) == NotebookReply(id=1, ok=True, message="said the hub")
    assert link.connected.is_set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for _, each in [*idle, *more]:
        each.close()


async def test_a_stalled_reader_does_not_block_others(agent: Agent) -> None:
    _, deaf = await asyncio.open_unix_connection(str(agent.socket.path))
    await until(lambda: agent.socket._writers)
    large = STATE.model_copy(update={"profile": "x" * 500})
    for _ in range(5000):
        agent.socket.push(large)
    (writer,) = agent.socket._writers
    assert writer.transport.get_write_buffer_size() < 64 * 1024
    deaf.close()


async def test_only_the_notebook_user_may_connect() -> None:
    with tempfile.TemporaryDirectory(prefix="sock") as run_dir:
        agent = Agent(Path(run_dir))
        agent.socket._user = replace(ME, uid=os.getuid() + 1)
        try:
            await agent.socket.start()
        except PermissionError:
            agent.socket.path.chmod(0o600)
        reader, writer = await asyncio.open_unix_connection(str(agent.socket.path))
        writer.write(json.dumps({"type": "stop", "id": 1}).encode() + b"\n")
        await until_hung_up(reader)
        assert agent.requests == []
        writer.close()
        await agent.socket.close()


async def test_a_long_run_directory_path_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    agent = Agent(deep)
    await agent.socket.start()
    _, writer = await asyncio.open_unix_connection(str(agent.socket.path))
    writer.close()
    folder = agent.socket.path.parent
    await agent.socket.close()
    assert not folder.exists()
