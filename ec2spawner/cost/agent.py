"""Reads this server's cost, and what is announced, from the instance's agent: one line from its
local socket.

The agent sends its last state to each new connection. `read` raises nothing, takes at most
`TIMEOUT`, and reuses a reading for a second.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..agent_socket import MAX_LINE, SOCKET
from .notice import Notice, announced

if TYPE_CHECKING:
    from ..wire import Cost, WorkersCost

TIMEOUT: Final = 0.5
"""Seconds for one reading."""

FRESH: Final = 1.0
"""Seconds for which a reading is reused."""

FRESH_AT_NOTICE: Final = 0.2
"""The same once the end of the machine is announced: what follows is waited for."""

SILENT: Final = 30.0
"""The same without an answer: an agent that hangs must not delay each epoch of a training."""

PAUSE: Final = 0.02
"""Seconds between two tries if the agent has too many connections."""

NOT_OURS: Final = "this server was not started by ec2spawner"
NO_RESPONSE: Final = "the agent of this machine does not answer"
NOT_YET: Final = "the hub has not sent it yet"
NO_PRICE: Final = "the price of this machine is not known"
NO_WORKER_PRICE: Final = "the price of a worker is not known"

# The wall clock is read once: one that is set in the middle of a block would change its cost.
_WALL, _STEADY = time.time(), time.monotonic()


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the agent, from which the cost at any instant near it is computed."""

    cost: Cost | None = None
    why: str = NOT_OURS
    """Why the cost is unknown; empty if it is known."""
    notice: Notice | None = None
    """That this machine ends soon; None where that is not announced, or the agent is silent."""

    def usd_at(self, clock: float) -> float | None:
        """Cost of this server and its workers up to an instant of `clock`, in USD; None where
        unknown.

        The difference of two is the cost of the time between them. Within the first minute, which
        is billed as a whole, it is less than the bill.
        """
        total = None if self.cost is None else _extrapolated(self.cost, clock)
        if self.cost is None or total is None or self.cost.workers is None:
            return total
        of_workers = _extrapolated(self.cost.workers, clock)
        return None if of_workers is None else total + of_workers

    @property
    def usd_per_hour(self) -> float | None:
        """Current price of this server and its workers; None if unknown."""
        if self.cost is None or self.cost.workers is None or self.cost.usd_per_hour is None:
            return self.cost.usd_per_hour if self.cost else None
        of_workers = self.cost.workers.usd_per_hour
        return None if of_workers is None else self.cost.usd_per_hour + of_workers


def _extrapolated(cost: Cost | WorkersCost, clock: float) -> float | None:
    if cost.usd is None:
        return None
    return cost.usd + (cost.usd_per_hour or 0.0) * (clock - cost.as_of.timestamp()) / 3600


def clock() -> float:
    """Seconds since 1970, on a clock that is not affected by setting the time."""
    return _WALL + time.monotonic() - _STEADY


def instant(seconds: float) -> datetime:
    """An instant of `clock` as a date, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


_last: tuple[str, float, Reading] = ("", 0.0, Reading())
"""(path of the socket, valid until, reading). Without a lock, which a fork could leave locked: two
threads may read at once."""


def read() -> Reading:
    """The agent's current figures, at most `FRESH` seconds old, or `SILENT` without an answer."""
    global _last
    path = os.environ.get(SOCKET, "")
    of, until, reading = _last
    if of != path or clock() >= until:
        reading = _ask(path) if path else Reading()
        _last = path, clock() + _valid_seconds(reading), reading
    return reading


def _valid_seconds(reading: Reading) -> float:
    if reading.why == NO_RESPONSE:
        return SILENT
    return FRESH if reading.notice is None else min(FRESH, FRESH_AT_NOTICE)


def read_now() -> Reading:
    """The agent's current figures, not a moment old; asks each time."""
    path = os.environ.get(SOCKET, "")
    return _ask(path) if path else Reading()


def is_there() -> bool:
    """Whether an agent started this process's server."""
    return bool(os.environ.get(SOCKET))


def _ask(path: str) -> Reading:
    deadline = time.monotonic() + TIMEOUT
    try:
        state = json.loads(_line(path, deadline))
        return _reading(state.get("cost"), announced(state))
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
        except (BlockingIOError, ConnectionResetError):  # too many connections
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
    raise ValueError("the agent sent no complete state")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(NO_RESPONSE)
    return left


def _reading(cost: Any, notice: Notice | None) -> Reading:
    """Parses only these fields of the state: others may differ between versions."""
    from ..wire import Cost  # takes 0.2 s the first time

    if cost is None:
        return Reading(why=NOT_YET, notice=notice)
    known = Cost.model_validate(cost)
    workers, why = known.workers, ""
    if known.usd is None and known.usd_per_hour is None:
        why = NO_PRICE
    elif workers is not None and workers.usd is None:
        why = NO_WORKER_PRICE
    return Reading(known, why, notice)
