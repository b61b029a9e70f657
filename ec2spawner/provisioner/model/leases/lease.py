"""The values the provisioner remembers: leases, intents, bindings, homes. All frozen.

A change is `dataclasses.replace(...)` followed by one write to the store; one that fails is
repeated by every pass, so what is in memory is what is stored or the next thing to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from typing import Final

from ....core.homes.zone_migration import Move
from ....core.instances.retention_rules import AfterStop, Kept
from ....core.ledger.cost_rows import CostSum
from ....core.ledger.gpu_use import GpuUse
from ....core.ledger.idle_spans import IdleSpan
from ....core.ledger.segments import Segment
from ....core.offers.launch_errors import LaunchError
from ....core.offers.spot_wait import Wait
from ....core.sleep.continuation import TakenOver
from ....core.sleep.rules import SleepRules
from ....core.starts.phases import Marks
from ....wire import IdlePolicy, Market, Step, Stop
from ..cloud.image import Image
from ..cloud.launch import LaunchRequest, LaunchSpec
from ..pool_override import SetByHand
from ..sleeping_session import SleepingSession
from .cluster import Cluster
from .denied_start import DeniedStart
from .mounts import Mounts
from .run import Run


class LeaseState(StrEnum):
    """The stages of a lease, in order; a failed one goes straight to the end."""

    WAITING = "waiting"
    """On the waiting list: no instance yet."""
    STARTING = "starting"
    """Holds an instance; home and notebook are on their way."""
    READY = "ready"
    """The notebook listens."""
    ENDING = "ending"
    """The agent was asked to save, stop and unmount."""
    ENDED = "ended"
    """The instance is released; final."""


OPEN = frozenset(LeaseState) - {LeaseState.ENDED}

LIVE = OPEN - {LeaseState.ENDING}
"""Of a lease that nothing has ended."""

ENDED_LATELY: Final = timedelta(days=30)
"""The newest ended lease of a server stays in memory so long. The store keeps all of them."""

INTERRUPTED_LATELY: Final = timedelta(days=1)
"""Interruptions that a restart of the hub restores."""


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One line of a start's story, for `progress()` and for usual durations. Instants in UTC."""

    step: Step
    at: datetime
    message: str
    detail: str = ""


