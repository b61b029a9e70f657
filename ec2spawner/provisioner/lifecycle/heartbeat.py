"""The conversation with a running instance: beats in, cost and policy out, extensions.

An instance is its user's: a beat is hostile input. All it can change is what the hub believes
of that lease's idleness, within the policy's bounds.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ...core.idle import stop_decision as idle
from ...core.idle.policy import bounded, in_force
from ...core.ledger.charges import rate
from ...core.ledger.cost import known_usd
from ...core.ledger.gpu_use import MAX_GAP_SECONDS, GpuUse, add_use, gpu_percent
from ...core.ledger.idle_spans import record
from ...core.ledger.local_days import local_day
from ...core.sleep.continuation import with_age
from ...core.sleep.rules import SleepRules
from ...core.text.durations import in_words
from ...wire import (
    ExtendResponse,
    Heartbeat,
    HeartbeatResponse,
    IdlePolicy,
    IdleResponse,
    Stop,
    Telemetry,
)
from ..model.leases.lease import Lease, LeaseState
from ..runtime.cooperative_iteration import cooperatively
from ..state.agent_contact import Contact
from ..state.state import State
from .server_cost import ServerCosts

log = logging.getLogger(__name__)

WAKE_INTERVAL = 1.0
"""Seconds between two passes that one agent's beats can begin: passes come anyway."""

EXTENSION_STEP = timedelta(seconds=10)
"""An extension that moves the deadline by less changes nothing: each is a write to the store."""

CHOICE_PAUSE = 0.5
"""Seconds between two choices of a server's idle limit: each is a write to the store, and an agent
is its user's."""

LONGEST = 100 * 365 * 86400.0
"""Seconds, a hundred years: what a policy says beyond them means never, and would be no date."""

MESSAGE_SECONDS = 8 * 3600.0
"""An admin's message is shown for so long, also in pages that are opened later."""

GPU_HOUR = 3_600_000_000
"""In GPU-microseconds."""

SHORTEST_HOLD = 0.8
"""Of the time for which an agent lets a heartbeat be held. Answers that are due together bring the
next heartbeats together, for good, and each long turn of the event loop adds to them: with 2,000
servers a turn of 114 ms was measured after five minutes."""

HANG_UP_PAUSE = 6.0
"""Seconds in which an agent that has closed the connection of a heartbeat sends another one, unless
it has ended: one that has news does so at once, and one whose connection broke, as all do when the
proxy starts again, repeats the call after four seconds at most."""

HANG_UPS_APART = 600.0
"""Seconds between two hang-ups of a lease that are looked into: an agent may send as many as it
likes, and each has listings be frequent for a minute."""

UNHEARD_PAUSE = 30.0
"""Seconds between two looks at a lease of which nothing is heard; a beat ends the pause."""


class Held(NamedTuple):
    """What is kept of a heartbeat until it is answered: a thousand are, most of the time."""

    lease: Lease
    number: int
    """Of this lease's heartbeats; a later one releases it."""
    state_seen: int
    """`HeartbeatResponse.state` that the agent has seen last."""
    until: float
    """On the loop's clock, in seconds."""


