"""Which kernels work: derived from their own messages, not from `last_activity`.

Jupyter Server's `last_activity` moves when a tab connects, and its `execution_state` turns idle
when a tab's debugger greets a kernel in the middle of a cell. So the kernel's own words about
executions come first, and Jupyter Server's state counts where it says busy for a while.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from jupyter_server.services.kernels.kernelmanager import MappingKernelManager

from ...core.idle.activity import STARTING_LIMIT
from ...wire import KernelState

log = logging.getLogger(__name__)

DELIMITER = b"<IDS|MSG>"

EXECUTION = "execute_request"

CALLBACKS = ("comm_msg", "comm_open")
"""A widget's callback runs in one of these, for a moment (a tab connects) or for an hour."""

CALLBACK_SECONDS = timedelta(seconds=2)
"""A callback that runs for longer is work like an execution; so is whatever else keeps a kernel
busy for longer, such as an execution that began before we listened."""

STARTING = ("starting", "restarting", "autorestarting")
"""Jupyter Server's words for a kernel that has said nothing yet, and may never do. One that takes
longer than `STARTING_LIMIT` counts as idle since its start, and is shut down in its turn."""

MAX = 100
"""More kernels than this are not reported: an observation stays a message, not a file."""

MAX_PATH = 500
"""A longer path than this is not reported: truncated it would lead elsewhere."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What has a kernel open."""

    name: str
    """For people."""
    path: str
    """Of its notebook; empty for a console."""


NOT_OPEN = Opened("", "")

State = Literal["idle", "busy", "starting", "unknown"]


