"""All open leases in memory, each change of them also in the store.

Memory changes at once; the store follows in the same order, by its write-behind queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Final

from ...core.instances.retention_rules import Kept
from ...core.ledger.cost_rows import CostRow
from ...core.ledger.segments import close
from ...core.sleep.spot_events import Notices
from ...wire import Step
from ..model.leases.costs import costs_of, scopes_of
from ..model.leases.lease import LIVE, OPEN, Lease, LeaseState, Snapshot, StepEvent
from ..model.leases.worker import worker_number
from ..runtime.clock import Clock
from ..store.store import Store
from ..store.write_behind import Write
from .agent_contact import Contact
from .lease_table import LeaseTable, ServedInstances
from .start_times import StartTimes

WORKERS_REMEMBERED: Final = 16
"""Of each cluster."""


class LeaseRegistry:
    """All open leases, and those that ended lately."""

    def __init__(self, store: Store, clock: Clock, time_zone: tzinfo) -> None:
        self._store = store
        self._clock = clock
        self._time_zone = time_zone
        self.times = StartTimes(clock)
        # Above all states that an earlier process may have reported to an agent: ours is newer.
        self._first_state = int(clock.now().timestamp())
        self._served = ServedInstances()
        self._leases = LeaseTable(self._served)
        self._in_scope: dict[str, dict[str, None]] = {}
        """By scope of limits: ids of the leases that count in it, in their order."""
        self._last_ended: dict[tuple[str, str], Lease] = {}
        self._last_ended_by_id: dict[str, Lease] = {}
        """The same leases."""
        self._contacts: dict[str, Contact] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._continued_by: dict[str, str] = {}
        """By lease id: the lease that continues it, open or ended."""
        self.continuation_changed = asyncio.Event()
        """Set when a lease that continues another one, or that is continued, has changed."""
        self.added_at = float("-inf")
        """When the last lease was requested, in seconds of the event loop's clock."""

    def load(self, snapshot: Snapshot) -> None:
        """Take over the leases that an earlier process has stored."""
        for lease in snapshot.ended_lately:
            self._set_last_ended(lease)
            self._index_continuation(lease)
        # After them: what continues a lease now replaces what continued it until it was withdrawn.
        for lease in snapshot.leases:
            self._insert(lease)

    # --- reading, from memory ---

    def get(self, lease_id: str) -> Lease | None:
        """An open lease, or one that ended within minutes."""
        return self._leases.get(lease_id)

    def open(self, *states: LeaseState) -> Iterator[Lease]:
        """Open leases, of the given states or all, in the order of their requests."""
        return iter(self._leases.in_states(states or OPEN))

    def in_memory(self) -> Iterator[Lease]:
        """Open leases, and ended ones until they are forgotten."""
        return iter(list(self._leases.values()))

    @property
    def scopes(self) -> Set[str]:
        """All that a lease in memory counts in."""
        return self._in_scope.keys()

    def in_scope(self, scope: str) -> Iterator[Lease]:
        """Those in memory whose cost counts for `user:ann`, `group:research` or `hub`."""
        return iter([self._leases[lease_id] for lease_id in self._in_scope.get(scope, ())])

    def of_server(self, user: str, server: str) -> Lease | None:
        """The newest open lease of a server, but not yet one that continues a running one."""
        held = [x for x in self._leases.of_server(user, server) if x.state in OPEN]
        current = [x for x in held if not self._continues_running(x)]
        return max(current, key=lambda lease: lease.requested_at, default=None)

    def _continues_running(self, lease: Lease) -> bool:
        previous = self._leases.get(lease.continues)
        return previous is not None and previous.state is LeaseState.READY

    def successor(self, lease_id: str) -> Lease | None:
        """The lease that continues this one on another instance, open or ended lately."""
        successor_id = self._continued_by.get(lease_id)
        return self.remembered(successor_id) if successor_id else None

    def open_successor(self, lease_id: str) -> Lease | None:
        """The same, unless it is ending or has ended."""
        successor = self.successor(lease_id)
        return successor if successor and successor.state in LIVE else None

    def has_released(self, lease_id: str) -> bool:
        """Whether notebook and home of this lease are closed, so that another may open them."""
        lease = self._leases.get(lease_id)
        if lease is None or lease.state is LeaseState.ENDED:
            return True
        return lease.state is LeaseState.ENDING and self.contact(lease_id).agent_stopped

    def of_instance(self, instance_id: str) -> Lease | None:
        """The open lease that holds the instance."""
        return self._leases.of_instance(instance_id)

    def workers_of(self, head_id: str) -> list[Lease]:
        """The workers of a server's lease, also those that ended within minutes."""
        return self._leases.of_head(head_id)

    def last_ended(self, user: str, server: str) -> Lease | None:
        """The newest ended lease of a server: the next login shows why it stopped."""
        return self._last_ended.get((user, server))

    def ended_since(self, since: datetime) -> list[Lease]:
        """The newest ended lease of each server, as far as it ended after `since`."""
        ended = self._last_ended.values()
        return [lease for lease in ended if lease.ended_at is not None and lease.ended_at > since]

    def remembered(self, lease_id: str) -> Lease | None:
        """An open lease, or one that ended lately."""
        return self._leases.get(lease_id) or self._last_ended_by_id.get(lease_id)

    def knows(self, lease_id: str) -> bool:
        """True for every open lease and those that ended lately."""
        return self.remembered(lease_id) is not None

    @property
    def served(self) -> Set[str]:
        """The instances of all leases in memory, and of those that ended lately."""
        return self._served.ids

    def last_served(self, instance_id: str) -> tuple[str, datetime] | None:
        """Id and end of the last lease of an instance; None where memory knows of none."""
        last = None
        for lease in self._remembered():
            for segment in lease.segments:
                if segment.instance_id == instance_id and segment.end is not None:
                    last = lease.lease_id, segment.end
        return last

    def _remembered(self) -> Iterator[Lease]:
        yield from self._last_ended.values()
        yield from self._leases.values()

    def contact(self, lease_id: str) -> Contact:
        """What is known of its agent; begins with its first call."""
        known = self._contacts.get(lease_id)
        if known is None:
            known = self._contacts[lease_id] = Contact(state=self._first_state)
        return known

    # --- changing ---

    def clock_was_set(self, by: timedelta) -> None:
        """Wall-clock instants move with the clock, until the next heartbeats replace them."""
        for lease in self.open(LeaseState.READY):
            contact = self.contact(lease.lease_id)
            if contact.idle_since is not None:
                contact.idle_since += by

    async def add(self, lease: Lease, given_up: Sequence[Kept] = ()) -> None:
        """Put a lease into the registry and store it, together with the retained instances that
        are given up for it. Raises `StoreError`."""
        await asyncio.shield(self.begin_adding(lease, given_up))

    def begin_adding(self, lease: Lease, given_up: Sequence[Kept] = ()) -> asyncio.Task[None]:
        """The same: it is in the registry at once, and the task stores it."""
        self._insert(lease)
        self.added_at = asyncio.get_running_loop().time()
        write = partial(self._store.save_lease, lease, given_up=given_up)
        return self._store.write_behind.begin(lease.lease_id, write)

    def _insert(self, lease: Lease) -> None:
        self._leases[lease.lease_id] = lease
        self._index_continuation(lease)
        for scope in scopes_of(lease):
            self._in_scope.setdefault(scope, {})[lease.lease_id] = None

    def _index_continuation(self, lease: Lease) -> None:
        if lease.continues:
            self._continued_by[lease.continues] = lease.lease_id
            self.continuation_changed.set()

    def _drop(self, lease: Lease) -> None:
        del self._leases[lease.lease_id]
        self._continued_by.pop(lease.lease_id, None)
        for scope in scopes_of(lease):
            del self._in_scope[scope][lease.lease_id]
            if not self._in_scope[scope]:
                del self._in_scope[scope]

    async def change(self, lease_id: str, **changes: Any) -> Lease:
        """Replace fields of a lease, notify those who wait for it, and store it.

        Raises `StoreError`: the change holds nevertheless, and the next pass stores it.
        """
        lease = self._replace(lease_id, changes)
        await self._save(lease)
        return lease

    def begin_changing(self, lease_id: str, **changes: Any) -> asyncio.Task[None]:
        """The same: it holds at once, and the task stores it before what begins to be stored
        later."""
        lease = self._replace(lease_id, changes)
        return self._store.write_behind.begin(lease_id, self._write_of(lease))

    def _replace(self, lease_id: str, changes: dict[str, Any]) -> Lease:
        before = self._leases[lease_id]
        if changes.get("state", before.state) is not before.state:
            changes = {"waited": 0.0, **changes}
        lease = replace(before, **changes)
        self._leases[lease_id] = lease
        self.announce(lease_id)
        if lease.head:
            self._worker_changed(before, lease)
        if lease.state is LeaseState.ENDED and lease.is_server and not self._was_continued(lease):
            self._set_last_ended(lease)
        return lease

    def _worker_changed(self, before: Lease, worker: Lease) -> None:
        """Let its server know of a worker that costs something from now on, or nothing more."""
        head = self._leases.get(worker.head)
        if head is None or head.cluster is None:
            return
        if (worker.state in OPEN, _runs(worker)) != (before.state in OPEN, _runs(before)):
            self.notify_agent(head.lease_id)

    def _set_last_ended(self, lease: Lease) -> None:
        self._forget_last_ended(lease.user, lease.server)
        self._last_ended[lease.user, lease.server] = lease
        self._served.replace(None, lease)
        self._last_ended_by_id[lease.lease_id] = lease

    def _forget_last_ended(self, user: str, server: str) -> None:
        if (last := self._last_ended.pop((user, server), None)) is not None:
            del self._last_ended_by_id[last.lease_id]
            self._served.replace(last, None)

    def _was_continued(self, lease: Lease) -> bool:
        """Whether its server ended with the lease that continued it, although that was closed
        first: one that gets no instance is closed while the agent of this one still saves."""
        later = self.successor(lease.lease_id)
        is_over = later is not None and later.state is LeaseState.ENDED
        return later is not None and is_over and later.taken_over.is_handed_over

    def remember(self, lease_id: str, **changes: Any) -> None:
        """Replace fields of a lease and notify those who wait for it; the next pass stores it.

        For what a crash may lose, and what happens too often to be waited for.
        """
        self._leases[lease_id] = lease = replace(self._leases[lease_id], **changes)
        if lease_id in self._last_ended_by_id:
            self._set_last_ended(lease)
        self._store.write_behind.later(lease_id, self._write_of(lease))
        self.announce(lease_id)

    def remember_with_next_change(self, lease_id: str, **changes: Any) -> None:
        """Replace fields of a lease; they are stored with its next change.

        For what a crash may lose, and what changes too often to be written each time.
        """
        self._leases[lease_id] = replace(self._leases[lease_id], **changes)

    async def note(
        self, lease_id: str, step: Step, message: str, detail: str = "", **changes: Any
    ) -> None:
        """Add a line to the lease's story, together with the changes that it describes."""
        events = self.story(lease_id, step, message, detail)
        if changes or events != self._leases[lease_id].events:
            await self.change(lease_id, events=events, **changes)

    async def send_back(
        self, lease_id: str, message: str, detail: str = "", **changes: Any
    ) -> None:
        """Back to the waiting list, without the instance; `message` is the reason for its user.

        `segments` among the changes are already closed.
        """
        lease = self._leases[lease_id]
        closed = close(lease.segments, self._clock.now())
        contact = self.contact(lease_id)
        contact.notices, contact.interruption_at = Notices(), None  # of that instance
        await self.note(
            lease_id,
            Step.REQUEST,
            message,
            detail,
            state=LeaseState.WAITING,
            instance_id=None,
            token_sha256="",
            on_retained=False,
            assigned_at=None,
            marks=self.times.sent_back(lease),
            **{"segments": closed, **changes},
        )

    def story(
        self, lease_id: str, step: Step, message: str, detail: str = ""
    ) -> tuple[StepEvent, ...]:
        """The events of the lease with one more; an equal one in a row is not repeated."""
        events = self._leases[lease_id].events
        last = events[-1] if events else None
        if last is not None and (last.step, last.message, last.detail) == (step, message, detail):
            return events
        return (*events, StepEvent(step, self._clock.now(), message, detail))

    def notify_agent(self, lease_id: str) -> None:
        """Let the hub respond to the held heartbeat now."""
        self.contact(lease_id).state += 1
        self.announce(lease_id)

    def announce(self, lease_id: str) -> None:
        """Wake those who wait for a change of the lease."""
        lease = self._leases.get(lease_id)
        is_ready = lease is not None and lease.state is LeaseState.READY
        if lease_id in self._continued_by or (lease and lease.continues and not is_ready):
            self.continuation_changed.set()
        if event := self._changed.pop(lease_id, None):
            event.set()

    async def wait_for_change(self, lease_id: str, timeout: float) -> bool:
        """Wait for the next change of a lease. False when `timeout` seconds passed."""
        event = self._changed.setdefault(lease_id, asyncio.Event())
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            return False
        return True

    def report_agent_stopped(self, lease_id: str, *, home_released: bool) -> None:
        """Record that nothing is left for the agent of an ending lease to do; of any other, no
        effect. `home_released`: no instance has the home mounted."""
        lease = self._leases.get(lease_id)
        if lease is not None and lease.state is LeaseState.ENDING:
            contact = self.contact(lease_id)
            contact.agent_stopped = True
            contact.home_released = home_released
            self.announce(lease_id)

    async def wait_agent_stopped(self, lease_id: str, timeout: float) -> None:
        """Wait until that is reported, or the lease has ended without it. Raises `TimeoutError`
        after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while not self.has_released(lease_id):
                await self.wait_for_change(lease_id, timeout)

    def ended_before(self, before: datetime) -> list[Lease]:
        """The leases in memory that ended before then and are stored, without the last workers of
        clusters that are there: how they ended decides whether others are bought."""
        is_pending = self._store.write_behind.is_pending
        return [
            lease
            for lease in self._leases.values()
            if lease.ended_at is not None
            and lease.ended_at < before
            and not is_pending(lease.lease_id)
            and not self._is_last_worker(lease)
        ]

    def _is_last_worker(self, lease: Lease) -> bool:
        head = self._leases.get(lease.head) if lease.head else None
        if head is None or head.cluster is None or head.state is LeaseState.ENDED:
            return False
        return worker_number(lease) > head.cluster.last_number - WORKERS_REMEMBERED

    def forget(self, lease: Lease) -> None:
        """Drop an ended lease from memory.

        The last one of each server stays for as long as its user may want to know why it ended.
        """
        self._drop(lease)
        self._contacts.pop(lease.lease_id, None)
        self.times.forget(lease.lease_id)
        self.announce(lease.lease_id)

    def forget_last_ended(self, before: datetime) -> None:
        """Forget the last lease of each server that ended before then."""
        for last in list(self._last_ended.values()):
            if last.ended_at is not None and last.ended_at < before:
                self._forget_last_ended(last.user, last.server)

    async def be_stored(self, lease_id: str) -> None:
        """Return once the store has the lease as it is now. Raises `StoreError`.

        For what is reported only once: memory alone would be lost with the process.
        """
        await self._store.write_behind.flush(lease_id)

    async def _save(self, lease: Lease) -> None:
        await self._store.write_behind.now(lease.lease_id, self._write_of(lease))

    def _write_of(self, lease: Lease) -> Write:
        """Once it has ended, with what it has cost."""
        costs: tuple[CostRow, ...] = ()
        if lease.state is LeaseState.ENDED:
            costs = costs_of(lease, lease.ended_at or self._clock.now(), self._time_zone)
        return partial(self._store.save_lease, lease, costs)


def _runs(lease: Lease) -> bool:
    """Whether it has an instance that is paid."""
    return bool(lease.segments) and lease.segments[-1].end is None