@dataclass(slots=True)
class Heartbeats:
    """What agents report while a lease runs, and what the hub answers."""

    state: State
    costs: ServerCosts

    def heard(self, lease_id: str) -> Contact:
        """The agent has spoken."""
        contact = self.state.leases.contact(lease_id)
        contact.heard_at = self.state.clock.uptime()
        lease = self.state.leases.get(lease_id)
        if lease is not None and lease.waited and lease.state is LeaseState.READY:
            self.state.leases.remember(lease_id, waited=0.0)
            self.state.wake()  # stored at once: the next process would wait for less time
        return contact

    def take_in(self, lease: Lease, heartbeat: Heartbeat) -> Held:
        """What the heartbeat reports, from now on; `news` answers it."""
        contact, now = self.heard(lease.lease_id), self.state.clock.now()
        contact.protocol = heartbeat.protocol
        contact.heartbeats = mine = contact.heartbeats + 1
        self.state.leases.announce(lease.lease_id)
        before, contact.idle_since = contact.idle_since, _by_our_clock(heartbeat, lease, now)
        if contact.idle_since is not None and (before is None or contact.idle_since < before):
            self._deadline_is_earlier(contact)
        self._record_idle(lease, contact.idle_since, now)
        contact.busy_because = heartbeat.busy_because
        self.hear_notice(lease.lease_id, heartbeat.interruption_at)
        if heartbeat.telemetry:
            contact.gpu_percent = gpu_percent(heartbeat.telemetry)
        self._record_gpu_use(lease.lease_id, heartbeat.telemetry, now)
        contact.gpu_unattended = heartbeat.gpu_unattended
        contact.dirty_bytes = heartbeat.dirty_bytes
        if heartbeat.dirty_bytes is not None:
            contact.flushing_at = asyncio.get_running_loop().time()
        contact.disks = tuple(each for each in heartbeat.disks if each.is_writable)
        if heartbeat.has_stopped:
            self.state.leases.report_agent_stopped(
                lease.lease_id, home_released=heartbeat.home_released
            )
        hold = heartbeat.hold_seconds * random.uniform(SHORTEST_HOLD, 1.0)
        until = asyncio.get_running_loop().time() + hold
        return Held(lease, mine, heartbeat.state_seen, until)

    async def news(self, held: Held) -> HeartbeatResponse:
        """Answer at once or when there is news, `hold_seconds` after the heartbeat at most."""
        leases, lease_id = self.state.leases, held.lease.lease_id
        contact, clock = leases.contact(lease_id), asyncio.get_running_loop().time
        while (
            held.state_seen == contact.state
            and contact.heartbeats == held.number
            and (left := held.until - clock()) > 0
        ):
            await leases.wait_for_change(lease_id, left)
        return self.answer(leases.get(lease_id) or held.lease)

    def hung_up(self, held: Held) -> None:
        """Its agent has closed the connection of a heartbeat: have its instance listed if no other
        heartbeat follows, because an instance ends with its agent, and a user waits before it."""
        state, lease_id = self.state, held.lease.lease_id

        def check() -> None:
            if state.leases.get(lease_id) is None:
                return  # it has ended, and is forgotten
            contact, uptime = state.leases.contact(lease_id), state.clock.uptime()
            is_first = uptime - contact.hung_up_at >= HANG_UPS_APART
            if contact.heartbeats == held.number and is_first:
                contact.hung_up_at, contact.last_heartbeat = uptime, held.number
                state.instances.refresh_soon()

        asyncio.get_running_loop().call_later(HANG_UP_PAUSE, check)

    def hear_notice(self, lease_id: str, interruption_at: datetime | None) -> None:
        """What the agent of a lease reads from its instance; None is no notice, or no more."""
        contact = self.state.leases.contact(lease_id)
        contact.notices = contact.notices.heard(interruption_at)
        if contact.interruption_at != (at := contact.notices.ends_at(self.state.clock.now())):
            contact.interruption_at = at
            self.state.continuation_wanted.set()

    def _record_idle(self, lease: Lease, idle_since: datetime | None, now: datetime) -> None:
        """For the ledger; at most one write a minute, by the next pass."""
        current = self.state.leases.get(lease.lease_id)
        if current is None or current.state is not LeaseState.READY:
            return
        if idle_since is not None and current.ready_at is not None:
            idle_since = max(idle_since, current.ready_at)  # before that it cost another lease
        spans = record(current.idle_spans, idle_since, now)
        if spans != current.idle_spans:
            self.state.leases.remember(lease.lease_id, idle_spans=spans)

    def _record_gpu_use(self, lease_id: str, telemetry: Telemetry | None, now: datetime) -> None:
        """For the ledger; written once in a GPU-hour, and with each other change of the lease."""
        contact, uptime = self.state.leases.contact(lease_id), self.state.clock.uptime()
        percent, since = gpu_percent(telemetry), contact.gpu_measured_at
        contact.gpu_measured_at = None if percent is None else uptime
        lease = self.state.leases.get(lease_id)
        if percent is None or since is None or lease is None or not lease.segments:
            return
        if lease.state is not LeaseState.READY:
            return
        # How many GPUs there are is not the instance's to say.
        gpu_seconds = min(uptime - since, MAX_GAP_SECONDS) * lease.segments[-1].gpus
        if gpu_seconds <= 0:
            return
        day = local_day(now, self.state.settings.time_zone)
        uses = add_use(lease.gpu_use, day, percent, round(1e6 * gpu_seconds))
        if _gpu_hours(uses) == _gpu_hours(lease.gpu_use):
            self.state.leases.remember_with_next_change(lease_id, gpu_use=uses)
        else:
            self.state.leases.remember(lease_id, gpu_use=uses)

    async def wait_heard(self, lease: Lease) -> Lease:
        """Wait until this process has heard of a ready lease, or it is ready no more."""
        while (
            lease.state is LeaseState.READY
            and not self.state.leases.contact(lease.lease_id).heartbeats
        ):
            await self.state.leases.wait_for_change(lease.lease_id, UNHEARD_PAUSE)
            lease = self.state.leases.get(lease.lease_id) or lease
        return lease

    def _deadline_is_earlier(self, contact: Contact) -> None:
        """Let a pass look, unless this agent made one look a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - contact.woke_at >= WAKE_INTERVAL:
            contact.woke_at = now
            self.state.wake()

    def answer(self, lease: Lease) -> HeartbeatResponse:
        """What the agent is to know now."""
        contact = self.state.leases.contact(lease.lease_id)
        is_recent = self.state.clock.uptime() - contact.message_sent_at < MESSAGE_SECONDS
        return HeartbeatResponse(
            state=contact.state,
            cost=self.costs.of(lease),
            idle=policy_of(lease),
            extended_until=lease.extended_until,
            extended_by=lease.extended_by,
            stop=lease.stop,
            message=contact.message if is_recent else None,
            ends_in_seconds=self._ends_in(lease) if lease.run else None,
            undelivered_runs=self.state.runs.count_undelivered(lease.user, lease.server),
        )

    def _ends_in(self, lease: Lease) -> float | None:
        """Seconds that the run of this lease has left, by its cost cap at the present price and by
        its deadline; None without both. The hub ends it earlier, unless nobody hears of that."""
        run, now = self.state.runs.get(lease.run), self.state.clock.now()
        if run is None:
            return None
        left = [] if run.deadline is None else [(run.deadline - now).total_seconds()]
        price = rate(lease.segments[-1], now).known_usd_per_hour if lease.segments else None
        if run.max_usd is not None and price:
            spent = run.spent_usd + (known_usd(lease.segments, now) or 0.0)
            left.append((run.max_usd - spent) * 3600 / price)
        return max(min(left), 0.0) if left else None

    async def extend(self, lease: Lease, seconds: float) -> ExtendResponse:
        """Push the idle stop away, as far as the lease's policy allows; never nearer."""
        allowed = min(seconds, lease.idle.user_may_extend_seconds)
        until = self.state.clock.now() + timedelta(seconds=allowed)
        if lease.extended_until and until - lease.extended_until < EXTENSION_STEP:
            until = lease.extended_until
        else:
            changes = {"extended_until": until, "extended_by": ""}
            await self.state.leases.change(lease.lease_id, **changes)
            self.state.leases.notify_agent(lease.lease_id)
            self.state.wake()
        return ExtendResponse(extended_until=until, bounded=allowed < seconds)

    async def choose_idle(self, lease: Lease, seconds: float) -> IdleResponse | None:
        """Another idle limit, as its user asks and the policy allows; None where it leaves none."""
        contact, loop = self.state.leases.contact(lease.lease_id), asyncio.get_running_loop()
        while (left := contact.chose_at + CHOICE_PAUSE - loop.time()) > 0:
            await asyncio.sleep(left)
            lease = self.state.leases.get(lease.lease_id) or lease
        allowed = bounded(lease.idle, seconds)
        if allowed is None:
            return None
        policy = lease.idle.model_copy(update={"user_server_seconds": allowed})
        if policy != lease.idle:
            contact.chose_at = loop.time()
        await self.set_policy(lease, policy)
        chosen = policy_of(replace(lease, idle=policy))
        return IdleResponse(idle=chosen, bounded=allowed != seconds)

    async def set_policy(
        self, lease: Lease, policy: IdlePolicy, sleep: SleepRules | None = None
    ) -> None:
        """Apply another policy, and other rules of its sleep, to a running server, and notify its
        agent."""
        sleep = sleep or lease.sleep
        if (policy, sleep) != (lease.idle, lease.sleep):
            # The agent reports activity in time for the policy that it knows: nothing is decided
            # by the new one before it has answered to it.
            self.state.leases.contact(lease.lease_id).idle_since = None
            await self.state.leases.change(lease.lease_id, idle=policy, sleep=sleep)
            self.state.leases.notify_agent(lease.lease_id)
            self.state.wake()

    # --- what time decides ---

    async def reconcile(self, now: datetime) -> None:
        """End the servers that are idle, too old or silent."""
        silent: dict[str, list[tuple[Lease, Stop]]] = {}
        ready = [lease.lease_id for lease in self.state.leases.open(LeaseState.READY)]
        async for lease_id in cooperatively(ready):
            lease = self._due(lease_id, now)
            if lease is None:
                continue
            stop = self.why(lease, now)
            if stop.reason == "lost":
                # The workers of one cluster count as one: their user's script may stop them all.
                silent.setdefault(lease.head or lease_id, []).append((lease, stop))
            else:
                await self.state.end(lease_id, stop)
        for group in self.state.admit_ends(list(silent.values()), "their agents are silent"):
            for lease, stop in group:
                if self._due(lease.lease_id, now) is not None:
                    await self.state.end(lease.lease_id, stop)

    def _due(self, lease_id: str, now: datetime) -> Lease | None:
        """A server that must end, as it is by now: while a pass ended others it may have been
        extended, or its agent heard. Then None."""
        lease = self.state.leases.get(lease_id)
        if lease is None or lease.state is not LeaseState.READY:
            return None
        return lease if due(self.state, lease, now) <= now else None

    def why(self, lease: Lease, now: datetime) -> Stop:
        """With which words it ends then. Apart from `due`: that is asked of each at each pass."""
        silent_at, idle_at = _ends(self.state, lease, now)
        if idle_at is None or silent_at <= idle_at:
            return Stop(reason="lost", message="The instance fell silent")
        policy = _within_a_calendar(policy_of(lease))
        max_age = timedelta(seconds=policy.max_age_seconds)
        too_old = bool(max_age) and idle_at >= _began(lease) + max_age
        return _words(too_old, _idle_since(self.state, lease), now)


