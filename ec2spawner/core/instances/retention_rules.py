"""Which instances are kept for their user after a stop, who may take one, and when it goes. Pure.

A *kept* instance lingers (it runs and waits a few minutes, so that a restart is no boot) or is
stopped (its own disk waits, for days). It is for the same server of the same user and never for
anybody else. One that is kept *ahead* lingers for a user who is expected, before their start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ...wire import Market, Then
from .matching import Need, Supply

LINGERS_AFTER: Final = frozenset({"user", "hub"})
"""Reasons of a stop after which a restart may follow. An idle server that lingered would only be
idle for longer."""

STOPS_AFTER: Final = frozenset({"user", "admin", "hub", "idle", "max-age"})
"""Reasons of a stop that say nothing against the instance: "Stop all" on an admin's page takes
nobody's disk away. One that failed or was lost is not worth keeping for the first time, and EC2
takes an interrupted one away."""

FAILURES: Final = frozenset({"failed", "lost"})
"""Reasons that take away no disk that was kept once: its user has been promised it."""

CLAIM_SILENCE: Final = 180.0
"""Seconds awake. A bound instance without a lease that has not claimed for so long has a dead
agent: claims are repeated at least every 55 s."""


OF_POOL: Final = "the pool"
"""In place of a lease's id, in the names of costs of what waits stopped in the warm pool."""


@dataclass(frozen=True, slots=True)
class AfterStop:
    """What the admin wants for a server's instance once the server has stopped."""

    then: Then = "terminate"
    seconds: float = 0.0
    """How long it is kept."""
    per_user: int = 0
    """So many stopped instances may a user have at a time."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An instance that waits for its user, or stopped in the warm pool for any. Stored before
    anything is done about it."""

    instance_id: str
    user: str
    """Empty for one of the warm pool."""
    server: str
    lease_id: str
    """Of the lease whose end it outlives; empty where it has had none, and `OF_POOL` where it waits
    for any user."""
    profile: str
    """Slug."""
    profile_name: str
    then: Then
    """`linger` or `stop`."""
    fit_key: str
    """A lease fits when it has the same: see `provisioner.model.launch_key.fit_key_of`."""
    kept_at: datetime
    until: datetime
    launched_at: datetime
    """EC2's LaunchTime when it was kept, or stopped again; a start gives it a later one."""
    disk_gib: int
    started_for: str = ""
    """Id of the lease for which we have asked EC2 to start it, last; empty for none."""
    asked_at: datetime | None = None
    """When that was stored: before the call."""
    disk_usd_per_month: float | None = None
    """What its disks cost, as it was known last; None is unknown."""
    payer: str = ""
    """Who pays for the lease that it outlives, such as `group:research`; empty is its user."""

    @property
    def is_of_pool(self) -> bool:
        """Whether it waits for any user: a start that it fits may take it."""
        return not self.user

    @property
    def is_ahead(self) -> bool:
        """Whether it waits for a user who is expected, and has had none yet: it fills a place of
        the warm pool."""
        return bool(self.user) and not self.lease_id


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of an instance, and why it is not what the admin wants, for people."""

    then: Then
    why_not: str = ""


def decide(
    after: AfterStop,
    reason: str,
    *,
    market: Market,
    agent_can: bool,
    was_kept: bool,
    reclaimed: bool,
    stopped_already: int,
) -> Decision:
    """What becomes of the instance of a server that is being stopped for `reason`.

    `agent_can`: its agent knows that an instance may be kept. `was_kept`: it was stopped for its
    user before this server. `reclaimed`: EC2 has announced that it reclaims the instance.
    `stopped_already` counts the user's other stopped instances.
    """
    if after.then == "terminate":
        return Decision("terminate")
    stops_after = STOPS_AFTER | FAILURES if was_kept else STOPS_AFTER
    if reason not in (LINGERS_AFTER if after.then == "linger" else stops_after):
        return Decision("terminate")
    if not agent_can:
        return Decision("terminate", "its image has an ec2spawner that is too old for it")
    if reclaimed:
        return Decision("terminate", "AWS is reclaiming it")
    if after.then == "stop" and market is Market.SPOT:
        return Decision("terminate", "AWS cannot stop a spot machine and keep its disk")
    if after.then == "stop" and stopped_already >= after.per_user:
        kept = "one is" if stopped_already == 1 else f"{stopped_already} are"
        return Decision("terminate", f"{kept} kept for you already, and that is the limit here")
    return Decision(after.then)


def may_take(kept: Kept, machine: Supply, need: Need, user: str, server: str, fit_key: str) -> bool:
    """True where this lease may have this instance. `machine` is what it is, `fit_key` the lease's.

    One that was requested in time may have it for as long as its start takes.
    """
    return (
        (user, server) == (kept.user, kept.server)
        and fit_key == kept.fit_key
        and need.requested_at < kept.until
        and machine.instance_types <= need.instance_types
        and machine.zones <= need.zones
        and machine.markets <= need.markets
    )


def why_surplus(
    kept: Kept, now: datetime, *, wanted: bool, elsewhere: bool, is_silent: bool
) -> str:
    """Why an instance that no lease may take just now shall go; empty while it shall stay.

    `wanted`: the configuration still keeps such instances. `elsewhere`: its server has another
    instance, or is getting one. `is_silent`: its agent should have spoken.
    """
    if now >= kept.until:
        return "its time is over"
    if elsewhere:
        return "its server has another machine"
    if not wanted:
        return "the configuration no longer keeps it"
    if is_silent:
        return "its agent has fallen silent"
    return ""


def moved_with_clock(kept: Kept, by: timedelta, now: datetime) -> Kept:
    """The same after the hub's clock was set `by` so much: what was to be kept for days still is.

    From now on never for longer than its whole time: a clock that was wrong by years when the hub
    began keeps nothing for years.
    """
    lasts = kept.until - kept.kept_at
    kept_at = min(kept.kept_at + by, now)
    return replace(kept, kept_at=kept_at, until=min(kept.until + by, now + lasts))


def may_rebind(kept: Kept, bound_at: datetime | None, pending_time: datetime) -> bool:
    """True where another key may speak for the instance: a new boot has a new agent.

    Only where we asked for the start, once for each asking, and with an identity document that
    EC2 made after it: `pending_time` is the document's, and by EC2's clock as `launched_at` is.
    """
    return (
        kept.then == "stop"
        and kept.asked_at is not None
        and (bound_at is None or bound_at < kept.asked_at)
        and is_of_a_later_boot(kept, pending_time)
    )


def is_of_a_later_boot(kept: Kept, pending_time: datetime) -> bool:
    """False for an identity document from before the stop, by EC2's clock. A claim with such a one
    may still be waiting in the hub when its agent is long gone."""
    return pending_time > kept.launched_at
