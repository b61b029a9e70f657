"""The provisioner of one hub: its state, and the controllers that act on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..core.instances.retention_rules import Kept
from ..core.profiles.profiles import InstanceType
from ..core.sleep.rules import SleepRules
from ..wire import IdlePolicy, Step, Stop
from .alarms.leaked_instances import LeakedInstances
from .alarms.outbox import Outbox
from .alarms.quota_readings import QuotaReadings
from .alarms.watch import AlarmWatch
from .alarms.weekly_summary import WeeklySummary
from .clusters.clusters import Clusters
from .clusters.controller import ClusterWorkers
from .clusters.groups import ClusterGroups
from .clusters.membership import GroupMembership
from .garbage_collection import GarbageCollection
from .gauges import Figures, figures
from .homes.placement import Placement
from .homes.server_copies import ServerCopies
from .homes.server_homes import ServerHomes
from .homes.snapshots import HomeSnapshots
from .homes.storage_costs import StorageCosts
from .homes.volumes import HomeVolumes
from .homes.zone_migration import ZoneMigrations
from .instances.boot_logs import BootLogs
from .instances.claims import Claims
from .instances.demand import wake_claims_for
from .instances.ended_instances import EndedInstances
from .instances.inventory import Inventory
from .instances.listing import Listing
from .instances.overhead import Overhead
from .instances.scheduled_events import ScheduledEventReadings
from .instances.surplus import InstanceTermination
from .instances.unused_reservations import UnusedReservations
from .launch.controller import LaunchController
from .launch.fleet_calls import FleetCalls
from .launch.spot_waits import SpotWaits
from .launch.stopped_instances import StoppedInstances
from .lifecycle.admin_actions import AdminActions
from .lifecycle.agent_calls import AgentCalls
from .lifecycle.continuation import Continuation
from .lifecycle.departure_warnings import DepartureWarnings
from .lifecycle.heartbeat import Heartbeats
from .lifecycle.home_attachment import HomeAttachment
from .lifecycle.instance_loss import InstanceLoss
from .lifecycle.payer_stops import LostPayers, PayerStops
from .lifecycle.recovery import Recovery, SavedServer
from .lifecycle.rehearsals import Rehearsals
from .lifecycle.repricing import Repricing
from .lifecycle.server_cost import ServerCosts
from .lifecycle.server_moves import ServerMoves
from .lifecycle.spot_events import SpotEvents
from .lifecycle.start import Start
from .lifecycle.start_timeout import LostStarts, SilentInstances, StartFailures, StartTimeouts
from .lifecycle.stored_waits import StoredWaits
from .lifecycle.tagging import Tagging
from .lifecycle.termination import Termination
from .lifecycle.unhealthy_instance import UnhealthyInstances
from .limits.admission import Admission
from .limits.controller import LimitStops
from .limits.survey import LimitSurveys
from .limits.waiting_starts import WaitingStarts
from .model.cloud.cloud import Cloud, CloudError
from .model.cloud.instance import Instance
from .model.leases.home_change import NO_CHANGE, HomeChange
from .model.leases.lease import IntentState, Lease, LeaseState, StepEvent
from .model.leases.run import RunState
from .model.settings import Settings
from .offers.market import MarketData
from .overview import Overview
from .pass_preparation import ClockUpkeep, StoreUpkeep
from .pool.history import StartHistory
from .pool.homes_ahead import HomesAhead
from .pool.instance_failures import PoolInstanceFailures
from .pool.purchases import PoolPurchases
from .pool.standing import WarmPool
from .pool.stopped_places import StoppedPlaces
from .pool.targets import PoolTargets
from .reconciler import Controller, Reconciler
from .reports.gpu_time import GpuTime
from .reports.lease_reports import LeaseReports
from .retention.controller import Retention
from .retention.running_costs import RunningCosts
from .runs.controller import RunLeases
from .runs.runs import UserRuns
from .runtime.clock import Clock
from .runtime.task_group import TaskGroup
from .sleeping import Sleeping
from .state.home_records import HomeRecords, PayersOf
from .state.lease_events import LeaseEvents
from .state.start_durations import StartDurations
from .state.state import State
from .state.user_accounts import UserAccounts
from .store.store import Store, StoreError
from .usage import Usage


class Provisioner:
    """Instances and leases of one hub. Holds no object of JupyterHub."""

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        settings: Settings,
        types: Mapping[str, InstanceType],
        clock: Clock,
        accounts: UserAccounts,
        ended: Callable[[Lease], None] = lambda lease: None,
        payers_of: PayersOf = lambda users: {},
        lost_payers: LostPayers = lambda charges: set(),
    ) -> None:
        """`types` is the bundled table; `accounts` are loaded; `ended` is called with each lease
        that has ended; `payers_of` says who pays for the homes of users who do not pay themselves;
        `lost_payers` says which payers their users may no longer charge."""
        self.settings, self._cloud, self._store = settings, cloud, store
        self.accounts = accounts
        homes = HomeRecords(store, settings, clock, payers_of, accounts)
        self._state = state = State(store, settings, clock, homes, accounts)
        self._tasks = tasks = TaskGroup()
        self.market = market = MarketData.of(state, cloud, types)
        prices, volumes = market.prices, HomeVolumes(state, cloud)
        overhead, boot_logs = Overhead(state, store, prices), BootLogs(cloud)
        failures = StartFailures(state, cloud, boot_logs, market.offers, prices, tasks)
        fleet, claims = FleetCalls(state, cloud, store, market.images), Claims(state)
        # Controllers that are also called between the passes.
        self._termination = Termination(state, cloud, volumes, prices, tasks, ended)
        self._lost_starts = LostStarts(state, failures)
        self._continuation = Continuation(state, market.offers)
        self._heartbeats = heartbeats = Heartbeats(state, ServerCosts(state, prices))
        self._recovery = Recovery(state, volumes, prices)
        offers = market.offers
        self._retention = Retention(state, cloud, volumes, overhead, offers, boot_logs, tasks)
        stopped = StoppedInstances(state, cloud, market.offers)
        self._launch = LaunchController(state, market.offers, fleet, stopped, tasks)
        self._home_attachment = HomeAttachment(state, volumes, tasks)
        self._reports = LeaseReports(state)
        self._scheduled_events = ScheduledEventReadings(state, cloud)
        migrations = ZoneMigrations(state, cloud, volumes, tasks)
        storage_costs = StorageCosts(state, store, lambda: prices.resources)
        self.usage = Usage(state, store)
        self.alarms = alarms = Outbox(store, settings.alarms, settings.alarm_destinations)
        self.admission = admission = Admission(state, market)
        leaked, copies = LeakedInstances(state, prices), ServerCopies(state, cloud, volumes, tasks)
        controllers: tuple[Controller, ...] = (  # in this order in each pass
            # Times first: whatever follows measures with them.
            ClockUpkeep(state, tasks),
            # What has happened until now is reported, also if the pass ends early.
            self._reports,
            GpuTime(state, market.catalogue),
            # What was decided continues, also if the store fails and the pass ends at the next one.
            self._termination,
            # Without a store that is held, another hub may be at work: nothing is concluded.
            StoreUpkeep(state, store, tasks),
            # What is gone or over: leases go back to the waiting list, or end.
            InstanceLoss(state),
            self._lost_starts,
            # Before anything of a single user that the store may refuse.
            StartTimeouts(state, failures),
            Placement(state),
            heartbeats,
            StoredWaits(state),
            # Limits judge by prices that were just read.
            Repricing(state, prices),
            LimitStops(state, market),
            PayerStops(state, lost_payers),
            WaitingStarts(state, market),
            self._recovery,
            # Servers whose instance is being reclaimed want another one: it is bought below.
            DepartureWarnings(state),
            self._continuation,
            # Workers follow their server, whose end is decided by now.
            ClusterWorkers(state, market, admission),
            ClusterGroups(state, cloud, tasks, GroupMembership(cloud, state.settings.hub)),
            # Runs whose lease is over are queued again, or end.
            RunLeases(state, store, tasks),
            # What is retained serves its user before anything is bought, or becomes surplus.
            self._retention,
            # What shall wait for nobody in particular comes after what somebody waits for.
            StartHistory(state, store, tasks),
            PoolTargets(state, market),
            # All above changes what is missing and surplus: it is weighed once, here.
            Inventory(state),
            HomesAhead(state, cloud, volumes, tasks),
            SilentInstances(state, failures),
            # Before what judges the instances that are gone since the last pass.
            StoppedPlaces(state, overhead, market.offers),
            PoolInstanceFailures(state),
            self._launch,
            PoolPurchases(state, market, fleet, tasks),
            InstanceTermination(state, cloud, overhead, tasks),
            # What follows the leases as they are by now.
            Tagging(state, cloud, tasks),
            self._home_attachment,
            migrations,
            copies,
            HomeSnapshots(state, cloud, volumes, storage_costs, tasks),
            RunningCosts(state, overhead, tasks),
            UnusedReservations(state, market, overhead, tasks),
            EndedInstances(state, cloud, overhead, tasks),
            AlarmWatch(state, market, alarms, QuotaReadings(cloud), leaked, tasks),
            WeeklySummary(state, self.usage, alarms, tasks),
        )
        self._reconciler = Reconciler(state, controllers)
        self._starts = starts = Start(state, claims, prices, overhead, tasks)
        unhealthy = UnhealthyInstances(state, claims, market.offers)
        self.agents = AgentCalls(state, starts, heartbeats, unhealthy)
        self.homes = ServerHomes(state, volumes, migrations, copies)
        self.pool = WarmPool(state, market)
        self.sleeping = Sleeping(state)
        self.overview = Overview(state, market, LimitSurveys(state, market, tasks))
        self.admin_actions = AdminActions(state)
        self.rehearsals = Rehearsals(state, market, overhead)
        self.spot_events = SpotEvents(state)
        self.clusters = Clusters(state, market, admission)
        self.runs = UserRuns(state, store, market, admission)
        self.moves = ServerMoves(state, admission)
        self.spot_waits = SpotWaits(state, admission)
        self.start_durations = StartDurations(store, tasks)

    # --- life ---

    async def start(self) -> None:
        """Read the store and begin to watch. Raises `StoreError`, `CloudError`."""
        state, spawn = self._state, self._tasks.spawn
        garbage_collection = GarbageCollection(state, self._cloud)
        first = state.spending.first_day()
        snapshot = await self._store.load(first, state.spending.older_costs())
        state.zones.by_subnet = dict(await self._cloud.zones_of(self.settings.subnets))
        state.load(snapshot)
        # No profile may name those of leases any more.
        wanted = {x for lease in snapshot.leases for x in lease.spec.instance_types}
        self.market.want({*self.settings.want_types, *wanted})
        await state.sleeping.wake(state.leases.open())
        self._recovery.load(snapshot.leases)
        self._reports.load()
        await self.alarms.load(self.now())
        await self._termination.reconcile(self.now())
        spawn(Listing(state, self._cloud).run(), "watch")
        spawn(self.market.prices.run(), "prices")
        spawn(self.market.catalogue.run(), "catalogue")
        spawn(self.market.reserved.run(), "capacity reservations")
        spawn(self._scheduled_events.run(), "scheduled events")
        spawn(self._load_image(), "image")
        spawn(garbage_collection.run(), "reaper")
        spawn(garbage_collection.run_templates(), "templates")
        for intent in snapshot.intents:
            if intent.state is IntentState.OPEN:
                self._launch.replay(intent)
        spawn(self._reconciler.run_on(state.termination_wanted, self._termination), "ends")
        spawn(self._reconciler.run_on(state.start_lost, self._lost_starts), "lost starts")
        spawn(self._reconciler.run_on(state.lease_assigned, self._home_attachment), "homes")
        spawn(self._reconciler.run_on(state.continuation_wanted, self._continuation), "moves")
        spawn(self._reconciler.run(), "reconcile")

    async def close(self) -> None:
        """Stop watching. Instances and leases remain; the next process takes them up."""
        await self._tasks.end()
        await self.market.images.close()
        await self._store.write_behind.drain()
        await self._store.close()

    def now(self) -> datetime:
        """The wall clock, UTC."""
        return self._state.clock.now()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run in the background until the provisioner is closed; a failure is logged."""
        self._tasks.spawn(work, name)

    def figures(self) -> Figures:
        """How things stand now, in numbers."""
        undelivered, passed_at = self.alarms.oldest(), self._reconciler.passed_at
        return figures(self._state, self.market, undelivered, passed_at)

    def lease_states(self) -> Set[LeaseState]:
        """Those that open leases are in."""
        return {lease.state for lease in self._state.leases.open()}

    @property
    def lease_events(self) -> LeaseEvents:
        """What happens to leases from now on, for one reader."""
        return self._state.lease_events

    async def _load_image(self) -> None:
        """Before the first start waits for it."""
        await self.market.images.current()

    # --- a server's life ---

    async def request(
        self, lease: Lease, home: HomeChange = NO_CHANGE, *, afresh: bool = False
    ) -> None:
        """Put a lease on the waiting list, and let the change of its home begin; `afresh` gives up
        what is retained for its server.

        A start that is refused here changes and gives up nothing: the disk of a retained instance
        has user data.
        Raises `LimitReached` where it cannot afford its first hour, `HomeChanged` where its home
        has just changed, and `StoreError` where it cannot be stored; then it ends at once. In all
        cases nothing is bought. A caller that is cancelled does not cancel the write: whether that
        succeeds decides what is given up.
        """
        state, undecided = self._state, ExitStack()
        begun = StepEvent(Step.REQUEST, self.now(), "Looking for a machine")
        await self.admission.prepare(lease.spec.instance_types)
        lease = self.admission.admit(lease)  # reserves by being in the registry: no await yet
        stored = state.begin_changing_home(home)
        state.leases.times.requested(lease)
        retained = state.retained.given_up_with(lease) if afresh else nullcontext(())
        given_up = undecided.enter_context(retained)
        stored.append(state.leases.begin_adding(replace(lease, events=(begun,)), given_up))
        decided = self._decide_when_stored(lease, stored, undecided)
        await self._tasks.finish(decided, f"request of {lease.lease_id}")

    async def _decide_when_stored(
        self, lease: Lease, stored: Sequence[asyncio.Task[None]], undecided: ExitStack
    ) -> None:
        state = self._state
        try:
            with undecided:
                await asyncio.gather(*map(asyncio.shield, stored))
        except StoreError:
            stop = Stop(reason="failed", message="The hub could not write its database")
            await state.end(lease.lease_id, stop)
            raise
        wake_claims_for(state, lease)
        state.wake()

    async def wait_ready(self, lease_id: str, timeout: float) -> Lease:
        """The lease once its notebook listens and that is stored.

        Raises `StartFailed` when it ended before, `TimeoutError` after `timeout` seconds.
        """
        return await self._starts.wait_ready(lease_id, timeout)

    def route_added(self, lease_id: str) -> None:
        """JupyterHub has added the route of a server, which ends its start."""
        self._starts.route_added(lease_id)

    async def end(self, lease_id: str, stop: Stop) -> None:
        """Let a lease end; the first reason stays. Returns once that is stored, or cannot be."""
        await self._state.end(lease_id, stop)

    async def end_server(self, lease_id: str, stop: Stop, *, by_user: bool = False) -> None:
        """The same, and nothing continues its server: for a stop that its user or an admin asks
        for. `by_user` is that of `State.end`."""
        await self._state.end_server(lease_id, stop, by_user=by_user)

    async def wait_ended(self, lease_id: str, timeout: float) -> None:
        """Wait until a lease that is ending has ended.

        Raises `TimeoutError` after `timeout` seconds, unless its agent flushes the home by then.
        """
        await self._termination.wait_ended(lease_id, timeout)

    def stop_seconds(self, lease_id: str) -> float:
        """How long the agent of an ending lease may take, the saving of its session included."""
        return self._termination.stop_seconds(lease_id)

    def flush_progress(self, lease_id: str) -> str:
        """How far the agent of an ending lease has come with writing its files, for people; empty
        unless that is under way."""
        leases = self._state.leases
        if leases.get(lease_id) is None:
            return ""
        return leases.contact(lease_id).flush_progress(asyncio.get_running_loop().time())

    async def wait_agent_stopped(self, lease_id: str, timeout: float) -> None:
        """Wait until the agent of an ending lease has closed notebook and home, or for `timeout`
        seconds."""
        await self._termination.wait_agent_stopped(lease_id, timeout)

    async def set_policy(self, lease: Lease, policy: IdlePolicy, sleep: SleepRules) -> None:
        """Let other rules hold for a running server. Raises `StoreError`."""
        await self._heartbeats.set_policy(lease, policy, sleep)

    # --- servers of an earlier process ---

    async def first_listing(self, timeout: float) -> bool:
        """True once the instances are known; waits at most `timeout` seconds for it."""
        return await self._state.instances.first_listing(timeout)

    def take_up(self, user: str, server: str, lease_id: str) -> Lease | None:
        """The stored lease of a server that JupyterHub asks for, by id or else by name."""
        return self._recovery.take_up(user, server, lease_id)

    async def rebuild(self, user: str, server: str, saved: SavedServer) -> Lease | None:
        """A lease that the store lost, from what JupyterHub saved; None where its instance is not
        there. Raises `CloudError`, `StoreError`."""
        return await self._recovery.rebuild(user, server, saved)

    async def wait_heard(self, lease: Lease) -> Lease:
        """Wait until this process has heard of a ready lease, or it is ready no more."""
        return await self._heartbeats.wait_heard(lease)

    # --- what is known of leases and instances ---

    def lease(self, lease_id: str) -> Lease | None:
        """An open lease, or one that ended within minutes."""
        return self._state.leases.get(lease_id)

    def lease_of(self, user: str, server: str) -> Lease | None:
        """The newest open lease of a server."""
        return self._state.leases.of_server(user, server)

    def is_active(self, user: str) -> bool:
        """Whether a server or run of this user has not ended."""
        runs = self._state.runs.of_user(user)
        is_open = any(run.state is not RunState.ENDED for run in runs)
        return is_open or any(lease.user == user for lease in self._state.leases.open())

    def last_ended(self, user: str, server: str) -> Lease | None:
        """The newest ended lease of a server: the next login shows why it stopped."""
        return self._state.leases.last_ended(user, server)

    def remembered(self, lease_id: str) -> Lease | None:
        """An open lease, or one that ended lately."""
        return self._state.leases.remembered(lease_id)

    async def wait_for_change(self, lease_id: str, timeout: float) -> bool:
        """Wait for the next change of a lease. False when `timeout` seconds passed."""
        return await self._state.leases.wait_for_change(lease_id, timeout)

    def knows_instance(self, instance_id: str) -> bool:
        """Whether a listing shows it, or a launch has been answered with it."""
        return self._state.knows_instance(instance_id)

    def instance(self, instance_id: str | None) -> Instance | None:
        """An instance as the last listing showed it."""
        return self._state.instances.listed.get(instance_id or "")

    async def next_listing(self, timeout: float) -> bool:
        """Wait until a listing completes. False when `timeout` seconds passed."""
        return await self._state.instances.next_listing(timeout)

    @property
    def listing_failure(self) -> CloudError | None:
        """Why the last listing of instances failed; None where it did not."""
        return self._state.instances.failure

    # --- what is retained for a server ---

    def retained(self, user: str, server: str) -> tuple[Kept, ...]:
        """The instances that are retained for a server and still have time, the latest last."""
        return self._state.retained.of_server(user, server)

    async def give_up_retained(self, user: str, server: str) -> None:
        """What is retained for a server shall end. Raises `StoreError`."""
        await self._state.retained.give_up(user, server)

    async def rename_retained(self, user: str, server: str, new: str) -> None:
        """What is retained waits for the server under its new name. Raises `StoreError`."""
        await self._state.retained.rename(user, server, new)

    def why_not_restarted(self, lease_id: str) -> str:
        """Of a lease whose stopped instance EC2 was too busy to start; else empty."""
        return self._retention.why_not_started(lease_id)