class KernelWatch:
    """One kernel: what runs in it, and when something last did."""

    def __init__(
        self, kernel: Any, now: Callable[[], datetime], on_change: Callable[[], None]
    ) -> None:
        self._kernel = kernel
        self._now = now
        self._on_change = on_change
        self._running: dict[str | None, tuple[str, str, datetime]] = {}
        """By subshell, where one thing runs at a time: (message id, its type, since when)."""
        self._ports: Any = None
        self._pid: int | None = None
        self._busy_since: datetime | None = None
        """Since when Jupyter Server calls it busy."""
        self._starting_since: datetime | None = None
        self._stream: Any = None
        self.last_activity = now()

    @property
    def pid(self) -> int | None:
        """The kernel's process id; None if it runs on another machine or has not started."""
        pid = getattr(getattr(self._kernel, "provisioner", None), "pid", None)
        return pid if isinstance(pid, int) else None

    def check(self) -> State:
        """What the kernel does now. Follows a restart: a new process has nothing running."""
        self._listen()
        if self.pid != self._pid:
            self._pid = self.pid
            self._running.clear()
        own = getattr(self._kernel, "execution_state", "unknown")
        if own == "busy":
            self._busy_since = self._busy_since or self._now()
        else:
            self._busy_since = None
        if own in STARTING:
            return self._check_start()
        self._starting_since = None
        if own not in ("idle", "busy"):
            return "unknown"
        if self._is_busy():
            self.last_activity = self._now()
            return "busy"
        return "idle"

    def runs_anything(self) -> bool:
        """Whether it runs anything now, be it for a moment: what is asked of it would wait.

        An execution that began before we listened is known by Jupyter Server alone.
        """
        self.check()
        return bool(self._running) or self._busy_since is not None

    def _check_start(self) -> State:
        if self._starting_since is None:
            # Somebody has started it, or it died at work.
            self._starting_since = self.last_activity = self._now()
        is_over = self._now() - self._starting_since > STARTING_LIMIT
        return "idle" if is_over else "starting"

    def close(self) -> None:
        """Disconnect from the kernel's messages."""
        if self._stream is not None and not self._stream.closed():
            self._stream.close()
        self._stream = None

    def busy_seconds(self) -> float:
        """For how long it has been running the youngest of what it runs."""
        begun = [since for _, _, since in self._running.values()]
        if not begun and self._busy_since is not None:
            begun = [self._busy_since]
        return (self._now() - max(begun)).total_seconds() if begun else 0.0

    def _listen(self) -> None:
        """Listen to the kernel's messages, anew where a restart has moved its ports."""
        ports = getattr(self._kernel, "ports", None)
        if self._stream is not None and ports == self._ports:
            return
        self.close()
        try:
            self._stream = self._kernel.connect_iopub()
            # ZeroMQ drops what exceeds 1000 waiting messages: a cell that prints faster than this
            # server reads would lose its "idle", and keep the server on indefinitely.
            self._stream.socket.rcvhwm = 0
            self._stream.on_recv(self._receive)
        except Exception as error:
            # A kernel elsewhere (a gateway's) has no socket of ours; its own word must do then.
            log.debug("no messages of a kernel: %s", error)
        self._ports = ports

    def _is_busy(self) -> bool:
        running = any(self._is_work(kind, since) for _, kind, since in self._running.values())
        since = self._busy_since
        return running or (since is not None and self._now() - since >= CALLBACK_SECONDS)

    def _is_work(self, kind: str, since: datetime) -> bool:
        return kind == EXECUTION or self._now() - since >= CALLBACK_SECONDS

    def _receive(self, frames: list[bytes]) -> None:
        try:
            start = frames.index(DELIMITER)
            header, parent = frames[start + 2], frames[start + 3]
            if b"status" not in header:
                return
            if json.loads(header)["msg_type"] == "status":
                self._status(json.loads(parent), json.loads(frames[start + 5]))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            # A kernel may say anything; what is no message is no work.
            return

    def _status(self, parent: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        kind, subshell = parent.get("msg_type", ""), parent.get("subshell_id")
        if kind != EXECUTION and kind not in CALLBACKS:
            return
        message_id = str(parent.get("msg_id", ""))
        if content["execution_state"] == "busy":
            self._running[subshell] = (message_id, kind, self._now())
            if kind == EXECUTION:
                self.last_activity = self._now()
        elif content["execution_state"] == "idle":
            running = self._running.get(subshell)
            if running is None or running[0] != message_id:
                return
            del self._running[subshell]
            if self._is_work(running[1], running[2]):
                self.last_activity = self._now()
        self._on_change()


class KernelWatches:
    """All kernels of the server."""

    def __init__(
        self,
        manager: MappingKernelManager,
        now: Callable[[], datetime],
        on_change: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._now = now
        self._on_change = on_change
        self._watches: dict[str, KernelWatch] = {}

    def states(self, opened: Mapping[str, Opened]) -> list[KernelState]:
        """Every kernel, the busy ones first; `opened` is what has them open, by kernel id."""
        self._follow()
        found = [
            KernelState(
                id=kernel_id,
                name=opened.get(kernel_id, NOT_OPEN).name[:200],
                path=opened.get(kernel_id, NOT_OPEN).path,
                execution_state=watch.check(),
                pid=watch.pid,
                last_activity=watch.last_activity,
            )
            for kernel_id, watch in self._watches.items()
        ]
        return sorted(found, key=lambda kernel: kernel.execution_state != "busy")[:MAX]

    def is_busy(self, kernel_id: str) -> bool:
        """Whether a kernel runs anything now, also one that has only just started."""
        self._follow()
        watch = self._watches.get(kernel_id)
        return watch is not None and watch.runs_anything()

    def runs_nothing_younger(self, kernel_id: str, seconds: float) -> bool:
        """Whether a kernel is idle, or whatever it runs has been running for so long; 0: idle."""
        watch = self._watches.get(kernel_id)
        if watch is None:
            return False
        state = watch.check()
        return state == "idle" or (state == "busy" and 0 < seconds <= watch.busy_seconds())

    async def shut_down(self, kernel_id: str) -> None:
        """Shut down an idle kernel through Jupyter's own manager, so that pages show it."""
        await self._manager.shutdown_kernel(kernel_id)

    def close(self) -> None:
        """Disconnect from all kernels."""
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    def _follow(self) -> None:
        """Watch new kernels, leave those that are gone."""
        present = set(self._manager.list_kernel_ids())
        for kernel_id in self._watches.keys() - present:
            self._watches.pop(kernel_id).close()
        for kernel_id in present:
            try:
                if kernel_id not in self._watches:
                    kernel = self._manager.get_kernel(kernel_id)
                    self._watches[kernel_id] = KernelWatch(kernel, self._now, self._on_change)
            except KeyError:
                continue