def _gpu_hours(uses: Sequence[GpuUse]) -> int:
    """Whole ones that were measured."""
    return sum(use.measured for use in uses) // GPU_HOUR


def seconds_until_due(state: State) -> list[float]:
    """Until each ready server must end if nothing happens."""
    now, ready = state.clock.now(), state.leases.open(LeaseState.READY)
    return [(due(state, lease, now) - now).total_seconds() for lease in ready]


def due(state: State, lease: Lease, now: datetime) -> datetime:
    """When this ready lease must end if nothing happens.

    `now` as its pass has read it: the clock may be set at any moment.
    """
    silent_at, idle_at = _ends(state, lease, now)
    return silent_at if idle_at is None else min(silent_at, idle_at)


def _ends(state: State, lease: Lease, now: datetime) -> tuple[datetime, datetime | None]:
    """When its agent counts as silent, and when it has been idle or there for too long."""
    contact = state.leases.contact(lease.lease_id)
    if contact.heard_at is None:
        contact.heard_at = state.clock.uptime()
    left = contact.heard_at + state.settings.agent_silent_after - state.clock.uptime()
    since = _idle_since(state, lease)
    inputs = lease.idle, lease.ready_at, since, lease.extended_until
    if contact.reckoned is None or contact.reckoned[0] != inputs:
        policy = _within_a_calendar(policy_of(lease))
        ends = idle.stop_at(policy, _began(lease), since, lease.extended_until)
        contact.reckoned = inputs, ends
    return now + timedelta(seconds=left), contact.reckoned[1]


