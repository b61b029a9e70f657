"""A hub with one cluster, behind the local socket of an agent; its workers join at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ec2spawner.agent_socket import SOCKET
from ec2spawner.wire import (
    ClusterAnswer,
    ClusterJoin,
    ClusterPrice,
    ClusterRequest,
    ClusterStatus,
    NotebookReply,
    NotebookRequest,
    WorkerStatus,
    sentence,
)


@dataclass
class ClusterHub:
    """What was asked of it, and how it answers."""

    wanted: int = 0
    joining: int | None = None
    """How many workers join; None is all."""
    has_home: bool = False
    refusal: str = ""
    """Why a start is refused."""
    silent: int = 0
    """How many questions for the status are not answered."""
    silent_to: str = ""
    """The action that it follows and does not answer."""
    more: dict[str, object] = field(default_factory=dict)
    """Further fields of the status."""
    asked: list[ClusterRequest] = field(default_factory=list)
    on_status: Callable[[], None] = lambda: None

    @property
    def actions(self) -> list[str]:
        """Without questions for the status."""
        return [each.action for each in self.asked if each.action != "status"]

    @property
    def joins(self) -> list[ClusterJoin]:
        return [each.join for each in self.asked if each.join is not None]

    def reply(self, request: NotebookRequest) -> NotebookReply:
        asked = request.cluster
        assert asked is not None
        self.asked.append(asked)
        if asked.action == "status":
            self.on_status()
            if self.silent:
                self.silent -= 1
                return NotebookReply(id=request.id, ok=False, sentence=sentence("hub-silent"))
        if asked.action == "start" and self.refusal:
            why = sentence("refused", detail=self.refusal)
            return NotebookReply(id=request.id, ok=False, sentence=why)
        if asked.action in {"start", "scale", "stop"}:
            self.wanted = asked.workers or 0
        if asked.action == self.silent_to:
            return NotebookReply(id=request.id, ok=False, sentence=sentence("hub-silent"))
        price = self._price(asked) if asked.action in {"price", "start"} else None
        answer = ClusterAnswer(status=self._status(), price=price)
        return NotebookReply(id=request.id, ok=True, cluster=answer)

    def _price(self, asked: ClusterRequest) -> ClusterPrice:
        return ClusterPrice(
            profile_name=asked.profile or "of the server",
            workers=asked.workers or 0,
            instance_type="g5.xlarge",
            usd_per_hour=0.5 * (asked.workers or 0),
            has_home=self.has_home,
        )

    def _status(self) -> ClusterStatus:
        joined = self.wanted if self.joining is None else self.joining
        workers = [
            WorkerStatus(
                number=number,
                state="ready" if number <= joined else "starting",
                since=datetime(2026, 11, 28, tzinfo=UTC),
            )
            for number in range(1, self.wanted + 1)
        ]
        return ClusterStatus.model_validate(
            {"wanted": self.wanted, "profile": "a10g", "workers": workers, **self.more}
        )


@contextmanager
def agent_of(hub: ClusterHub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Passes requests on, one to a connection, until the block ends."""
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client, suppress(OSError):  # a kernel that is interrupted hangs up
                    request = NotebookRequest.model_validate_json(client.makefile().readline())
                    client.sendall(hub.reply(request).model_dump_json().encode() + b"\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv(SOCKET, str(path))
        yield
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)
