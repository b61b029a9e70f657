"""What a kernel asks of the hub through the local socket of its instance's agent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ec2spawner.agent_socket import SOCKET
from ec2spawner.clusters.agent_request import ask
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.wire import (
    ClusterAnswer,
    ClusterRequest,
    ClusterStatus,
    NotebookReply,
    NotebookRequest,
    sentence,
)

STATE = b'{"at": "2026-11-25T12:00:00Z", "idleness": {}}\n'
"""What the agent sends to whoever connects; nobody here reads it."""


@contextmanager
def agent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[NotebookRequest], bytes]
) -> Iterator[None]:
    """An agent that answers one request."""
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.sendall(STATE)
                request = NotebookRequest.model_validate_json(client.makefile().readline())
                client.sendall(answer(request))

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv(SOCKET, str(path))
        yield
        thread.join(10)


def line(reply: NotebookReply) -> bytes:
    return reply.model_dump_json().encode() + b"\n"


def test_the_answer_of_the_hub_is_found_among_what_the_agent_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: NotebookRequest) -> bytes:
        assert request.type == "cluster"
        assert request.cluster == ClusterRequest(action="scale", workers=3)
        other = NotebookReply(id=request.id + 1, ok=False)
        mine = ClusterAnswer(status=ClusterStatus(wanted=3))
        return line(other) + STATE + line(NotebookReply(id=request.id, ok=True, cluster=mine))

    with agent(tmp_path, monkeypatch, answer):
        assert ask(ClusterRequest(action="scale", workers=3)).status.wanted == 3


def test_a_refusal_has_the_hubs_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: NotebookRequest) -> bytes:
        why = sentence("refused", detail="A cluster has at most 4 workers on this hub")
        return line(NotebookReply(id=request.id, ok=False, sentence=why))

    refused = pytest.raises(ClusterError, match="at most 4 workers")
    with agent(tmp_path, monkeypatch, answer), refused:
        ask(ClusterRequest())


def test_an_agent_that_hangs_up_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = pytest.raises(ClusterError, match="does not answer")
    with agent(tmp_path, monkeypatch, lambda request: b""), silent:
        ask(ClusterRequest())


def test_an_agent_of_an_older_image_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = pytest.raises(ClusterError, match="bake a new image")
    with agent(tmp_path, monkeypatch, lambda x: line(NotebookReply(id=x.id, ok=True))), old:
        ask(ClusterRequest())


def test_a_server_without_an_agent_has_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    with pytest.raises(ClusterError, match="not started by ec2spawner"):
        ask(ClusterRequest())