def _idle_since(state: State, lease: Lease) -> datetime | None:
    """Clamped to when its server began. A server whose workers work is not idle."""
    since = state.leases.contact(lease.lease_id).idle_since
    if since is not None and lease.cluster is not None:
        since = _with_workers(state, lease, since)
    return max(since, _began(lease)) if since else None


def _with_workers(state: State, head: Lease, since: datetime) -> datetime | None:
    """Since when the server and all workers that have joined are idle; not before any that has
    worked, also if that has ended since."""
    contact = state.leases.contact(head.lease_id)
    for worker in state.leases.workers_of(head.lease_id):
        if worker.state is LeaseState.READY:
            idle_since = state.leases.contact(worker.lease_id).idle_since
            if idle_since is None:
                contact.workers_worked_at = state.clock.now()
                return None
            contact.workers_worked_at = max(contact.workers_worked_at or idle_since, idle_since)
    return max(since, contact.workers_worked_at or since)


def _words(too_old: bool, idle_since: datetime | None, now: datetime) -> Stop:
    if too_old:
        return Stop(reason="max-age", message="It reached its maximum age")
    # Not since when: that is another time of day for each reader.
    lasted = f" for {_idle_for((now - idle_since).total_seconds())}" if idle_since else ""
    return Stop(reason="idle", message=f"It had been idle{lasted}")


def _idle_for(seconds: float) -> str:
    """In whole minutes, but for the policies of seconds that demonstrations have."""
    return in_words(60 * round(seconds / 60) if seconds >= 60 else seconds)


def _within_a_calendar(policy: IdlePolicy) -> IdlePolicy:
    if max(policy.server_seconds, policy.max_age_seconds) <= LONGEST:
        return policy
    within = {
        "server_seconds": min(policy.server_seconds, LONGEST),
        "max_age_seconds": min(policy.max_age_seconds, LONGEST),
    }
    return policy.model_copy(update=within)


def _by_our_clock(heartbeat: Heartbeat, lease: Lease, now: datetime) -> datetime | None:
    """Since when the server is idle: measured by the instance's clock alone, and for no longer
    than the server has run."""
    if heartbeat.idle_since is None:
        return None
    lasted = max((heartbeat.sent_at or now) - heartbeat.idle_since, timedelta())
    return now - min(lasted, now - (_began(lease) if lease.ready_at else now))


def policy_of(lease: Lease) -> IdlePolicy:
    """The policy in force for a lease, with the age of the server before it."""
    return with_age(in_force(lease.idle), lease.taken_over)


def _began(lease: Lease) -> datetime:
    """From when age and idle time of a ready lease count: earlier than it, for a server that was
    idle when it left its last instance."""
    assert lease.ready_at is not None
    return lease.ready_at - timedelta(seconds=lease.taken_over.idle_seconds)
