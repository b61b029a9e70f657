"""The conversation with a running instance: beats in, cost and policy out, extensions.

An instance is its user's: a beat is hostile input. All it can change is what the hub believes
of that lease's idleness, within the policy's bounds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..core import idle
from ..core.money import usd
from ..wire import Beat, BeatAnswer, Cost, ExtendAnswer, Market, Stop
from .book import LeaseBook
from .cloud import Instance
from .lease import Lease, LeaseState
from .prices import PriceBook
from .settings import Settings

log = logging.getLogger(__name__)

UNHEARD_PAUSE = 30.0
"""Seconds between two looks at a lease of which nothing is heard; a beat ends the pause."""


@dataclass(slots=True)
class Beats:
    book: LeaseBook
    prices: PriceBook
    settings: Settings
    now: Callable[[], datetime]
    instance_of: Callable[[Lease], Instance | None]
    wake: Callable[[], None]

    async def beat(self, lease: Lease, beat: Beat) -> BeatAnswer:
        """Take the beat in, and answer at once or when there is news, `hold_seconds` at most."""
        contact = self.book.contact(lease.lease_id)
        contact.heard_at = self.now()
        contact.beats = mine = contact.beats + 1
        self.book.announce(lease.lease_id)
        if (beat.idle_since is None) != (contact.idle_since is None):
            self.wake()
        contact.idle_since = _by_our_clock(beat, lease, contact.heard_at)
        contact.busy_because = beat.busy_because
        contact.telemetry = beat.telemetry or contact.telemetry
        loop = asyncio.get_running_loop()
        deadline = loop.time() + beat.hold_seconds
        while (
            beat.state_seen == contact.state
            and contact.beats == mine
            and (left := deadline - loop.time()) > 0
        ):
            await self.book.wait_for_change(lease.lease_id, left)
        return self.answer(self.book.get(lease.lease_id) or lease)

    async def wait_heard(self, lease: Lease) -> Lease:
        """Wait until this process has heard of a ready lease, or it is ready no more."""
        while lease.state is LeaseState.READY and not self.book.contact(lease.lease_id).beats:
            await self.book.wait_for_change(lease.lease_id, UNHEARD_PAUSE)
            lease = self.book.get(lease.lease_id) or lease
        return lease

    def answer(self, lease: Lease) -> BeatAnswer:
        return BeatAnswer(
            state=self.book.contact(lease.lease_id).state,
            cost=self.cost(lease),
            idle=lease.idle,
            extended_until=lease.extended_until,
            stop=lease.stop,
        )

    def cost(self, lease: Lease) -> Cost:
        """What the lease's instances have cost so far: time at list prices, disks not included."""
        now = self.now()
        current = lease.segments[-1] if lease.segments else None
        instance = self.instance_of(lease)
        on_demand = self.prices.on_demand(instance.instance_type) if instance else None
        return Cost(
            usd=usd(lease.segments, now),
            usd_per_hour=current.usd_per_hour if current and not current.end else None,
            as_of=now,
            since=lease.segments[0].start if lease.segments else lease.requested_at,
            market=Market(current.market) if current else None,
            on_demand_usd_per_hour=on_demand.usd_per_hour if on_demand else None,
            price_source=current.source if current else "",
        )

    async def extend(self, lease: Lease, seconds: float) -> ExtendAnswer:
        """Push the idle stop away, as far as the lease's policy allows."""
        allowed = min(seconds, lease.idle.user_may_extend_seconds)
        until = self.now() + timedelta(seconds=allowed)
        if lease.extended_until and lease.extended_until > until:
            until = lease.extended_until
        await self.book.change(lease.lease_id, extended_until=until)
        self.book.tell_agent(lease.lease_id)
        self.wake()
        return ExtendAnswer(extended_until=until, bounded=allowed < seconds)

    # --- what time decides ---

    def due(self, lease: Lease) -> tuple[datetime, Stop]:
        """When this ready lease must end if nothing happens, and with which words."""
        contact = self.book.contact(lease.lease_id)
        assert lease.ready_at is not None
        heard_at = contact.heard_at or lease.ready_at
        silent = heard_at + timedelta(seconds=self.settings.agent_silent_after)
        ends = [(silent, Stop(reason="lost", message="The instance fell silent"))]
        idle_stop = idle.stop_at(
            lease.idle, lease.ready_at, contact.idle_since, lease.extended_until
        )
        if idle_stop is not None:
            ends.append((idle_stop, self._idle_words(lease, contact.idle_since, idle_stop)))
        return min(ends, key=lambda end: end[0])

    def _idle_words(self, lease: Lease, since: datetime | None, at: datetime) -> Stop:
        policy = lease.idle
        max_age = timedelta(seconds=policy.max_age_seconds)
        if max_age and lease.ready_at and at >= lease.ready_at + max_age:
            return Stop(reason="max-age", message="It reached its maximum age")
        since_text = f" since {since:%H:%M} UTC" if since else ""
        return Stop(reason="idle", message=f"Nothing had worked there{since_text}")


def _by_our_clock(beat: Beat, lease: Lease, now: datetime) -> datetime | None:
    """Since when nothing works. How long that is, is told by the instance's clock alone, and it is
    no longer than the server runs."""
    if beat.idle_since is None:
        return None
    lasted = max((beat.sent_at or now) - beat.idle_since, timedelta())
    return now - min(lasted, now - (lease.ready_at or now))
