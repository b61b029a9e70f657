"""A run: a notebook or script that is executed to completion, whatever becomes of its instances.

Each attempt has a lease of its own. What is executed, and its result, are in the store only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer

from ....core.runs.attempts import Tries
from ....core.runs.queue import QueuePlace
from ....core.runs.terms import Terms
from ....wire import Market
from ....wire.runs import DELETED_SERVER, RunKind, RunOutcome


def as_json(parameters: Mapping[str, Any] | str) -> str:
    """Parameters as `Run` has them."""
    if isinstance(parameters, str):
        return parameters
    return json.dumps(parameters, ensure_ascii=False, separators=(",", ":"))


class RunState(StrEnum):
    """The stages of a run. After a lost instance it is queued again."""

    QUEUED = "queued"
    """Without a lease."""
    STARTED = "started"
    """With a lease, which looks for an instance, boots it, or runs."""
    ENDED = "ended"
    """Final."""


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """One instance of a run, once its lease has ended."""

    lease_id: str
    instance_type: str
    zone: str
    market: Market
    usd: float | None
    """What the ledger has of it, in USD; None where no price is known."""
    reason: str
    """`wire.Stop.reason`, or empty for the attempt that completed."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run, from its submission to its one result."""

    number: int
    """Of this hub, from 1; none is used twice."""
    user: str
    server: str
    """Name of the user's server that sent it, reaches it and gets the result into its home; see
    `deleted_server`."""
    path: str
    """Of the notebook or script, relative to that home."""
    profile: str
    """Slug."""
    profile_name: str
    payer: str
    """To whom it is charged, such as `group:research`; empty is its user."""
    submitted_at: datetime
    parameters: Annotated[str, BeforeValidator(as_json), PlainSerializer(json.loads)] = "{}"
    """By name, as JSON: 2048 bytes of it may be 80 KB of Python's objects. The store has these."""
    array: int = 0
    """Number of the first run of its array; 0 for a run of its own."""
    array_at_once: int | None = None
    retries: int = 0
    max_usd: float | None = None
    deadline: datetime | None = None
    max_spot_usd_per_hour: float | None = None
    wait_until: datetime | None = None
    request_id: str = ""
    """As its sender has called the submission; empty for none."""
    notify: bool = False
    """Whether an alarm reports its end."""
    state: RunState = RunState.QUEUED
    outcome: RunOutcome | None = None
    """None until it has ended."""
    message: str = ""
    """Why it waits, what it does, or how it ended, in words."""
    lease_id: str = ""
    """Of the present attempt; empty while it is queued."""
    begun: bool = False
    """Whether it runs on the instance of the present attempt."""
    not_before: datetime | None = None
    """After a start that failed. What holds up others as well is in `State.runs.holds`."""
    tries: Tries = field(default_factory=Tries)
    attempts: tuple[RunAttempt, ...] = ()
    """Those that are over and had an instance, oldest first."""
    started_at: datetime | None = None
    """When it began to run for the first time."""
    ended_at: datetime | None = None
    cells_done: int = 0
    cells_total: int = 0
    has_result: bool = False
    source_bytes: int = 0
    """What it executes takes so much in the store; that of an array counts once. 0 in records from
    before."""
    result_bytes: int = 0
    """Its result takes so much in the store."""
    delivered: bool = False
    """Whether its result is in the home of its server."""
    is_cleared: bool = False
    """Whether nothing is left of it in EC2."""

    @property
    def kind(self) -> RunKind:
        """By its name."""
        return "notebook" if self.path.endswith(".ipynb") else "script"

    @property
    def home(self) -> str:
        """In the place of a server's name, in its leases, its home and the ledger."""
        return run_server(self.number)

    @property
    def source(self) -> int:
        """Number under which the store has what is executed: the runs of an array share it."""
        return self.array or self.number

    @property
    def spent_usd(self) -> float:
        """What the attempts that are over have cost in USD, as far as prices are known."""
        return sum(each.usd or 0.0 for each in self.attempts)

    def spot_price_at(self, now: datetime) -> float | None:
        """The spot price that it waits for, in USD/hour; None if it takes any price by now."""
        is_over = self.wait_until is not None and self.wait_until <= now
        return None if is_over else self.max_spot_usd_per_hour

    def terms(self, now: datetime) -> Terms:
        """What decides, by now, whether it can start."""
        left_usd = None if self.max_usd is None else self.max_usd - self.spent_usd
        zone = self.attempts[-1].zone if self.attempts else ""
        price = self.spot_price_at(now)
        return Terms(self.user, self.server, self.payer, self.profile, price, left_usd, zone)

    def place(self) -> QueuePlace:
        """As the queue sees it."""
        payer = self.payer or f"user:{self.user}"
        return QueuePlace(
            self.number, self.user, payer, self.array, self.array_at_once, self.not_before
        )


_RUN: Final = "/run/"


def run_server(number: int) -> str:
    """In the place of a server's name: no server can be called so, and no worker of one is."""
    return f"{_RUN}{number}"


def run_of_server(server: str) -> int:
    """The number of the run in the place of a server's name; 0 for a server."""
    return int(server.removeprefix(_RUN)) if server.startswith(_RUN) else 0


def deleted_server(server: str) -> str:
    """In the place of the name of a server that was deleted with its files: no server can be called
    so, and a new one of its name reaches none of its runs."""
    return f"{DELETED_SERVER}{server}"


def server_words(server: str) -> str:
    """`your server lab`, for its user; also of a server that was deleted."""
    name = server.removeprefix(DELETED_SERVER)
    deleted = "deleted " if server.startswith(DELETED_SERVER) else ""
    return f"your {deleted}server {name}" if name else f"your {deleted}default server"
