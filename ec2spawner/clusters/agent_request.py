"""Asks the hub about this server's cluster, through the local socket of the instance's agent."""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from typing import Final

from pydantic import ValidationError

from ..wire import ClusterAnswer, ClusterRequest
from .errors import ClusterError, ClusterRefused

SOCKET: Final = "EC2SPAWNER_AGENT_SOCKET"
"""Set in the environment of the notebook server, and so of its kernels and terminals."""

TIMEOUT: Final = 20.0
"""Seconds: the agent waits 15 s for the hub."""

MAX_LINE: Final = 4 * 1024 * 1024
"""Bytes; the status of the largest cluster is a hundredth of it."""

_ids = itertools.count(1)


def ask(request: ClusterRequest) -> ClusterAnswer:
    """The hub's answer. Raises `ClusterError` with its reason where it refuses."""
    path = os.environ.get(SOCKET)
    if not path:
        raise ClusterError(
            "This server was not started by ec2spawner, so it has no cluster. Clusters need a "
            "server on an EC2 instance."
        )
    number = next(_ids)
    order = {"type": "cluster", "id": number, "cluster": request.model_dump(mode="json")}
    try:
        reply = _exchange(path, json.dumps(order).encode() + b"\n", number)
    except OSError as error:
        raise ClusterError(
            "The agent of this machine does not answer, so it is not known whether that was done: "
            "ec2spawner.cluster() shows it."
        ) from error
    if not reply.get("ok"):
        raise _refusal(reply)
    try:
        return ClusterAnswer.model_validate(reply.get("cluster"))
    except ValidationError as error:
        raise ClusterError(
            "The agent of this machine does not know clusters: its image has another version of "
            "ec2spawner. An admin must bake a new image."
        ) from error


def _refusal(reply: dict[str, object]) -> ClusterError:
    sentence = reply.get("sentence")
    params = sentence.get("params") if isinstance(sentence, dict) else None
    detail = params.get("detail") if isinstance(params, dict) else None
    if detail:
        text = str(detail)
        return ClusterRefused(f"The hub refused it: {text[:1].lower()}{text[1:]}")
    return ClusterError(
        "The hub does not answer now, so it is not known whether that was done. Your server runs "
        "on; ec2spawner.cluster() shows it once the hub answers."
    )


def _exchange(path: str, order: bytes, number: int) -> dict[str, object]:
    """The reply to this order. Raises `OSError`, `TimeoutError` among them."""
    deadline = time.monotonic() + TIMEOUT
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.settimeout(TIMEOUT)
        agent.connect(path)
        agent.sendall(order)
        said = b""
        while True:
            line, end, rest = said.partition(b"\n")
            if end:
                said = rest
                reply = json.loads(line)
                if reply.get("type") == "reply" and reply.get("id") == number:
                    return dict(reply)
                continue  # the agent's state, which it sends to whoever connects
            agent.settimeout(max(deadline - time.monotonic(), 0.001))
            part = agent.recv(65536)
            if not part or len(said) > MAX_LINE:
                raise ConnectionResetError("the agent hung up")
            said += part