class AttemptOutcome(StrEnum):
    """How a launch call of a start went."""

    ASKING = "asking"
    """No answer yet."""
    FOUND = "found"
    SOLD_OUT = "sold-out"
    QUOTA = "quota"
    """The account's limit."""
    BUSY = "busy"
    """EC2 throttles or fails; the same is asked again."""
    REFUSED = "refused"
    """Permission or configuration: an admin must fix it."""
    UNVERIFIED = "unverified"
    """AWS is still verifying the account; the same is asked again."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch call, as the person who waits for it sees it."""

    market: Market
    instance_types: tuple[str, ...]
    """Asked for, best first."""
    zones: tuple[str, ...]
    at: datetime
    """UTC."""
    usd_per_hour: float | None = None
    """The lowest price among what is asked for, USD/hour; once found, of what was found."""
    outcome: AttemptOutcome = AttemptOutcome.ASKING
    answer: str = ""
    """EC2's answer in words, such as `g4dn.xlarge in us-east-1b`, or which zones are sold out."""
    skipped_markets: tuple[Market, ...] = ()
    """Those of which something was left out."""
    skipped: str = ""
    """What was left out because it is known to be sold out, in words; empty for nothing."""
    asked_usd_per_hour: float | None = None
    """As `usd_per_hour` before anything was found."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One server's hold on one instance, from the request to the release."""

    lease_id: str
    user: str
    server: str
    """Server name; empty for the default server."""
    profile: str
    """The profile's slug."""
    profile_name: str
    """The profile's display name, as it was when the lease was requested."""
    spec: LaunchSpec
    launch_key: str
    home_kind: str
    home_gib: int
    idle: IdlePolicy
    state: LeaseState
    requested_at: datetime
    sealed_start: str = ""
    """Environment, command and API token of the notebook, sealed with a key of the hub."""
    instance_id: str | None = None
    token_sha256: str = ""
    """Hash of the lease token; the token itself is never stored."""
    url: str = ""
    """Where the notebook listens, set with READY."""
    assigned_at: datetime | None = None
    ready_at: datetime | None = None
    ended_at: datetime | None = None
    extended_until: datetime | None = None
    extended_by: str = ""
    """Name of the admin or service that keeps it on until then; empty for its user."""
    stop: Stop | None = None
    """Why it is ending or ended."""
    replaced: int = 0
    """How many instances died under it before it was ready."""
    events: tuple[StepEvent, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """The launch calls of this start, oldest first."""
    image: Image | None = None
    """What it boots, as EC2 described it at the request; `spec.image_id` is its id."""
    after_stop: AfterStop = field(default_factory=AfterStop)
    """What becomes of its instance when it ends in order."""
    on_retained: bool = False
    """Its instance was stopped and started again for it: no failure may take the disk away."""
    wait: Wait | None = None
    """Waits for what `spec` allows while that is sold out; None ends the start instead."""
    mounts: Mounts = field(default_factory=Mounts)
    """What its instance mounts besides a home on EBS and the data volumes of its spec."""
    segments: tuple[Segment, ...] = ()
    payer: str = ""
    """To whom it is charged, such as `group:research`; empty is its user."""
    stop_requested_at: datetime | None = None
    """When its stop began."""
    idle_spans: tuple[IdleSpan, ...] = ()
    """When it was idle, as far as it is known; the last may last."""
    gpu_use: tuple[GpuUse, ...] = ()
    """By day, as far as it was measured."""
    sleep: SleepRules = field(default_factory=SleepRules)
    """How its session is saved, and what follows an interruption."""
    continues: str = ""
    """Id of the lease whose server it continues on another instance; empty for none."""
    taken_over: TakenOver = field(default_factory=TakenOver)
    """What it has taken over from that lease."""
    marks: Marks = field(default_factory=Marks)
    """What its start has reached, and when."""
    cluster: Cluster | None = None
    """The workers that its user wants beside it; None where they never wanted any."""
    head: str = ""
    """Of a worker: id of the lease of the server that it works for. Empty for all others."""
    run: int = 0
    """Number of the run that it is an attempt of; 0 for all others."""
    waited: float = 0.0
    """Seconds of the hub's uptime for which its agent has been awaited, as far as that is stored:
    to be ready while it starts, to call once it is. Zero again with each change of its state."""

    @property
    def is_server(self) -> bool:
        """Whether a notebook server runs under it, which JupyterHub knows: False for the workers of
        a cluster and for runs."""
        return not self.head and not self.run

    @property
    def saves_session(self) -> bool:
        """Whether it is ending and its agent is to save the session before that."""
        is_to_save = self.stop is not None and self.stop.sleep is not None
        return is_to_save and self.state is LeaseState.ENDING

    @property
    def steps(self) -> Set[Step]:
        """The steps that have begun with the present instance, or while it was looked for."""
        events = takewhile(lambda event: event.step is not Step.REQUEST, reversed(self.events))
        return {event.step for event in events}


class IntentState(StrEnum):
    """What is known of a stored launch call."""

    OPEN = "open"
    """Stored, perhaps called, not answered: replayed after a crash."""
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Intent:
    """One launch call: stored before it is made. `request.client_token` is its id."""

    request: LaunchRequest
    launch_key: str
    state: IntentState
    created_at: datetime
    instance_ids: tuple[str, ...] = ()
    errors: tuple[LaunchError, ...] = ()

    @property
    def client_token(self) -> str:
        """EC2's idempotency token: the same token launches at most once."""
        return self.request.client_token

    @property
    def market(self) -> Market:
        """The one market that the call buys in."""
        return self.request.market


@dataclass(frozen=True, slots=True)
class Binding:
    """The agent's key that an instance is bound to: set by its first valid claim, for good."""

    instance_id: str
    key_sha256: str
    bound_at: datetime


TEMPORARY: Final = "temporary"
"""The kind of a home on EBS that is deleted once its server's lease has ended. Only a lease that
says so makes one; a home never becomes temporary later."""


FILES_COPIED: Final = "Your files are copied from"
"""Begins the message of the event that says from which server and of when."""


@dataclass(frozen=True, slots=True)
class Home:
    """A server's files. `volume_id` is None until the volume exists."""

    home_id: str
    user: str
    server: str
    kind: str
    size_gib: int
    created_at: datetime
    volume_id: str | None = None
    zone: str | None = None
    """Where the volume is, or is being made: set before it is asked for."""
    volume_token: str = ""
    """ClientToken of the volume; empty is the home's id."""
    made_from: str = ""
    """Id of the snapshot that the volume is made from or, where it begins as a copy of the home of
    another server of the user, of that home's volume; empty is a blank one."""
    used_at: datetime | None = None
    """When it was last attached or let go."""
    move: Move | None = None
    """To another zone, until it has come to its end."""
    delete_at: datetime | None = None
    """Its user or server was deleted for good: volume, snapshots and record go."""

    @property
    def is_temporary(self) -> bool:
        """Whether it is deleted with its server, and never copied."""
        return self.kind == TEMPORARY

    @property
    def is_moving(self) -> bool:
        """Whether its files are still being moved to another zone."""
        return self.move is not None and self.move.volume_id is None

    @property
    def next_zone(self) -> str | None:
        """The zone of its volume; while it moves, of the next one."""
        return self.move.zone if self.move is not None and self.is_moving else self.zone

    @property
    def is_copy(self) -> bool:
        """Whether it begins, or began, as a copy of the home of another server of the user. Then
        `created_at` is of when, once it has a volume."""
        return self.made_from.startswith("vol-")

    @property
    def is_being_copied(self) -> bool:
        """Whether it has no volume yet, because that is to be a copy."""
        return self.is_copy and self.volume_id is None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a store holds that still matters: read once, at start."""

    leases: tuple[Lease, ...] = ()
    """All that are not ENDED."""
    intents: tuple[Intent, ...] = ()
    """All that are younger than the window given to `load`, open ones of any age."""
    bindings: tuple[Binding, ...] = ()
    homes: tuple[Home, ...] = ()
    kept: tuple[Kept, ...] = ()
    """Instances that wait for their user."""
    ended_lately: tuple[Lease, ...] = field(default=())
    """The newest ended lease of each (user, server) that ended within `ENDED_LATELY`: why it
    stopped is shown at the next login."""
    continued: tuple[Lease, ...] = ()
    """The ended leases that an open one continues, directly or over others."""
    ended_workers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By id of an open or `continued` lease of a server: what its ended workers have cost as far as
    prices are known, in 1e-9 USD, and how many prices are unknown."""
    denied_starts: tuple[DeniedStart, ...] = ()
    """Starts that a limit refused lately."""
    pool_overrides: tuple[SetByHand, ...] = ()
    """What an admin has set of the warm pool by hand."""
    sleeping: tuple[SleepingSession, ...] = ()
    """What was saved last of the session of each server."""
    runs: tuple[Run, ...] = ()
    """Those that have not ended, or not long ago, by number."""
    last_run: int = 0
    """The highest number of a run; 0 for none."""
    interrupted: tuple[Lease, ...] = ()
    """Leases that ended within `INTERRUPTED_LATELY` because EC2 reclaimed their instance."""
    rehearsed: tuple[str, ...] = ()
    """Ids of instances that were interrupted on purpose lately."""
    costs: tuple[CostSum, ...] = ()
    """What has ended, by day, user and payer, since the day given to `load`."""
    storage_costs: tuple[CostSum, ...] = ()
    """What of `costs` is for homes and their snapshots, since that day."""
    storage_counted_until: datetime | None = None
    """Up to when homes and their snapshots are in the ledger; None if they never were."""
