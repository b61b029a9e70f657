"""The line to the instance agent: observations and requests out, states and replies in."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ..wire import (
    AgentState,
    ClusterRequest,
    DocumentsSaved,
    NotebookReply,
    NotebookRequest,
    Observation,
    RunsRequest,
    SessionSaved,
    SleepProgress,
    sentence,
)
from ..wire.runs import MAX_RUN_BODY_BYTES

log = logging.getLogger(__name__)

REPLY_SECONDS = 14.0
"""The agent asks the hub; the browser waits 15 s for us."""

FIRST_RECONNECT_SECONDS = 0.1
RECONNECT_SECONDS = 10.0
"""The shortest and the longest wait before the next try to reach the agent."""

MAX_LINE_BYTES = MAX_RUN_BODY_BYTES + 4096
"""The result of a run is the largest message by far."""

SAID = TypeAdapter(AgentState | NotebookReply)


class AgentGoneError(Exception):
    """The agent cannot be asked now, or did not reply in time."""

    def __init__(self, code: Literal["agent-silent", "agent-gone", "hub-timeout"]) -> None:
        super().__init__(code)
        self.sentence = sentence(code)


class AgentLink:
    """A connection to the agent that comes back. Run `run` as a task."""

    def __init__(self, path: str, on_state: Callable[[AgentState], None]) -> None:
        self._path = path
        self._on_state = on_state
        self._writer: asyncio.StreamWriter | None = None
        self._replies: dict[int, asyncio.Future[NotebookReply]] = {}
        self._stops: set[int] = set()
        """Ids of the requests under way that ask for the stop."""
        self._ids = itertools.count(1)
        self.connected = asyncio.Event()
        self.state: AgentState | None = None
        """The last state; kept while the line is down."""

    async def run(self) -> None:
        """Connect, listen, and connect again, until cancelled."""
        wait = FIRST_RECONNECT_SECONDS
        while True:
            before = self.state
            try:
                reader, self._writer = await asyncio.open_unix_connection(
                    self._path, limit=MAX_LINE_BYTES
                )
                self.connected.set()
                await self._listen(reader)
            except Exception as error:
                # Whatever it was, it ended one connection: the next one may do better.
                broke = self.connected.is_set()
                level = logging.WARNING if broke else logging.DEBUG
                log.log(level, "no line to the agent at %s: %r", self._path, error)
            finally:
                await self._hang_up()
            if self.state is not before:
                # Who only hangs up, as on a process of another user, is asked ever less often.
                wait = FIRST_RECONNECT_SECONDS
            await asyncio.sleep(wait)
            wait = min(wait * 2, RECONNECT_SECONDS)

    def send(self, message: Observation | DocumentsSaved | SleepProgress | SessionSaved) -> bool:
        """Send a message; False while the agent is not connected or has not read the last one."""
        if self._writer is None or self._writer.transport.get_write_buffer_size() > 0:
            return False
        self._writer.write(message.model_dump_json().encode() + b"\n")
        return True

    async def ask(
        self,
        kind: Literal["extend", "stop", "sleep", "idle", "hardware", "continue", "cluster", "runs"],
        seconds: float | None = None,
        profile: str | None = None,
        cluster: ClusterRequest | None = None,
        runs: RunsRequest | None = None,
    ) -> NotebookReply:
        """Put a request of the user to the agent. Raises `AgentGoneError`."""
        if self._writer is None:
            raise AgentGoneError("agent-silent")
        request = NotebookRequest(
            type=kind,
            id=next(self._ids),
            seconds=seconds,
            profile=profile,
            cluster=cluster,
            runs=runs,
        )
        reply: asyncio.Future[NotebookReply] = asyncio.get_running_loop().create_future()
        self._replies[request.id] = reply
        if kind == "stop":
            self._stops.add(request.id)
        try:
            self._writer.write(request.model_dump_json().encode() + b"\n")
            async with asyncio.timeout(REPLY_SECONDS):
                return await reply
        except TimeoutError:
            raise AgentGoneError("hub-timeout") from None
        finally:
            self._replies.pop(request.id, None)
            self._stops.discard(request.id)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            try:
                said = SAID.validate_json(line)
            except ValidationError as error:
                log.warning("the agent said what is no message: %d errors", error.error_count())
                continue
            if isinstance(said, AgentState):
                self.state = said
                if said.stop is not None:
                    self._accept_stops()
                self._on_state(said)
            elif (reply := self._replies.get(said.id)) and not reply.done():
                reply.set_result(said)

    def _accept_stops(self) -> None:
        """The stop has begun, and may end the agent before it has replied to the request for it."""
        for request_id in self._stops:
            reply = self._replies[request_id]
            if not reply.done():
                reply.set_result(NotebookReply(id=request_id, ok=True))

    async def _hang_up(self) -> None:
        self.connected.clear()
        writer, self._writer = self._writer, None
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(AgentGoneError("agent-gone"))
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
