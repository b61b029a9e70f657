"""Asks the hub about this server's cluster, through the local socket of the instance's agent."""

from __future__ import annotations

import os

from pydantic import ValidationError

from ..agent_socket import SOCKET
from ..agent_socket.exchange import exchange, refusal
from ..wire import ClusterAnswer, ClusterRequest
from .errors import ClusterError, ClusterRefused


def ask(request: ClusterRequest) -> ClusterAnswer:
    """The hub's answer. Raises `ClusterError` with its reason where it refuses."""
    path = os.environ.get(SOCKET)
    if not path:
        raise ClusterError(
            "This server was not started by ec2spawner, so it has no cluster. Clusters need a "
            "server on an EC2 instance."
        )
    try:
        reply = exchange(path, {"type": "cluster", "cluster": request.model_dump(mode="json")})
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
    if text := refusal(reply):
        return ClusterRefused(f"The hub refused it: {text[:1].lower()}{text[1:]}")
    return ClusterError(
        "The hub does not answer now, so it is not known whether that was done. Your server runs "
        "on; ec2spawner.cluster() shows it once the hub answers."
    )
