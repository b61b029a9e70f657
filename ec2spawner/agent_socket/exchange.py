"""One request to the agent, which asks the hub, and its reply; or a message without one."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Mapping
from typing import Final

from . import MAX_LINE

TIMEOUT: Final = 20.0
"""Seconds: the agent waits 15 s for the hub."""

SEND_SECONDS: Final = 5.0
"""For a message without a reply."""

_ids = itertools.count(1)


def exchange(
    path: str, request: Mapping[str, object], seconds: float = TIMEOUT
) -> dict[str, object]:
    """The reply to a `NotebookRequest`, to which an id is given here. Blocks.

    Raises `OSError` if the agent cannot be reached or hangs up, and `TimeoutError`, which is one.
    """
    number = next(_ids)
    line = json.dumps({**request, "id": number}).encode() + b"\n"
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.settimeout(seconds)
        agent.connect(path)
        agent.sendall(line)
        return _reply(agent, number, deadline)


def send(path: str, message: Mapping[str, object], seconds: float = SEND_SECONDS) -> None:
    """Send a message that has no reply. Blocks.

    Raises `OSError` if the agent cannot be reached, and `TimeoutError`, which is one.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.settimeout(seconds)
        agent.connect(path)
        agent.sendall(json.dumps(message).encode() + b"\n")
        agent.shutdown(socket.SHUT_WR)
        # Closed with unread states of the agent, the connection would be reset under the message.
        while agent.recv(65536):
            pass


def refusal(reply: Mapping[str, object]) -> str:
    """Why the hub refused, in its words; empty if it did not answer."""
    sentence = reply.get("sentence")
    params = sentence.get("params") if isinstance(sentence, dict) else None
    detail = params.get("detail") if isinstance(params, dict) else None
    return str(detail or "")


def _reply(agent: socket.socket, number: int, deadline: float) -> dict[str, object]:
    said = bytearray()
    searched = 0
    while True:
        end = said.find(b"\n", searched)
        if end >= 0:
            reply = _parse(bytes(said[:end]))
            if reply.get("type") == "reply" and reply.get("id") == number:
                return reply
            del said[: end + 1]  # the agent's state, which it sends to whoever connects
            searched = 0
            continue
        searched = len(said)
        agent.settimeout(max(deadline - time.monotonic(), 0.001))
        part = agent.recv(65536)
        if not part or len(said) > MAX_LINE:
            raise ConnectionResetError("the agent hung up")
        said += part


def _parse(line: bytes) -> dict[str, object]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise ConnectionResetError("the agent sent no message") from error
