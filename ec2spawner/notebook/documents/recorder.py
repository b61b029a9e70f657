"""Records what cells print, for pages that are closed before the cells end.

JupyterLab writes outputs into the notebook in the page that ran the cell, and nowhere else. Here
each execution is noted as its request passes the websocket, which alone names the cell, and the
kernel's messages are heard beside the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from jupyter_server.utils import ensure_async

from .cell_outputs import KINDS
from .executions import Execution, Executions
from .notebook_file import merge

log = logging.getLogger(__name__)

DELIMITER = b"<IDS|MSG>"

HEARD = tuple(f'"{kind}"'.encode() for kind in ("status", "execute_input", *KINDS))
"""In the header of each message that counts."""

TEND_SECONDS = 10.0
"""Between two looks at which notebooks the kernels belong to, and what can be dropped."""

SAVE_SECONDS = 10.0
"""For one notebook."""

CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""As in the notebook format; the id comes from a browser."""

CONNECTION_CLASS = "kernel_websocket_connection_class"


class OutputRecorder:
    """What closed pages have missed. Run `run` as a task."""

    def __init__(self, server: ServerApp) -> None:
        self._kernels: Any = server.kernel_manager
        self._sessions: Any = server.session_manager
        self._contents: Any = server.contents_manager
        self._connected: Counter[tuple[str, str]] = Counter()
        self._executions = Executions(lambda kernel, session: (kernel, session) in self._connected)
        self._streams: dict[str, tuple[Any, Any]] = {}
        """By kernel: the ports that it had, and the stream of its messages."""
        self._paths: dict[str, str] = {}
        """Of the notebook of each kernel, also of one that has just been shut down."""

    def install(self, settings: dict[str, Any]) -> None:
        """Have kernels' websockets report to this recorder, where they are Jupyter Server's."""
        base = settings.get(CONNECTION_CLASS)
        if isinstance(base, type) and issubclass(base, ZMQChannelsWebsocketConnection):
            settings[CONNECTION_CLASS] = _reporting(base, self)

    async def run(self) -> None:
        """Follow renamed notebooks and kernels that end, until cancelled."""
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                async with asyncio.timeout(TEND_SECONDS + SAVE_SECONDS):
                    await self._tend()
            except Exception:
                log.exception("ec2spawner: following the outputs of kernels failed")

    async def left(self, path: str) -> list[dict[str, Any]]:
        """The executions in this notebook whose page is gone, as `GET outputs` answers them to
        another page, which shows and saves them."""
        await self._learn_paths()
        kernels = [kernel for kernel, each in self._paths.items() if each == path]
        return [
            {
                "id": each.id,
                "cell_id": each.cell_id,
                "execution_count": each.count,
                "is_running": each.ended_at is None,
                "outputs": each.outputs.as_nbformat(),
            }
            for each in self._executions.follow(kernels, time.monotonic())
        ]

    def running_cell(self, kernel_id: str) -> str:
        """Id of the notebook cell that this kernel runs; empty where it runs none, or is not
        known."""
        found = [each for each in self._executions.of((kernel_id,)) if each.is_running]
        return found[0].cell_id if found and CELL_ID.fullmatch(found[0].cell_id) else ""

    def taken(self, ids: Collection[str]) -> None:
        """A page has the outputs of these executions."""
        self._executions.taken(ids)

    async def write(
        self, kernel_ids: Collection[str] | None = None, *, is_last: bool = False
    ) -> list[str]:
        """Put what closed pages have missed into the notebooks' files, where it is not yet; the
        paths of those that could not be written.

        `is_last`: also what another page shows, which cannot save it any more.
        """
        with contextlib.suppress(Exception):
            await self._learn_paths()
        by_path: dict[str, list[Execution]] = {}
        pages = {kernel_id for kernel_id, _ in self._connected}
        for kernel_id, path in self._paths.items():
            if kernel_ids is None or kernel_id in kernel_ids:
                found = (
                    self._executions.left((kernel_id,))
                    if is_last
                    else self._executions.unsaved((kernel_id,), pages, time.monotonic())
                )
                by_path.setdefault(path, []).extend(found)
        unsaved = []
        for path, executions in by_path.items():
            try:
                async with asyncio.timeout(SAVE_SECONDS):
                    await self._write(path, executions)
            except Exception as error:
                log.warning("ec2spawner: outputs could not be saved in %s: %r", path, error)
                unsaved.append(path)
        return unsaved

    def close(self) -> None:
        """Disconnect from the kernels."""
        for _, stream in self._streams.values():
            if not stream.closed():
                stream.close()
        self._streams.clear()

    async def _write(self, path: str, executions: Sequence[Execution]) -> None:
        if not executions:
            return
        model = await ensure_async(self._contents.get(path, content=True, type="notebook"))
        if merge(model["content"], executions):
            saved = {"type": "notebook", "format": "json", "content": model["content"]}
            await ensure_async(self._contents.save(saved, path))
        self._executions.taken(each.id for each in executions)

    async def _tend(self) -> None:
        await self._learn_paths()
        gone = self._paths.keys() - set(self._kernels.list_kernel_ids())
        if gone:
            await self.write(gone)
        for kernel_id in gone:
            self._executions.forget(each.id for each in self._executions.of((kernel_id,)))
            del self._paths[kernel_id]
            _, stream = self._streams.pop(kernel_id, (None, None))
            if stream is not None and not stream.closed():
                stream.close()
        self._executions.prune(time.monotonic())

    async def _learn_paths(self) -> None:
        for session in await self._sessions.list_sessions():
            if session["type"] == "notebook":
                self._paths[session["kernel"]["id"]] = session["path"]

    # --- what the websockets of pages report ---

    def connected(self, kernel_id: str, session: str, kernel: Any) -> None:
        """A page connects to a kernel."""
        self._connected[kernel_id, session] += 1
        self._listen(kernel_id, kernel)

    def disconnected(self, kernel_id: str, session: str) -> None:
        """A page's connection has ended, or has been found dead."""
        self._connected[kernel_id, session] -= 1
        if self._connected[kernel_id, session] <= 0:
            del self._connected[kernel_id, session]

    def sent(self, kernel_id: str, kernel: Any, message: Any) -> None:
        """A page sends a message to a kernel."""
        if not isinstance(message, bytes) or b'"execute_request"' not in message:
            return
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError, AttributeError):
            channel, parts = deserialize_msg_from_ws_v1(message)
            header, metadata = json.loads(parts[0]), json.loads(parts[2])
            if channel == "shell" and header["msg_type"] == "execute_request":
                self.asked(kernel_id, kernel, header, metadata["cellId"])

    def asked(self, kernel_id: str, kernel: Any, header: Mapping[str, Any], cell_id: str) -> None:
        """Record what a cell shows that a kernel is about to run; `header` is that of the request.

        One that no page has sent, because its session is woken, has nobody who shows it otherwise.
        """
        self._listen(kernel_id, kernel)
        execution = Execution(
            id=header["msg_id"], kernel_id=kernel_id, session=header["session"], cell_id=cell_id
        )
        self._executions.begin(execution)

    # --- what kernels say ---

    def _listen(self, kernel_id: str, kernel: Any) -> None:
        """Hear the kernel's messages, anew where a restart has moved its ports."""
        ports = list(getattr(kernel, "ports", ()))
        known, stream = self._streams.get(kernel_id, (None, None))
        if stream is not None and known == ports:
            return
        if stream is not None and not stream.closed():
            stream.close()
        try:
            stream = kernel.connect_iopub()
            # See KernelWatch: what is dropped could be the message that ends an execution.
            stream.socket.rcvhwm = 0
            stream.on_recv(lambda frames: self._receive(kernel_id, frames))
        except Exception as error:
            log.debug("no messages of a kernel: %s", error)
            return
        self._streams[kernel_id] = (ports, stream)

    def _receive(self, kernel_id: str, frames: list[bytes]) -> None:
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError, AttributeError):
            # A kernel may say anything; what is no message is no output.
            start = frames.index(DELIMITER)
            if not any(kind in frames[start + 2] for kind in HEARD):
                return
            kind = json.loads(frames[start + 2])["msg_type"]
            parent = json.loads(frames[start + 3]).get("msg_id", "")
            content = json.loads(frames[start + 5])
            self._executions.hear(kernel_id, kind, parent, content, time.monotonic())


def _reporting(
    base: type[ZMQChannelsWebsocketConnection], recorder: OutputRecorder
) -> type[ZMQChannelsWebsocketConnection]:
    """The same connection, which reports to the recorder."""

    class ReportingConnection(base):  # type: ignore[misc, valid-type]
        _reported = ""
        """The session that was reported as connected."""

        def connect(self) -> Any:
            session = self.session.session
            recorder.connected(self.kernel_id, session, self.kernel_manager)
            self._reported = session
            return super().connect()

        def disconnect(self) -> Any:
            if self._reported:
                recorder.disconnected(self.kernel_id, self._reported)
                self._reported = ""
            return super().disconnect()

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            recorder.sent(self.kernel_id, self.kernel_manager, incoming_msg)
            super().handle_incoming_message(incoming_msg)

    return ReportingConnection
