"""Where the notebook extension talks to the agent: JSON lines over a Unix socket.

Only processes of the notebook user may connect. What they say is theirs to lie about: it moves
their own idleness within the hub's bounds, and nothing else.
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

from ...wire import (
    AgentState,
    DocumentsSaved,
    NotebookReply,
    NotebookRequest,
    Observation,
)
from ..settings import NotebookUser

log = logging.getLogger(__name__)

MAX_PATH_BYTES = 100
"""The kernel takes 107; a longer run directory gets its socket in a temporary one."""

MAX_CONNECTIONS = 8
"""The extension uses one, and a few more while it reconnects. Whoever only reads hangs up when it
has a state; of those that do not, the oldest gives way."""

MAX_LINE_BYTES = 256 * 1024
"""An observation of a hundred kernels with long names is half of this."""

WRITE_SECONDS = 5.0
"""A reader that takes a state no sooner is hung up on."""

PEER = struct.Struct("3i")

SAID = TypeAdapter(Observation | NotebookRequest | DocumentsSaved)


class LocalSocket:
    """The listening socket. `start`, then `push` whenever the state changed, then `close`."""

    def __init__(
        self,
        run_dir: Path,
        user: NotebookUser,
        on_observation: Callable[[Observation], None],
        on_request: Callable[[NotebookRequest], Awaitable[NotebookReply]],
        on_saved: Callable[[], None],
    ) -> None:
        self._user = user
        self._on_observation = on_observation
        self._on_request = on_request
        self._on_saved = on_saved
        self._temporary: Path | None = None
        path = run_dir / "agent.sock"
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            self._temporary = Path(tempfile.mkdtemp(prefix="ec2spawner-"))
            self._temporary.chmod(0o711)
            path = self._temporary / "agent.sock"
        self.path = path
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, bool] = {}
        """The oldest first: whether it has said anything."""
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
    def has_speaker(self) -> bool:
        """Whether an extension is connected; whoever only reads states is none."""
        return any(self._writers.values())

    def push(self, state: AgentState) -> None:
        """Send a state to whoever is connected; a slow reader misses states, not the last one."""
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
            # A line beyond the limit is a ValueError; the connection is hung up then.
            log.warning("a connection to the agent's socket ended: %s", type(error).__name__)
        finally:
            self._writers.pop(writer, None)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _has_place(self) -> bool:
        """For one more; the oldest that has said nothing makes room, and has its state by then."""
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
                said = SAID.validate_json(line)
            except ValidationError as error:
                log.warning("the notebook said what is no message: %d errors", error.error_count())
                return
            if writer in self._writers:
                self._writers[writer] = True
            if isinstance(said, Observation):
                self._on_observation(said)
            elif isinstance(said, DocumentsSaved):
                self._on_saved()
            else:
                # One request at a time: a flood of them waits in its own connection.
                writer.write(_line(await self._on_request(said)))
                async with asyncio.timeout(WRITE_SECONDS):
                    await writer.drain()


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    return int(PEER.unpack(credentials)[1])


def _line(message: AgentState | NotebookReply) -> bytes:
    return message.model_dump_json().encode() + b"\n"
