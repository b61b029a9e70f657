"""What the instance's agent says of this server's cost: one line from its local socket.

Connect, read a state, hang up: the agent sends its last one at once. Nothing here raises, and
nothing takes longer than `TIMEOUT`; an answer serves for a second.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..wire import Cost

SOCKET: Final = "EC2SPAWNER_AGENT_SOCKET"
"""Set in the environment of the notebook server, and so of its kernels and terminals."""

TIMEOUT: Final = 0.5
"""Seconds that asking may take."""

FRESH: Final = 1.0
"""Seconds for which an answer serves."""

SILENT: Final = 30.0
"""The same for none: an agent that hangs must not hold up each epoch of a training."""

PAUSE: Final = 0.02
"""Seconds between two tries, where the agent hung up on a crowd."""

MAX_LINE: Final = 4 * 1024 * 1024
"""Bytes; a state with the telemetry of 8 GPUs and 20 kernels is a hundredth of it."""

NOT_OURS: Final = "this server was not started by ec2spawner"
NO_RESPONSE: Final = "the agent of this machine does not answer"
NOT_YET: Final = "the hub has not sent it yet"
NO_PRICE: Final = "the price of this machine is not known"

# The wall clock is read once: one that is set in the middle of a block would change its cost.
_WALL, _STEADY = time.time(), time.monotonic()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said, to be asked about any moment near it."""

    cost: Cost | None = None
    why: str = NOT_OURS
    """Why it is unknown; empty where it is known."""

    def usd_at(self, clock: float) -> float | None:
        """Cost of this server up to an instant of `clock`, in USD; None where unknown.

        The difference of two is the cost of the time between them. Within the first minute, which
        is billed as a whole, it is less than the bill.
        """
        cost = self.cost
        if cost is None or cost.usd is None:
            return None
        return cost.usd + (cost.usd_per_hour or 0.0) * (clock - cost.as_of.timestamp()) / 3600

    @property
    def usd_per_hour(self) -> float | None:
        """Current price of this server; None if unknown."""
        return self.cost.usd_per_hour if self.cost else None


def clock() -> float:
    """Seconds since 1970, on a clock that is not affected by setting the time."""
    return _WALL + time.monotonic() - _STEADY


def instant(seconds: float) -> datetime:
    """The same as a date, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


_last: tuple[str, float, Reading] = ("", 0.0, Reading())
"""Of which socket, until when it serves, and what was said. Threads may both ask: no lock, which
a fork could leave locked."""


def read() -> Reading:
    """What the agent says now, or said a moment ago."""
    global _last
    path = os.environ.get(SOCKET, "")
    of, until, reading = _last
    if of != path or clock() >= until:
        reading = _ask(path) if path else Reading()
        _last = path, clock() + (SILENT if reading.why == NO_RESPONSE else FRESH), reading
    return reading


def _ask(path: str) -> Reading:
    deadline = time.monotonic() + TIMEOUT
    try:
        state = json.loads(_line(path, deadline))
        return _reading(state.get("cost"))
    except (OSError, ValueError, AttributeError):
        return Reading(why=NO_RESPONSE)


def _line(path: str, deadline: float) -> bytes:
    """One line. Raises `OSError`, `TimeoutError` among them."""
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
                agent.settimeout(_left(deadline))
                agent.connect(path)
                return _read_line(agent, deadline)
        except (BlockingIOError, ConnectionResetError):  # a crowd is before us
            time.sleep(min(PAUSE, _left(deadline)))


def _read_line(agent: socket.socket, deadline: float) -> bytes:
    said = bytearray()
    while len(said) < MAX_LINE:
        agent.settimeout(_left(deadline))
        part = agent.recv(65536)
        if not part:
            raise ConnectionResetError("the agent hung up")
        said += part
        if b"\n" in part:
            return bytes(said.partition(b"\n")[0])
    raise ValueError("that is no state")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(NO_RESPONSE)
    return left


def _reading(cost: Any) -> Reading:
    """Of the state's `cost` alone: the rest is nothing to us, whatever version wrote it."""
    from ..wire import Cost  # a fifth of a second, the first time

    if cost is None:
        return Reading(why=NOT_YET)
    known = Cost.model_validate(cost)
    unknown = known.usd is None and known.usd_per_hour is None
    return Reading(known, NO_PRICE if unknown else "")
