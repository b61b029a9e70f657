"""All that the provisioner knows now, in one place: controllers read and change it.

It knows no controller. What must outlive the process is stored before, or as, it changes here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from ...core.instances.retention_rules import Decision, decide
from ...core.instances.termination_cause import is_spot_interruption, is_unexplained
from ...core.sleep.decision import with_sleep
from ...core.tags import STORE
from ...wire import Limit, Market, Stop
from ..model.cloud.instance import GONE, LEAVING, SPOT_TERMINATION, Instance
from ..model.leases.home_change import HomeChange
from ..model.leases.lease import LIVE, Lease, LeaseState, Snapshot
from ..model.settings import Settings
from ..runtime.clock import Clock
from ..store.store import Store, StoreError
from .capacity_blocks import CapacityBlocks
from .continuations import Continuations
from .denied_starts import DeniedStarts
from .departures import Departures
from .home_records import HomeRecords
from .incidents import Incidents
from .instances.abandoned_starts import BY_USER, BY_USER_OF_SERVER, AbandonedStarts
from .instances.claim_registry import ClaimRegistry
from .instances.instance_cache import InstanceCache
from .instances.interruptions import INTERRUPTED, Interruptions, interruption_of, interruption_seen
from .instances.launches import Launches, as_instance
from .instances.pool_starts import PoolStarts
from .instances.refused_terminations import RefusedTerminations
from .instances.retained_instances import RetainedInstances
from .instances.scheduled_events import ScheduledEvents
from .instances.stock import Stock
from .lease_events import LeaseEvents
from .lease_registry import LeaseRegistry
from .pool import PoolState
from .runs import Runs
from .sleeping_sessions import SleepingSessions
from .spending.home_storage import HomeStorage
from .spending.session_costs import SessionCosts
from .spending.spending import Spending
from .termination_brake import Brake
from .user_accounts import UserAccounts
from .waits import carried_over
from .zones import Zones

log = logging.getLogger(__name__)

T = TypeVar("T")

RECLAIMED = Stop(reason=INTERRUPTED, message="AWS reclaimed the spot machine")

UNEXPLAINED = Stop(reason=INTERRUPTED, message="The spot machine ended, and AWS does not say why")


class State:
    """One hub's leases, instances, homes and launches, as they are known now."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        homes: HomeRecords,
        accounts: UserAccounts,
    ) -> None:
        self.store_id = store.store_id
        """In the tags of all that this store launched."""
        self.settings = settings
        self.clock = clock
        self.zones = Zones()
        self.leases = LeaseRegistry(store, clock, settings.time_zone)
        self.continuations = Continuations(self.leases, self.zones, clock)
        self.lease_events = events = LeaseEvents()
        self.interruptions = Interruptions()
        self.instances = InstanceCache(settings, clock, self.interruptions)
        self.refused_terminations = RefusedTerminations(self.instances, clock)
        self.accounts = accounts
        self.homes = homes
        self.home_storage = HomeStorage()
        self.retained = RetainedInstances(store, clock)
        self.claims = ClaimRegistry(store, clock)
        self.launches = Launches(store, self.instances)
        self.abandoned_starts = AbandonedStarts(self.launches)
        self.blocks = CapacityBlocks()
        self.scheduled_events = ScheduledEvents()
        self.departures = Departures(self.blocks, self.scheduled_events)
        self.pool = PoolState(store, clock)
        self.pool_starts = PoolStarts(clock)
        self.runs = Runs(store, clock)
        self.spending = Spending(clock, settings, accounts)
        self.session_costs = SessionCosts(self.leases, clock)
        self.incidents = Incidents()
        self.denied_starts = DeniedStarts(store)
        self.sleeping = SleepingSessions(store, events)
        self.brake = Brake(clock)
        self.stock = Stock()
        """As the last pass found it."""
        self.offered: frozenset[str] = frozenset()
        """Instances that could take a lease in the last pass, until `InstanceLoss` checks them."""
        self.lost: dict[str, tuple[Lease, Instance | None]] = {}
        """By lease id: starts whose instance ended before the server was ready, with the instance
        if it is known, until they get another one or end."""
        self.judged: set[str] = set()
        """Starts whose failure is being diagnosed."""
        self.held_since: dict[tuple[str, str | None], float] = {}
        """By lease and instance id: uptime since which a start has held its instance, in
        seconds."""
        self.stopping_since: dict[str, float] = {}
        """By lease id: when the wait for its agent to save and stop began, on the loop's clock in
        seconds, less what earlier processes have waited."""
        self.terminated_with_home: set[str] = set()
        """Ids of instances that are being terminated with a home that may be mounted."""
        self.condemned: set[str] = set()
        """Instances to be terminated by this pass, whose cost is accounted for."""
        self.terminated_at: dict[str, float] = {}
        """By instance id: when its termination was last requested, on the loop's clock in s."""
        self.limits_of: dict[str, tuple[Limit, ...]] = {}
        """By lease id: the limits of a running server, the one that is reached first at the
        front."""
        self.loaded_at: float | None = None
        """Uptime at which the store was read, in seconds."""
        self.earlier_ran_until: datetime | None = None
        """Until when an earlier process is known to have run, UTC: when it counted what homes cost,
        at its start and every hour. None where none ever ran."""
        self.pass_wanted = asyncio.Event()
        self.termination_wanted = asyncio.Event()
        """Set when a lease begins to end: its termination waits for no pass."""
        self.start_lost = asyncio.Event()
        """Set when a start has lost its instance: its replacement waits for no pass."""
        self.lease_assigned = asyncio.Event()
        """Set when a lease has got an instance: its home waits for no pass."""

    @property
    def continuation_wanted(self) -> asyncio.Event:
        """Set when a notice has come, or when a server's next instance or its release has: what
        follows waits for no pass."""
        return self.leases.continuation_changed

    def load(self, snapshot: Snapshot) -> None:
        """Take over what an earlier process has stored."""
        self.loaded_at = self.clock.uptime()
        self.leases.load(snapshot)
        self.session_costs.load(snapshot)
        self.denied_starts.load(snapshot.denied_starts)
        self.pool.load(snapshot.pool_overrides)
        self.sleeping.load(snapshot.sleeping)
        self.runs.load(snapshot.runs, snapshot.last_run)
        interrupted = (*snapshot.interrupted, *snapshot.leases)
        self.interruptions.load(interrupted, snapshot.rehearsed)
        for lease in snapshot.leases:
            began_at = self.loaded_at - carried_over(lease, self.settings)
            self.leases.contact(lease.lease_id).heard_at = began_at
            if lease.state is LeaseState.STARTING:
                self.held_since[lease.lease_id, lease.instance_id] = began_at
        self.spending.load(snapshot.costs, self.leases, snapshot.storage_costs)
        self.home_storage.stored_until = snapshot.storage_counted_until
        self.earlier_ran_until = snapshot.storage_counted_until
        self.claims.load(snapshot.bindings)
        self.homes.load(snapshot.homes)
        self.retained.load(snapshot.kept)
        for instance_id in self.retained.instance_ids:
            self.claims.heard(instance_id)  # no agent could claim while no hub ran
        waiting = list(self.leases.open(LeaseState.WAITING))
        self.launches.load(snapshot.intents, waiting, self.clock.now())
        held = {lease.instance_id for lease in snapshot.leases if lease.instance_id}
        self.instances.track(held)
        self.instances.unseen = held

    def wake(self) -> None:
        """Let a pass begin now."""
        self.pass_wanted.set()

    def held_seconds(self, lease: Lease) -> float:
        """Uptime for which a start has held its present instance."""
        now = self.clock.uptime()
        return now - self.held_since.get((lease.lease_id, lease.instance_id), now)

    def must_wait(self, lease: Lease) -> bool:
        """Whether a start can open nothing yet: its server still runs under the lease that it
        continues, or an instance that is ending has its home."""
        return self.continuations.must_wait(lease) or self.is_home_held(lease)

    def is_home_held(self, lease: Lease) -> bool:
        """Whether an instance that is shut down still has the home: EC2 detaches it after that."""
        home = self.homes.for_lease(lease)
        if home is None or home.volume_id is None or home.volume_id in self.homes.free:
            return False
        holder = self.instances.holders.get(home.volume_id)
        if holder is None or holder.instance_id == lease.instance_id:
            return False
        return holder.state in LEAVING or holder.instance_id in self.terminated_with_home

    # --- what limits our own conclusions ---

    def is_in_recovery_grace(self) -> bool:
        """Whether JupyterHub may still ask for the servers that it knows."""
        since = self.loaded_at
        return since is None or self.clock.uptime() - since < self.settings.recovery_grace

    def admit_ends(self, ends: Sequence[T], why: str) -> Sequence[T]:
        """The same, or nothing if that would end too many servers. `why` is for the admin."""
        running = sum(1 for _ in self.leases.open(LeaseState.READY))
        return self.brake.admit(ends, running, why)

    # --- changes that touch several parts ---

    def begin_changing_home(self, change: HomeChange) -> list[asyncio.Task[None]]:
        """Let what an admitted start changes of its home hold at once, before its lease is in the
        registry; the tasks store it. Raises as `HomeRecords.begin_changing`."""
        stored, home = self.homes.begin_changing(change), change.before
        if change.forgets_session and home is not None:
            forgets = self.sleeping.forget(home.user, home.server, self.clock.now())
            stored.append(asyncio.create_task(forgets))
        return stored

    async def end(self, lease_id: str, stop: Stop, *, by_user: bool = False) -> None:
        """Let a lease end; the first reason stays. Returns once that is stored, or cannot be.

        `by_user`: its user has caused it, whatever the reason says, so a start that waits pays for
        what was bought for it. Termination does the rest.
        """
        lease = self.leases.get(lease_id)
        if lease is None or lease.state in {LeaseState.ENDING, LeaseState.ENDED}:
            return
        is_ready = lease.state is LeaseState.READY
        stop = self._with_retention(lease, self._as_ec2_announced(lease, stop))
        is_explained = self._is_announced(lease)
        following = self.leases.open_successor(lease_id)
        stop = self.continuations.hand_over(lease, stop, is_explained=is_explained)
        if following is not None and not self._is_live(following):  # it ends with its server
            self._abandon(following, by_user=by_user or stop.reason in BY_USER_OF_SERVER)
        stop = with_sleep(stop, lease.idle.then, lease.sleep, is_ready=is_ready)
        log.info("Ending %s (%s): %s %s", lease_id, lease.state, stop.reason, stop.message)
        # The hub may terminate it before EC2 does: then no listing says that EC2 reclaimed it.
        if found := interruption_of(replace(lease, stop=stop), self.clock.now()):
            self.interruptions.record(found)
        self._abandon(lease, by_user=by_user or stop.reason in BY_USER)
        self.termination_wanted.set()
        if lease.cluster is not None:
            self.wake()  # its workers end, too
        self.leases.notify_agent(lease_id)  # its heartbeat wakes after the change, before the store
        marks = lease.marks if lease.ready_at else self.leases.times.ended(lease)
        changes = {"stop": stop, "stop_requested_at": self.clock.now(), "marks": marks}
        try:
            await self.leases.change(lease_id, state=LeaseState.ENDING, **changes)
        except StoreError as error:
            log.error("That %s ends is not stored yet: %s", lease_id, error)

    def stopping_seconds(self, lease: Lease) -> float:
        """Seconds for which the agent of a lease that is ending has been awaited, those of earlier
        processes included."""
        began = self.stopping_since.get(lease.lease_id)
        if began is None:
            return carried_over(lease, self.settings)
        return asyncio.get_running_loop().time() - began

    async def cut_sleep_short(self, user: str, server: str) -> None:
        """Let the stops of a server that have begun save no session any further."""
        for lease in list(self.leases.open(LeaseState.ENDING)):
            if (lease.user, lease.server) != (user, server) or not lease.saves_session:
                continue
            assert lease.stop is not None
            # The time that the stop itself may take begins now, or has begun.
            waited = self.stopping_seconds(lease)
            used = min(waited, lease.stop.save_seconds)
            stop = lease.stop.model_copy(update={"sleep": None, "save_seconds": used})
            log.info("Saving the session of %s no further, as asked", lease.lease_id)
            self.leases.notify_agent(lease.lease_id)
            try:
                await self.leases.change(lease.lease_id, stop=stop, waited=waited)
            except StoreError as error:
                log.error("The stop of %s is not stored yet: %s", lease.lease_id, error)

    async def end_server(self, lease_id: str, stop: Stop, *, by_user: bool = False) -> None:
        """Let a lease end for good: nothing continues its server, also if that had begun."""
        successor = self.leases.open_successor(lease_id)
        if successor is not None:
            await self.end(successor.lease_id, stop, by_user=by_user)
        await self.end(lease_id, stop, by_user=by_user)

    def _is_live(self, lease: Lease) -> bool:
        found = self.leases.get(lease.lease_id)
        return found is not None and found.state in LIVE

    def _abandon(self, lease: Lease, *, by_user: bool) -> None:
        """A lease ends, as it was before."""
        if by_user and lease.state is LeaseState.WAITING:
            self.abandoned_starts.add(lease, self.clock.now())

    def _as_ec2_announced(self, lease: Lease, stop: Stop) -> Stop:
        """An instance that EC2 reclaims shuts down, or falls silent, before a listing says why; and
        some end without a reason, which a server that is to continue survives as well."""
        current = lease.segments[-1] if lease.segments else None
        is_spot = current is not None and current.market == Market.SPOT
        if not is_spot or lease.state is not LeaseState.READY:
            return stop
        if stop.reason not in {"failed", "lost"}:
            return stop
        if self._is_announced(lease):
            return RECLAIMED
        continues = lease.sleep.after_interruption != "stop"
        return UNEXPLAINED if continues and self._has_ended_unexplained(lease) else stop

    def _is_announced(self, lease: Lease) -> bool:
        """Whether a notice, a listing, the end of its block or an event says that EC2 reclaims the
        instance."""
        instance = self.instances.instance_of(lease)
        if self.departures.is_leaving(instance, self.clock.now()):
            return True
        is_listed = instance is not None and is_spot_interruption(instance.state_reason)
        return is_listed or self.leases.contact(lease.lease_id).interruption_at is not None

    def _has_ended_unexplained(self, lease: Lease) -> bool:
        """Whether the instance is gone, and neither somebody nor itself has ended it."""
        instance = self.instances.instance_of(lease)
        if instance is None:
            return self.instances.is_gone(lease.instance_id or "")
        return instance.state in GONE and is_unexplained(instance.state_reason)

    def _with_retention(self, lease: Lease, stop: Stop) -> Stop:
        """The stop with what becomes of the instance, in a field for the agent and in words."""
        instance = self.instances.instance_of(lease)
        has_data = lease.state is LeaseState.READY or lease.on_retained
        if not has_data or instance is None or instance.state in GONE or stop.sleep == "hardware":
            return stop
        stopped = [k for k in self.retained.all() if k.user == lease.user and k.then == "stop"]
        contact, market = self.leases.contact(lease.lease_id), Market(instance.market)
        decision = decide(
            lease.after_stop,
            stop.reason,
            market=market,
            agent_can=contact.protocol >= 2 or lease.on_retained,
            was_kept=lease.on_retained,
            reclaimed=(market is Market.SPOT and contact.interruption_at is not None)
            or self.blocks.is_closing(instance, self.clock.now())
            # A stopped one starts on another host, with its disk.
            or (
                lease.after_stop.then == "linger"
                and self.scheduled_events.left_at(instance) is not None
            ),
            stopped_already=sum(k.instance_id != lease.instance_id for k in stopped),
        )
        return _in_words(stop, decision)

    def lose(self, lease: Lease, instance: Instance | None) -> None:
        """The instance of a start is gone: `LostStarts` replaces it or ends the start."""
        if instance is not None and instance.state_reason == SPOT_TERMINATION:
            self.interrupted(instance)
        if lease.lease_id not in self.judged:
            self.lost.setdefault(lease.lease_id, (lease, instance))
            self.start_lost.set()

    def interrupted(self, instance: Instance) -> None:
        """EC2 has reclaimed a spot instance that no server uses yet, or says that it will."""
        self.interruptions.record(interruption_seen(instance, self.clock.now()))

    def running(self) -> list[Instance]:
        """This store's instances in any state, also those that no listing shows yet."""
        listed = self.instances.listed
        ours = [each for each in listed.values() if each.tags.get(STORE) == self.store_id]
        return ours + [
            as_instance(expected)
            for instance_id, expected in self.launches.expected.items()
            if instance_id not in listed and expected.launched.instance_type
        ]

    def knows_instance(self, instance_id: str) -> bool:
        """Whether a listing or a launch response has named it."""
        return instance_id in self.instances.listed or instance_id in self.launches.expected


def _in_words(stop: Stop, decision: Decision) -> Stop:
    if not decision.why_not:
        return stop.model_copy(update={"then": decision.then})
    said = stop.message.rstrip(". ")
    words = f"{said}. Its machine was not kept: {decision.why_not}" if said else decision.why_not
    return stop.model_copy(update={"then": decision.then, "message": words[:500]})
