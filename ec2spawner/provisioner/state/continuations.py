"""Servers that continue on another instance: a second lease, the *successor*, for the same server.

A successor waits, claims and starts as any other lease, but gets its home and its notebook only
when the lease that it continues has released them. It replaces that lease: whatever ends the
server, and does not make it continue, ends both.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from ...core.ledger.price_change import price_of
from ...core.sleep.continuation import (
    RETRY_INTERVAL,
    TakenOver,
    is_interrupted_too_often,
    taken_over,
)
from ...wire import Stop, Trigger
from ..model.leases import successor
from ..model.leases.lease import LIVE, Lease, LeaseState
from ..runtime.clock import Clock
from .instances.interruptions import INTERRUPTED
from .lease_registry import LeaseRegistry
from .zones import Zones

log = logging.getLogger(__name__)

AGAIN: Final = "AWS reclaimed each of its machines within minutes; start it again when you like"

UNEXPLAINED_AGAIN: Final = (
    "Its machines ended one after another, and AWS does not say why; start it again when you like"
)

UNAVAILABLE: Final = frozenset({"capacity", "quota", "failed", "lost"})
"""Why a start ends by itself, where that means that no instance could be had."""

FAILURES: Final = UNAVAILABLE | {"budget"}
"""Why a start ends by itself."""


class Continuations:
    """Which lease continues which. Memory changes at once; the store follows."""

    def __init__(self, leases: LeaseRegistry, zones: Zones, clock: Clock) -> None:
        self._leases = leases
        self._zones = zones
        self._clock = clock
        self._changed = asyncio.Event()
        """Set and replaced when somebody may want to look again."""

    # --- reading ---

    def pending(self) -> list[tuple[Lease, Lease]]:
        """Each lease that has not released its server yet, with the one that continues it."""
        found = []
        for lease in self._leases.open(*LIVE):
            previous = self._leases.get(lease.continues) if lease.continues else None
            if previous is not None and not self._leases.has_released(previous.lease_id):
                found.append((previous, lease))
        return found

    def must_wait(self, lease: Lease) -> bool:
        """Whether the server of this lease still runs under the one that it continues."""
        return bool(lease.continues) and not self._leases.has_released(lease.continues)

    async def wait_change(self, timeout: float) -> None:
        """Return when a pass has looked at all of this, at most after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def announce(self) -> None:
        """Wake those who wait for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # --- changing ---

    def begin_at_notice(self, lease: Lease, message: str) -> Lease | None:
        """As `begin`, where a notice says that EC2 will reclaim the instance.

        A notice can be withdrawn, and an agent could repeat that with every heartbeat: each time an
        instance would be bought. So the next one is bought later, or when the server ends.
        """
        earlier = self._leases.successor(lease.lease_id)
        if earlier is None or earlier.state in LIVE or not _may_try_again(earlier):
            return self.begin(lease, message)
        is_soon = self._clock.now() - earlier.requested_at < RETRY_INTERVAL
        return None if is_soon else self.begin(lease, message)

    def begin(self, lease: Lease, message: str, *, is_explained: bool = True) -> Lease | None:
        """The successor of a ready lease that EC2 interrupts, made now if there is none.

        None where its server is not to continue, or could not. `message` begins the story of the
        new lease; `is_explained`: AWS says that it reclaims the instance.
        """
        if (earlier := self._leases.successor(lease.lease_id)) is not None:
            if earlier.state in LIVE:
                return earlier
            if _has_failed(earlier):
                return None
        if lease.state is not LeaseState.READY or lease.sleep.after_interruption == "stop":
            return None
        over = self._taken_over(lease, "interruption", is_explained=is_explained)
        over = replace(over, is_handed_over=False)
        if is_interrupted_too_often(over):
            log.warning("%s does not continue: it is interrupted too often", lease.lease_id)
            return None
        subnets = self._subnets_for(lease)
        found = successor.after_interruption(lease, over, subnets, self._clock.now(), message)
        log.info("%s continues %s of %r", found.lease_id, lease.lease_id, lease.user)
        self._leases.begin_adding(found).add_done_callback(_stored_later)
        return found

    def hand_over(self, lease: Lease, stop: Stop, *, is_explained: bool = True) -> Stop:
        """A ready or starting lease ends now: its successor takes over, or ends as well.

        Returns the stop as its user shall read it; `is_explained` is that of `begin`. The caller
        changes the lease without an await in between: at any moment a server that continues has a
        successor.
        """
        stop = _of_successor(lease, stop)
        if stop.reason == INTERRUPTED:
            message = successor.GONE if is_explained else successor.UNEXPLAINED
            found = self.begin(lease, message, is_explained=is_explained)
            if found is None:
                why = self._why_it_ends(lease, stop, is_explained=is_explained)
                return stop.model_copy(update={"message": why})
            trigger = found.taken_over.trigger
            self._take_over(lease, found, trigger, is_explained=is_explained)
        elif (found := self._leases.open_successor(lease.lease_id)) is not None:
            if stop.sleep == "hardware":
                self._take_over(lease, found, "hardware")
            else:
                self.give_up(found, stop)
        return stop

    def complete_hand_over(self, lease: Lease, found: Lease) -> None:
        """Repeat what a crash has kept from the store: that the server left this lease, which ends
        or has ended, for other hardware."""
        if found.taken_over.trigger == "hardware" and not found.taken_over.is_handed_over:
            self._take_over(lease, found, "hardware")

    def give_up(self, found: Lease, stop: Stop) -> None:
        """A successor ends with the server; the next pass stores it, or finds it again."""
        ends = Stop(reason=stop.reason, message=stop.message, by=stop.by)
        self._leases.notify_agent(found.lease_id)
        self._leases.remember(
            found.lease_id,
            state=LeaseState.ENDING,
            stop=ends,
            stop_requested_at=self._clock.now(),
        )

    def _subnets_for(self, lease: Lease) -> tuple[str, ...]:
        """A home on EBS is where the instance is: another zone would be of no use."""
        if lease.home_kind != "ebs" or not lease.segments:
            return lease.spec.subnets
        by_subnet, zone = self._zones.by_subnet, lease.segments[-1].zone
        here = tuple(x for x in lease.spec.subnets if by_subnet.get(x) == zone)
        return here or lease.spec.subnets

    def _take_over(
        self, lease: Lease, found: Lease, trigger: Trigger, *, is_explained: bool = True
    ) -> None:
        """What has changed since the successor was made: its user may have extended the server."""
        changes: dict[str, object] = {
            "extended_until": lease.extended_until,
            "extended_by": lease.extended_by,
        }
        if lease.ready_at is not None:
            changes["taken_over"] = self._taken_over(lease, trigger, is_explained=is_explained)
        if trigger == "interruption":
            changes["idle"] = lease.idle  # its user may have chosen another limit
        self._leases.remember(found.lease_id, **changes)

    def _taken_over(self, lease: Lease, trigger: Trigger, *, is_explained: bool) -> TakenOver:
        now = lease.stop_requested_at or self._clock.now()
        since, ready_at = self._idle_since(lease), lease.ready_at or now
        return taken_over(
            lease.taken_over,
            trigger,
            ready_at,
            since,
            now,
            price=price_of(lease.segments[-1]) if lease.segments else None,
            is_explained=is_explained,
        )

    def _idle_since(self, lease: Lease) -> datetime | None:
        """As its agent has said; before that has spoken to this process, as was stored of it."""
        contact = self._leases.contact(lease.lease_id)
        if contact.heartbeats or not lease.idle_spans:
            return contact.idle_since
        last = lease.idle_spans[-1]
        return last.start if last.end is None else None

    def _why_it_ends(self, lease: Lease, stop: Stop, *, is_explained: bool) -> str:
        tried = self._leases.successor(lease.lease_id)
        if tried is not None and tried.stop is not None and _has_failed(tried):
            return tried.stop.message
        over = self._taken_over(lease, "interruption", is_explained=is_explained)
        wanted = lease.sleep.after_interruption != "stop" and lease.state is LeaseState.READY
        if not wanted or not is_interrupted_too_often(over):
            return stop.message
        return AGAIN if is_explained else UNEXPLAINED_AGAIN


def _has_failed(ended: Lease) -> bool:
    """Whether a successor has ended because its server could not continue: there is no other."""
    is_interrupted = ended.taken_over.trigger == "interruption"
    return is_interrupted and (ended.stop is None or ended.stop.reason in FAILURES)


def _may_try_again(ended: Lease) -> bool:
    """Whether a successor has ended for another reason, such as a notice that was withdrawn."""
    return ended.taken_over.trigger == "interruption" and not _has_failed(ended)


def _of_successor(lease: Lease, stop: Stop) -> Stop:
    """Why a server that was interrupted has no other instance, as its user shall read it."""
    is_interrupted = bool(lease.continues) and lease.taken_over.trigger == "interruption"
    has_none = lease.state is LeaseState.WAITING and stop.reason in UNAVAILABLE
    if not is_interrupted or not has_none:
        return stop
    message = f"AWS reclaimed the machine, and there was no other: {stop.message}"
    return stop.model_copy(update={"message": message[:500]})


def is_continued_by(lease: Lease, found: Lease) -> bool:
    """Whether the successor continues although this lease has ended.

    By the stop first: a hub that is killed may have stored no more than that.
    """
    stop = lease.stop
    is_moved = stop is not None and (stop.reason == INTERRUPTED or stop.sleep == "hardware")
    return is_moved or found.taken_over.is_handed_over


def _stored_later(added: asyncio.Task[None]) -> None:
    if not added.cancelled() and (error := added.exception()) is not None:
        log.error("A lease that continues another one is not stored yet: %s", error)
