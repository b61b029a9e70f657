"""The local socket of an agent behind which a test's hub answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ec2spawner.agent_socket import SOCKET
from ec2spawner.runs.errors import RunRefused
from ec2spawner.wire import (
    HardwareChoices,
    NotebookReply,
    NotebookRequest,
    RunsAnswer,
    RunsRequest,
    RunSummary,
)
from ec2spawner.wire.sentences import sentence

STATE = b'{"at": "2026-11-25T12:00:00Z", "idleness": {}}\n'
"""What the agent sends to whoever connects; nobody here reads it."""


class Refusal(RunRefused):
    """The hub's, with its reason; without one, the hub is silent."""


class Busy(Exception):
    """The hub wants to be asked again after `PAUSE`."""


PAUSE = 0.01
"""Seconds."""

Hub = Callable[[RunsRequest], RunsAnswer]


@contextmanager
def agent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, hub: Hub, hardware: HardwareChoices | None = None
) -> Iterator[None]:
    """An agent that passes requests on, one to a connection, until the block ends. To a request for
    hardware it answers `hardware`, or that the hub is silent."""
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
                # A process that is killed leaves half a request, or does not read the answer.
                with client, suppress(OSError, ValidationError):
                    client.sendall(STATE)
                    request = NotebookRequest.model_validate_json(client.makefile().readline())
                    reply = (
                        _hardware_reply(request, hardware)
                        if request.type == "hardware"
                        else _reply(request, hub)
                    )
                    client.sendall(reply.model_dump_json().encode() + b"\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv(SOCKET, str(path))
        yield
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _hardware_reply(request: NotebookRequest, hardware: HardwareChoices | None) -> NotebookReply:
    if hardware is None:
        return NotebookReply(id=request.id, ok=False, sentence=sentence("hub-silent"))
    return NotebookReply(id=request.id, ok=True, hardware=hardware)


def _reply(request: NotebookRequest, hub: Hub) -> NotebookReply:
    assert request.type == "runs"
    assert request.runs is not None
    try:
        return NotebookReply(id=request.id, ok=True, runs=hub(request.runs))
    except Busy:
        why = sentence("hub-silent")
        return NotebookReply(id=request.id, ok=False, sentence=why, retry_after_seconds=PAUSE)
    except Refusal as refusal:
        detail = str(refusal)
        why = sentence("refused", detail=detail) if detail else sentence("hub-silent")
        return NotebookReply(id=request.id, ok=False, sentence=why)


def summary(number: int, **changes: Any) -> RunSummary:
    given: dict[str, Any] = {
        "path": "work/train.ipynb",
        "profile": "t4",
        "profile_name": "T4",
        "state": "queued",
        "submitted_at": datetime(2026, 11, 25, 12, tzinfo=UTC),
    }
    return RunSummary(number=number, **given | changes)
