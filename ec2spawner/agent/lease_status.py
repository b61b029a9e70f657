"""The status of a lease while its notebook runs: from signals to idleness, heartbeats and states.

No I/O: `lease_run.py` passes observations and responses in, and sends heartbeats and states.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ..core.alarms.unattended import is_unattended
from ..core.idle.activity import Signals
from ..core.idle.extension import keep_choices
from ..core.idle.stop_decision import Past, assess, stop_at
from ..core.sleep.step_budgets import is_save_due
from ..telemetry import Sampler
from ..wire import (
    PROTOCOL,
    AdminMessage,
    AgentState,
    Cost,
    DiskUse,
    Heartbeat,
    HeartbeatResponse,
    Idleness,
    IdlePolicy,
    LeaseGrant,
    Limit,
    Observation,
    ScheduledEvent,
    Sentence,
    SleepOrder,
    Stop,
    Telemetry,
)
from ..wire.sleep import MAX_BYTES

OBSERVATION_LIMIT = timedelta(seconds=60)
"""The last observation of the extension counts for this long. After that only terminals, GPU and
CPU determine idleness, and the whole `server_seconds` still has to pass."""

NEAR = timedelta(seconds=90)
"""Activity is reported at once if the deadline that the hub knows is nearer than this. Otherwise
the next heartbeat is early enough."""


END_SECONDS = 10.0
"""For ending the processes of a lease, and for the instance to shut down."""

DEFAULT_SESSION_BYTES = 50 * 2**30
"""For a hub that does not set it."""


class LeaseStatus:
    """Idleness and cost of one lease, from the latest signals and hub responses."""

    def __init__(
        self,
        grant: LeaseGrant,
        instance_type: str,
        sampler: Sampler,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grant = grant
        self._instance_type = instance_type
        self._sampler = sampler
        self._now = now
        self._monotonic = monotonic
        self._started_at = now()
        self._observation: Observation | None = None
        self._observed_at = 0.0
        self._woken_at: datetime | None = None
        """Until when a session was seen being woken."""
        self._past: Past | None = None
        self._assessed_at = 0.0
        self._reported: datetime | None = self._started_at
        self.policy = grant.idle
        self.cost: Cost | None = None
        self.extended_until: datetime | None = None
        self.extended_by = ""
        self.stop: Stop | None = None
        self.message: AdminMessage | None = None
        self.undelivered_runs = 0
        self._ends_at = math.inf
        """On the monotonic clock."""
        self.state_seen = 0
        self.hub_reachable = True
        self.full_disks: list[Sentence] = []
        self.disks: list[DiskUse] = []
        self.interruption_at: datetime | None = None
        self.rebalance_at: datetime | None = None
        self.scheduled_event: ScheduledEvent | None = None
        self.sleep: SleepOrder | None = None
        self.max_session_bytes = max_session_bytes(grant)
        self.has_stopped = False
        """Whether the hub has accepted that."""
        self.home_released = False
        """Whether the home is not mounted any more."""
        self.dirty_bytes: int | None = None
        """While the home is flushed for the end: what the instance has yet to write."""
        self._is_listening = False
        self._own_stop: Stop | None = None
        self.idleness = Idleness()
        self.assess()

    def observe(self, observation: Observation) -> None:
        """Apply an observation of the notebook extension."""
        was_waking = self._observation is not None and self._observation.waking
        if observation.waking or was_waking:  # the last of it is seen with what follows
            self._woken_at = self._now()
        self._observation = observation
        self._sampler.see_kernels(observation.kernels)
        self._observed_at = self._monotonic()

    def begin(self) -> None:
        """Count idle time and age from now, the notebook listens; or from before, where the server
        was idle when it left another instance."""
        self._is_listening = True
        self._started_at = self._now() - timedelta(seconds=self._grant.idle_seconds)
        self._past = None
        self.assess()

    def follow(self, policy: IdlePolicy) -> None:
        """Apply a policy."""
        self.policy = policy
        self.assess()

    def learn(self, answer: HeartbeatResponse) -> None:
        """Apply a response of the hub."""
        self.policy = answer.idle
        self.cost = answer.cost
        self.extended_until = answer.extended_until
        self.extended_by = answer.extended_by
        self.stop = answer.stop or self._own_stop
        self.message = answer.message
        self.undelivered_runs = answer.undelivered_runs
        left = answer.ends_in_seconds
        self._ends_at = math.inf if left is None else self._monotonic() + left
        self.state_seen = answer.state
        self.assess()

    def reclaimed_in(self) -> float:
        """Seconds until EC2 reclaims the instance; infinite without a notice."""
        at = self.interruption_at
        return math.inf if at is None else (at - self._now()).total_seconds()

    def stop_for_reclaim(self) -> Stop | None:
        """The stop that the agent gives itself when EC2 is about to reclaim the instance and the
        hub has ordered none.

        None as long as it is not due, and while there is nothing to save: before the notebook
        listens, where the home ends with the instance, and on a worker.
        """
        is_due = self._is_listening and is_save_due(self.reclaimed_in())
        has_session = self._grant.home.kind != "none" and not self._grant.is_worker
        if self.stop is None and is_due and has_session:
            self.stop = self._own_stop = Stop(
                reason="interruption",
                message="AWS is reclaiming this instance.",
                sleep="interruption",
                save_seconds=max(self.reclaimed_in(), 0.0),
            )
            return self._own_stop
        return None

    def assess(self) -> bool:
        """Assess idleness now; True if the hub should be notified at once."""
        now, monotonic = self._now(), self._monotonic()
        elapsed = monotonic - self._assessed_at if self._past else None
        self.idleness, self._past = assess(self._signals(), self.policy, now, self._past, elapsed)
        self._assessed_at = monotonic
        return self._is_news(self.idleness.idle_since, now)

    def idle_seconds(self) -> float:
        """Seconds since the last activity; 0 while something is busy."""
        since = self.idleness.idle_since
        return (self._now() - since).total_seconds() if since else 0.0

    def is_extended(self) -> bool:
        """Whether an extension by the user is still in effect."""
        return self.extended_until is not None and self.extended_until > self._now()

    def is_too_old(self) -> bool:
        """Whether the server has reached its maximum age, which ends it even while busy."""
        limit = self.policy.max_age_seconds
        return limit > 0 and (self._now() - self._started_at).total_seconds() >= limit

    def must_end(self) -> bool:
        """Whether the time that the hub has named is nearly over, for all processes have to end
        within it."""
        return self._monotonic() >= self._ends_at - END_SECONDS

    def stopping_limit(self) -> Limit | None:
        """The limit of spending or use whose announced stop comes first; None if none is."""
        limits = self.cost.limits if self.cost else []
        announced = [(each.stop_at, place) for place, each in enumerate(limits) if each.stop_at]
        return limits[min(announced)[1]] if announced else None

    def heartbeat(self, hold_seconds: float) -> Heartbeat:
        """A heartbeat with idleness as of now."""
        self.assess()
        self._reported = self.idleness.idle_since
        telemetry, seen = self._sampler.latest, self._fresh_observation()
        return Heartbeat(
            protocol=PROTOCOL,
            sent_at=self._now(),
            idle_since=self.idleness.idle_since,
            busy_because=self.idleness.busy_because,
            interruption_at=self.interruption_at,
            rebalance_at=self.rebalance_at,
            telemetry=for_hub(telemetry),
            gpu_unattended=is_unattended(
                telemetry, seen.kernels if seen else None, self.policy.gpu_busy_percent
            ),
            disks=self.disks,
            has_stopped=self.has_stopped,
            home_released=self.home_released,
            dirty_bytes=self.dirty_bytes,
            hold_seconds=hold_seconds,
            state_seen=self.state_seen,
        )

    def state(self) -> AgentState:
        """The state that the extension shows: cost, policy, idleness, times for *Keep until*."""
        return AgentState(
            at=self._now(),
            profile=self._grant.profile,
            instance_type=self._instance_type,
            cost=self.cost,
            idle_policy=self.policy,
            idleness=self.idleness,
            extended_until=self.extended_until,
            extended_by=self.extended_by,
            keep=keep_choices(
                self.policy,
                self._started_at,
                self.idleness.idle_since,
                self.extended_until,
                self._now(),
                limit.stop_at if (limit := self.stopping_limit()) else None,
            ),
            telemetry=self._sampler.latest,
            stop=self.stop,
            hub_reachable=self.hub_reachable,
            full_disks=self.full_disks,
            disks=self.disks,
            interruption_at=self.interruption_at,
            rebalance_at=self.rebalance_at,
            scheduled_event=self.scheduled_event,
            sleep=self.sleep,
            continues=self._grant.continues,
            files_kept=self._grant.home.kind != "none",
            message=self.message,
            undelivered_runs=self.undelivered_runs,
        )

    def _signals(self) -> Signals:
        gpu, cpu = self._sampler.readings()
        seen, fresh = self._observation, self._fresh_observation()
        is_waking = fresh is not None and fresh.waking
        woken_at = self._now() if is_waking else self._woken_at
        if woken_at is not None:
            gpu = [each for each in gpu if each.at > woken_at]
            cpu = [each for each in cpu if each.at > woken_at]
        return Signals(
            started_at=self._started_at,
            kernels=fresh.kernels if fresh else (),
            terminals=self._sampler.terminals(),
            last_input=seen.last_input if seen else None,
            extended_until=self.extended_until,
            gpu=gpu,
            cpu=cpu,
            workers=self._sampler.workers,
            is_waking=is_waking,
            woken_at=woken_at,
        )

    def _fresh_observation(self) -> Observation | None:
        age = self._monotonic() - self._observed_at
        return self._observation if age <= OBSERVATION_LIMIT.total_seconds() else None

    def _is_news(self, idle_since: datetime | None, now: datetime) -> bool:
        if idle_since == self._reported:
            return False
        if idle_since is None or self._reported is None:
            return True
        deadline = stop_at(self.policy, self._started_at, self._reported, None)
        return deadline is not None and deadline - now < NEAR


def max_session_bytes(grant: LeaseGrant) -> int:
    """How much of the home's disk a sleeping session may take; 0 saves none.

    A home that ends with the instance keeps no session.
    """
    if grant.home.kind == "none":
        return 0
    text = grant.environment.get(MAX_BYTES, "")
    return int(text) if text.isdecimal() else DEFAULT_SESSION_BYTES


def for_hub(telemetry: Telemetry | None) -> Telemetry | None:
    """The telemetry without names of notebooks and programs, which the hub does not need."""
    return telemetry and telemetry.model_copy(update={"workers": []})
