"""Agent -> hub: the life of a lease; steps, heartbeats, extension, stop."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .idle import IdlePolicy
from .message import (
    PROTOCOL,
    Market,
    MeasuredSeconds,
    Message,
    ProtocolNumber,
    Seconds,
    ShortText,
    Then,
)
from .sleep import SavedSession, Trigger
from .telemetry import MAX_DISKS, DiskUse, Telemetry

SAVE_SECONDS = 5.0
"""How long a stop waits, at most, for open pages to save their documents. The agent measures it."""


MAX_MESSAGE_LENGTH = 115
"""Characters of an admin's message: JupyterLab cuts a toast after 140, title included."""


class Step(StrEnum):
    """The steps of a start, in order. `progress()` shows them with their usual times."""

    MOVE = "move"
    """Copying the home to another zone, where its user asked for that; most starts have none."""
    REQUEST = "request"
    """Looking for an instance: from the request to EC2's answer."""
    BOOT = "boot"
    """From EC2's answer to the agent's claim."""
    HOME = "home"
    """Attaching and mounting the home."""
    NOTEBOOK = "notebook"
    """Starting the notebook server until it listens."""
    READY = "ready"


class AgentEvent(Message):
    """`POST leases/{id}/events`."""

    step: Literal["home", "notebook", "ready", "failed", "stopped"]
    """`home`/`notebook`: that step has begun; `stopped`: the notebook has ended."""
    at: AwareDatetime
    message: ShortText = ""
    """For people; for `failed` the cause with the last lines of the log, for `notebook` what could
    not be mounted."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """With `ready`: where the notebook listens on the instance's private address."""
    listen_seconds: MeasuredSeconds = None
    """With `ready`: from the start of the notebook's process until it listened; at most a day."""
    session: SavedSession | None = None
    """With `stopped`: what sleeps in the home; None where nothing was saved."""
    interruption_at: AwareDatetime | None = None
    """With `stopped`: as in `Heartbeat`, for a hub that no heartbeat has reached since."""
    home_released: bool = False
    """With `stopped` and `failed`: whether the home was flushed and unmounted, or never mounted.
    Only then the hub detaches its volume: under a mounted file system, what the instance has not
    written yet is lost with the device."""


SHUT_DOWN = "The machine was shut down."
"""`AgentEvent.message` with `stopped`: something else than the hub ends the instance."""


class Heartbeat(Message):
    """`POST leases/{id}/beat`: the state of an instance, at least once a minute.

    The hub may answer late (`hold_seconds`): the answer is how the hub reaches the instance
    at once when a stop is due. An agent with news drops the held beat and sends another.
    """

    protocol: ProtocolNumber
    sent_at: AwareDatetime | None = None
    """The agent's clock when it sent this: `sent_at - idle_since` is how long the server has been
    idle by one clock, however the hub's differs."""
    idle_since: AwareDatetime | None = None
    """Since when the server is idle; None while it is in use."""
    busy_because: ShortText = ""
    """For people: what keeps the server on, or empty."""
    interruption_at: AwareDatetime | None = None
    """When EC2 reclaims this spot instance; None without a notice."""
    rebalance_at: AwareDatetime | None = None
    """When EC2 began to recommend leaving this spot instance, because an interruption is more
    likely; None without a recommendation. It ends nothing."""
    telemetry: Telemetry | None = None
    gpu_unattended: bool | None = None
    """Whether a program that belongs to no kernel and no terminal uses a GPU; None if unknown."""
    disks: Annotated[list[DiskUse], Field(max_length=MAX_DISKS)] = []
    has_stopped: bool = False
    """Whether the hub has accepted the report `stopped`: one that has been restarted since would
    wait for it."""
    home_released: bool = False
    """With `has_stopped`: as in `AgentEvent`."""
    dirty_bytes: Annotated[int, Field(ge=0, le=2**50)] | None = None
    """While the home is flushed and unmounted at the end of a lease: what the instance has yet to
    write to its disks. The hub waits for that, for `core.sleep.step_budgets.FLUSH_SECONDS` more."""
    hold_seconds: Annotated[float, Field(ge=0, le=55)] = 0.0
    state_seen: int = 0
    """The last `HeartbeatResponse.state`; the hub answers at once when it has a newer one."""


MAX_LIMITS = 18
"""Three scopes bind a server, its user, its payer and the hub, each by six limits at most."""


