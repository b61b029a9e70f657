"""When what happens in a start: the marks from which its phases are derived.

Durations are monotonic where both ends are in this process. After a restart of the hub the wall
clock says how long ago a start was requested, and what was known of its instance is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...core.starts.phases import Marks
from ..model.cloud.instance import Instance, InstanceState
from ..model.leases.lease import Lease
from ..runtime.clock import Clock

KEPT_UNLISTED: Final = 300.0
"""Seconds for which the times of an instance that no listing shows stay in memory: a listing may
lag its launch by minutes."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A claim as it arrived."""

    at: float
    """On the hub's monotonic clock, in seconds, before anything of it was verified."""
    agent_seconds: float | None = None
    """`wire.Claim.agent_seconds`."""
    boot_seconds: float | None = None
    """`wire.Claim.boot_seconds`."""


@dataclass(frozen=True, slots=True)
class _Boot:
    """One boot of an instance, by the hub's monotonic clock in seconds; None is unknown."""

    noted_at: float
    asked: float | None = None
    answered: float | None = None
    listed_running: float | None = None
    claim: Arrival | None = None

    @property
    def agent_started(self) -> float | None:
        return None if self.claim is None else _before(self.claim.at, self.claim.agent_seconds)

    @property
    def running(self) -> float | None:
        """A kernel that had started ran, also where the next listing showed it later."""
        said = None if self.claim is None else self.claim.boot_seconds
        known = (self.listed_running, _before(self.agent_started, said))
        return min((at for at in known if at is not None), default=None)


def _before(at: float | None, seconds: float | None) -> float | None:
    """So many seconds earlier; None where either is unknown, and where that is no finite number,
    which PostgreSQL's JSON cannot store."""
    if at is None or seconds is None:
        return None
    earlier = at - seconds
    return earlier if math.isfinite(earlier) else None


class StartTimes:
    """The times of starts in progress, and of the instances that may serve them. In memory: what a
    start has reached is stored with its lease."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requested: dict[str, float] = {}
        """By lease id."""
        self._bought: dict[str, str] = {}
        """Lease id -> the instance that was bought for it."""
        self._asked: dict[str, float] = {}
        """By client token, until the call is answered."""
        self._boots: dict[str, _Boot] = {}
        """By instance id."""

    def now(self) -> float:
        """The hub's monotonic clock in seconds."""
        return self._clock.monotonic()

    # --- instances ---

    def launch_asked(self, client_token: str) -> None:
        """The hub begins a launch call, and may still have to wait for EC2's rate limit; one that
        is repeated is the same call."""
        self._asked.setdefault(client_token, self.now())

    def launch_answered(self, client_token: str, instance_ids: Iterable[str]) -> None:
        """EC2 has answered it, with these instances."""
        asked, now = self._asked.pop(client_token, None), self.now()
        for instance_id in instance_ids:
            self._boots[instance_id] = _Boot(now, asked, answered=now)

    def started_again(self, instance_id: str, asked: float) -> None:
        """EC2 starts a stopped instance, by a call that was sent at `asked`."""
        now = self.now()
        self._boots[instance_id] = _Boot(now, asked, answered=now)

    def listed(self, listing: Mapping[str, Instance]) -> None:
        """A complete listing, by instance id. Its resolution is the interval of listings."""
        now = self.now()
        for instance_id, boot in list(self._boots.items()):
            instance = listing.get(instance_id)
            if instance is None and now - boot.noted_at > KEPT_UNLISTED:
                del self._boots[instance_id]
            runs = instance is not None and instance.state is InstanceState.RUNNING
            if runs and boot.listed_running is None:
                self._boots[instance_id] = replace(boot, listed_running=now)

    def claimed(self, instance_id: str, arrival: Arrival) -> None:
        """An instance of ours has claimed; only the first claim of a boot counts."""
        boot = self._boots.get(instance_id) or _Boot(self.now())
        if boot.claim is None:
            self._boots[instance_id] = replace(boot, claim=arrival)

    # --- starts ---

    def requested(self, lease: Lease) -> float:
        """When a start was requested, on the monotonic clock in seconds."""
        known = self._requested.get(lease.lease_id)
        if known is None:
            ago = max((self._clock.now() - lease.requested_at).total_seconds(), 0.0)
            known = self._requested[lease.lease_id] = self.now() - ago
        return known

    def seconds(self, lease: Lease) -> float:
        """Since its request."""
        return self.now() - self.requested(lease)

    def bought(self, lease: Lease, instance_id: str) -> Marks:
        """The marks of a start for which EC2 has launched an instance."""
        self._bought[lease.lease_id] = instance_id
        return self._with_boot(lease, instance_id)

    def granted(self, lease: Lease, instance_id: str, considered: float) -> Marks:
        """The marks of a start that gets this instance.

        One that had claimed before waited for a start: nothing of its boot is part of this one.
        `considered` is when its claim was looked at with this result, on the monotonic clock.
        """
        requested, granted = self.requested(lease), self.seconds(lease)
        boot = self._boots.get(instance_id)
        claim = boot.claim if boot else None
        if claim is None or claim.at - requested < lease.marks.lost:
            asked = considered - requested
            return Marks(asked=asked, granted=granted, lost=lease.marks.lost)
        return replace(
            self._with_boot(lease, instance_id), claimed=claim.at - requested, granted=granted
        )

    def sent_back(self, lease: Lease) -> Marks:
        """The marks of a start that has lost its instance and waits for another one."""
        self._bought.pop(lease.lease_id, None)
        return Marks(lost=self.seconds(lease))

    def ended(self, lease: Lease) -> Marks:
        """The marks of a start that ends before its notebook listens."""
        marks = lease.marks
        if marks.granted is None and (instance_id := self._bought.get(lease.lease_id)):
            marks = self._with_boot(lease, instance_id)
        marks = replace(marks, ended=self.seconds(lease))
        self.forget(lease.lease_id)
        return marks

    def forget(self, lease_id: str) -> None:
        """Its start is over."""
        self._requested.pop(lease_id, None)
        self._bought.pop(lease_id, None)

    def _with_boot(self, lease: Lease, instance_id: str) -> Marks:
        """With what is known of the boot; what an earlier process stored stays."""
        boot = self._boots.get(instance_id)
        if boot is None:
            return lease.marks
        requested = self.requested(lease)
        known = {
            "asked": boot.asked,
            "answered": boot.answered,
            "running": boot.running,
            "agent_started": boot.agent_started,
        }
        since = {name: at - requested for name, at in known.items() if at is not None}
        return replace(lease.marks, **since)
