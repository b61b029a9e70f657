"""The Unix socket between notebook extension and agent: JSON lines.

Only processes of the notebook user may connect. Their messages are untrusted, but affect only the
idleness of their own server, within the hub's bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ...core.text.strict_json import WrongBody, parsed
from ...wire import (
    AgentState,
    DocumentsSaved,
    NotebookReply,
    NotebookRequest,
    Observation,
    SessionSaved,
    SleepProgress,
)
from ...wire.runs import MAX_RUN_BODY_BYTES
from ..settings import NotebookUser

log = logging.getLogger(__name__)

MAX_PATH_BYTES = 100
"""The kernel's limit is 107; for a longer run directory the socket is in a temporary one."""

MAX_CONNECTIONS = 8
"""The extension uses one, and a few more while it reconnects. Readers disconnect once they have a
state; if they do not, the oldest is disconnected."""

MAX_LINE_BYTES = MAX_RUN_BODY_BYTES + 4096
"""The document of a run is the largest message by far."""

WRITE_SECONDS = 5.0
"""A connection that does not read a reply within this is closed."""

PEER = struct.Struct("3i")

MESSAGE = TypeAdapter(Observation | NotebookRequest | DocumentsSaved | SleepProgress | SessionSaved)


class LocalSocket:
    """The listening socket. `start`, then `push` whenever the state changed, then `close`."""

    def __init__(
        self,
        run_dir: Path,
        user: NotebookUser,
        on_observation: Callable[[Observation], None],
        on_request: Callable[[NotebookRequest], Awaitable[NotebookReply]],
        on_saved: Callable[[DocumentsSaved], None],
        on_sleep: Callable[[SleepProgress | SessionSaved], None] = lambda said: None,
    ) -> None:
        self._user = user
        self._on_observation = on_observation
        self._on_request = on_request
        self._on_saved = on_saved
        self._on_sleep = on_sleep
        self._temporary: Path | None = None
        path = run_dir / "agent.sock"
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            self._temporary = Path(tempfile.mkdtemp(prefix="ec2spawner-"))
            self._temporary.chmod(0o711)
            path = self._temporary / "agent.sock"
        self.path = path
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, bool] = {}
        """Connections, oldest first, and whether each has sent a message."""
        self._last: bytes = b""

    async def start(self) -> None:
        """Listen with mode 0600 for the notebook user; replaces an earlier process's socket."""
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(
            self._serve, path=str(self.path), limit=MAX_LINE_BYTES
        )
        if not self._user.is_agent:
            os.chown(self.path, self._user.uid, self._user.gid)
        self.path.chmod(0o600)

    @property
    def has_extension(self) -> bool:
        """Whether an extension is connected, that is, a client that sends messages."""
        return any(self._writers.values())

    async def until_extension(self, seconds: float) -> bool:
        """Wait for an extension; whether one connects within `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.has_extension:
                    await asyncio.sleep(0.05)
        return self.has_extension

    def push(self, state: AgentState) -> None:
        """Send a state to every client. A slow reader may miss states, but not the last one."""
        self._last = _line(state)
        for writer in self._writers:
            if writer.transport.get_write_buffer_size() == 0:
                writer.write(self._last)

    async def close(self) -> None:
        """Disconnect everyone and remove the socket."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        self.path.unlink(missing_ok=True)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = _peer_uid(writer)
        if uid != self._user.uid or not self._has_place():
            log.warning("a connection of uid %d to the agent's socket was refused", uid)
            writer.close()
            return
        self._writers[writer] = False
        try:
            if self._last:
                writer.write(self._last)
            await self._listen(reader, writer)
        except (ConnectionError, ValueError, TimeoutError) as error:
            # A line beyond the limit is a ValueError; the connection is closed then.
            log.warning("a connection to the agent's socket ended: %s", type(error).__name__)
        finally:
            self._writers.pop(writer, None)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _has_place(self) -> bool:
        """Whether one more connection fits; closes the oldest that has sent nothing if needed."""
        if len(self._writers) < MAX_CONNECTIONS:
            return True
        silent = next((each for each, has_spoken in self._writers.items() if not has_spoken), None)
        if silent is None:
            return False
        del self._writers[silent]
        silent.close()
        return True

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                parsed(line)
                message = MESSAGE.validate_json(line)
            except ValidationError as error:
                log.warning("invalid message from the notebook: %d errors", error.error_count())
                return
            except WrongBody as error:
                log.warning("invalid message from the notebook: %s", error)
                return
            if writer in self._writers:
                self._writers[writer] = True
            if isinstance(message, Observation):
                self._on_observation(message)
            elif isinstance(message, DocumentsSaved):
                self._on_saved(message)
            elif isinstance(message, SleepProgress | SessionSaved):
                self._on_sleep(message)
            else:
                # One request at a time per connection, so that a flood waits in its own.
                writer.write(_line(await self._on_request(message)))
                async with asyncio.timeout(WRITE_SECONDS):
                    await writer.drain()


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    return int(PEER.unpack(credentials)[1])


def _line(message: AgentState | NotebookReply) -> bytes:
    return message.model_dump_json().encode() + b"\n"