class Limit(Message):
    """A limit that binds a server. Amounts in USD, USD per hour, GPU-hours or servers."""

    scope: ShortText
    """Whose: `user`, `group`, `project` or `hub`."""
    name: ShortText = ""
    """Of the user, group or project."""
    kind: ShortText
    """`usd_per_month`, `usd_per_window`, `credit_usd` or `gpu_hours_per_month`; `usd_per_hour` and
    `servers` only while more runs than they allow, which stops nothing."""
    percent: Annotated[int, Field(ge=0)]
    """How much is used."""
    threshold: Annotated[int, Field(ge=0, le=100)] = 0
    """The highest of 25, 50, 75 and 100 that is passed; 0 is none."""
    limit: Annotated[float, Field(ge=0)] | None = None
    """None for the hub: what all users together may spend is not for each to see."""
    used: Annotated[float, Field(ge=0)] | None = None
    at_least: bool = False
    """Not all that is used has a known price: `used` and `percent` are lower bounds."""
    days: int | None = None
    """Length of the window."""
    renews: date | None = None
    """The first day on which more is left; None is never, or not known."""
    passed_on: date | None = None
    """Of a window or a credit: the day of this month since which `threshold` has been passed
    without a break; None of other kinds."""
    reached_at: AwareDatetime | None = None
    """When nothing is left at the present rate; None if it renews before."""
    stops: bool = False
    """Whether the server stops when it is used up."""
    stop_at: AwareDatetime | None = None
    """When the server stops, once that is announced."""


class HourlyPrice(Message):
    """What a server costs in an hour, with disks and address, and where it is bought."""

    usd_per_hour: Annotated[float, Field(ge=0)]
    market: Market


class PriceChange(Message):
    """Why a server does not cost what its user saw last."""

    why: Literal["start", "move", "rise"]
    """`start`: it was not to be had as the page had shown it. `move`: it left an instance that cost
    something else. `rise`: the price of its instance has risen."""
    at: AwareDatetime
    before: HourlyPrice
    now: HourlyPrice
    asked: HourlyPrice | None = None
    """Of a move: what was asked for first, as its user was shown it, if that is another price."""


class Credit(Message):
    """How much less than was shown `Cost.today_usd` is for one reason."""

    usd: Annotated[float, Field(ge=0)]
    why: Literal["free-hour", "earlier-end", "correction"]
    """`free-hour`: AWS does not charge for a spot instance that it reclaims in its first hour.
    `earlier-end`: an instance had ended before this was known. `correction`: a price was another
    one."""
    at: AwareDatetime


class WorkersCost(Message):
    """Money of all workers that a server's cluster has had since the server's start, which `Cost`
    does not contain otherwise. Unknown is None, never 0."""

    count: Annotated[int, Field(ge=0)] = 0
    """Workers that have not ended."""
    running: Annotated[int, Field(ge=0)] = 0
    """Those of them that have an instance, which is paid."""
    usd: Annotated[float, Field(ge=0)] | None = None
    """Cost so far, at `as_of`, with that of workers that have ended."""
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price now, of all together."""
    known_usd: Annotated[float, Field(ge=0)] | None = None
    """As `usd`, as far as prices are known; None if none is."""
    known_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    as_of: AwareDatetime
    """As in `Cost`, of the worker that started last."""


class Cost(Message):
    """Money of one server, on all instances since its user started it. Unknown is None, never 0."""

    usd: Annotated[float, Field(ge=0)] | None = None
    """Cost so far, at `as_of`."""
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price now. The reader adds it for the time since `as_of`."""
    known_usd: Annotated[float, Field(ge=0)] | None = None
    """As `usd`, as far as prices are known: a lower bound where that is None; None if none is."""
    known_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """As `usd_per_hour`, as far as prices are known."""
    beside_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """What of `usd_per_hour` is not for the instance: for its own disks and public address."""
    beside_of: Annotated[list[ShortText], Field(max_length=8)] = []
    """For which of them: some of `disk` and `address`."""
    unknown_prices_of: Annotated[list[ShortText], Field(max_length=8)] = []
    """What has no known price now: some of `instance`, `disk` (its own disks) and `address`."""
    as_of: AwareDatetime
    """Up to when `usd` counts: in the first minute the end of that minute, which is paid whole."""
    since: AwareDatetime
    """When billing began, on its first instance."""
    estimate: bool = True
    """True unless the figure comes from a bill."""
    market: Market | None = None
    on_demand_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    price_source: ShortText = ""
    price_change: PriceChange | None = None
    """None where it costs what its user saw last."""
    saved_usd: float | None = None
    """What the same time on demand would have cost more; None where a price is unknown."""
    today_usd: Annotated[float, Field(ge=0)] | None = None
    """All servers of this user since midnight in the hub's time zone, this one included, at
    `as_of`."""
    month_usd: Annotated[float, Field(ge=0)] | None = None
    """The same since the first of the month."""
    known_today_usd: Annotated[float, Field(ge=0)] | None = None
    """As `today_usd`, as far as prices are known; None if none is."""
    known_month_usd: Annotated[float, Field(ge=0)] | None = None
    credits: Annotated[list[Credit], Field(max_length=3)] = []
    """One for each reason; empty where today's amount has not fallen."""
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    """What the user may spend in a month; None where no budget is set."""
    payer: ShortText = ""
    """To whom the server is charged: `user:ann`, `group:research` or `project:nlp`."""
    used_usd: Annotated[float, Field(ge=0)] | None = None
    """What of `usd` was spent on time with work in it."""
    idle_usd: Annotated[float, Field(ge=0)] | None = None
    """The same without; the rest is for start and stop."""
    limits: Annotated[list[Limit], Field(max_length=MAX_LIMITS)] = []
    """All that bind the server, the one that is reached first at the front."""
    workers: WorkersCost | None = None
    """None where the server has had no workers; every other sum but `today_usd` and `month_usd` is
    without them."""


class Stop(Message):
    """Why a server is stopped: the words the user reads at the next login."""

    reason: Literal[
        "user",
        "idle",
        "admin",
        "budget",
        "interruption",
        "max-age",
        "hub",
        "capacity",
        "quota",
        "failed",
        "lost",
    ]
    """`capacity`: EC2 had no machine of the kind. `quota`: the account may not have one more.
    `hub`: a service asked for it, or JupyterHub knows of no such server."""
    message: ShortText = ""
    by: ShortText = ""
    """Name of the admin or service that requested it; empty otherwise."""
    then: Then = "terminate"
    """Unless `terminate`: after `stopped` the agent claims again with its key, and the hub decides
    what becomes of the instance."""
    sleep: Trigger | None = None
    """Save the session's variables first, and why; None saves documents only."""
    save_seconds: Seconds = 0.0
    """How long saving the variables may take; how long it took, where its user has ended it."""


class AdminMessage(Message):
    """What an admin wants the user of a server to read now."""

    id: ShortText
    """The same message has the same id: a page shows it once."""
    text: Annotated[ShortText, Field(max_length=MAX_MESSAGE_LENGTH)]
    """Plain text in one line."""


class HeartbeatResponse(Message):
    """Hub -> agent, the response to a heartbeat: cost, policy, and the stop when it is due."""

    protocol: int = PROTOCOL
    state: int
    """Grows with every change that the agent should know."""
    cost: Cost
    idle: IdlePolicy
    extended_until: AwareDatetime | None = None
    """Somebody asked to keep the server until then."""
    extended_by: ShortText = ""
    """Name of the admin or service that did; empty for the server's user."""
    stop: Stop | None = None
    """Set: save, stop the notebook, unmount, report `stopped`."""
    message: AdminMessage | None = None
    """For the user's open pages; None once it is withdrawn or too old."""
    undelivered_runs: Annotated[int, Field(ge=0)] = 0
    """Runs that have ended and whose result belongs into the home of this server."""
    ends_in_seconds: Seconds | None = None
    """The agent ends the lease by itself by then, whether it reaches the hub or not: a run has used
    up its cost cap, or its deadline is over. None for any time."""


class ExtendRequest(Message):
    """`POST leases/{id}/extend` on the owner's behalf."""

    seconds: Annotated[float, Field(gt=0, le=30 * 86400)]


class ExtendResponse(Message):
    """Hub -> agent: until when the server is kept now."""

    extended_until: AwareDatetime
    bounded: bool = False
    """True where the policy allowed less than was asked for."""


class IdleRequest(Message):
    """`POST leases/{id}/idle` on the owner's behalf: stop after so long without work."""

    server_seconds: Annotated[float, Field(gt=0, le=30 * 86400)]


class IdleResponse(Message):
    """Hub -> agent: the policy in force after the user's choice of an idle time."""

    idle: IdlePolicy
    bounded: bool = False
    """True where the policy allowed less, or more, than was asked for."""


class ServerEnd(Message):
    """Hub -> a page that is still open: whether its server runs, and why it was stopped."""

    running: bool
    """Whether the server is ready now, perhaps under a later lease."""
    continues: bool = False
    """Whether it is about to run again, on another instance and at the same address."""
    asleep: bool = False
    """Whether the next start can wake a session."""
    stop: Stop | None = None
    """Of the lease that the page was opened under; None while nothing has ended it."""
    ended_at: AwareDatetime | None = None


class StopRequest(Message):
    """`POST leases/{id}/stop` on the owner's behalf."""

    reason: Literal["user"] = "user"
    sleep: bool = False
    """Save the session first; 409 where the server cannot."""
