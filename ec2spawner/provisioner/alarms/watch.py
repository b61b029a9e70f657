"""Evaluates the rules of alarms on what the hub knows, once a minute."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ...core.alarms import account_rules, server_rules
from ...core.alarms.account_rules import RefusedQuota, Running, SpotPool
from ...core.alarms.alarm import Alarm, Kind
from ...core.alarms.disk_rules import ServerDisks, disks_nearly_full
from ...core.alarms.limit_rules import limit_alarm
from ...core.alarms.run_rules import EndedRun, runs_ended
from ...core.alarms.server_rules import GpuServer
from ...core.limits.bounds import Kind as LimitKind
from ...core.limits.standing import COUNTED
from ...core.offers.launch_errors import ErrorClass
from ...wire import Market
from ..limits.reaches import Reaches, limited_scopes
from ..model.cloud.instance import Instance, InstanceState
from ..model.leases.lease import Lease, LeaseState
from ..model.leases.run import Run
from ..offers.market import MarketData
from ..pool.standing import WarmPool
from ..runs.summary import summary
from ..runtime.cooperative_iteration import cooperatively
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .leaked_instances import LeakedInstances
from .outbox import Outbox
from .quota_readings import QuotaReadings
from .unused_pool import unused_pool

INTERVAL: Final = 60.0
"""Seconds between two evaluations: what they look for lasts for minutes at least."""

ENDED_WITHIN = timedelta(days=1)
"""Of runs whose end is reported."""

HEARD_WITHIN: Final = 180.0
"""Seconds: what an agent reported longer ago says nothing about now. Agents call each minute."""


@dataclass(slots=True)
class AlarmWatch:
    """Raises alarms in the background: no start waits for a rule or for the store."""

    state: State
    market: MarketData
    outbox: Outbox
    quotas: QuotaReadings
    leaked: LeakedInstances
    tasks: TaskGroup
    _due_at: float = 0.0
    """By the hub's uptime, in seconds."""
    _is_evaluating: bool = False
    _unattended_since: dict[str, float] = field(default_factory=dict)
    """By lease id: uptime since which a GPU of it has been unattended, in seconds."""
    _exceeded: set[tuple[str, LimitKind]] = field(default_factory=set)
    """Limits that more ran than they allow in the last evaluation: an alarm needs two of them."""

    async def reconcile(self, now: datetime) -> None:
        """Begin an evaluation if one is due. Never raises."""
        uptime = self.state.clock.uptime()
        if self._is_evaluating or uptime < self._due_at or not self.outbox.destinations:
            return
        self._due_at = uptime + INTERVAL
        self._is_evaluating = True
        self.tasks.spawn(self._evaluate(now), "alarms")

    async def _evaluate(self, now: datetime) -> None:
        try:
            incidents = self.state.incidents.waiting()
            await self.outbox.add(incidents)
            self.state.incidents.stored(incidents)
            await self.outbox.add(await self._of_servers(now))
            await self.outbox.add(await self._of_prices(now))
            await self._add_limits(now)
            await self._add_storm(now)
            await self.outbox.add(await self._of_leaks(now))
            await self.outbox.add(self._of_runs(now))
            pool, after = WarmPool(self.state, self.market), self.outbox.rules.pool_unused
            await self.outbox.add([*unused_pool(pool, after, now)])
            await self._add_quotas(now)
            await self.outbox.upkeep(now)
        finally:
            self._is_evaluating = False

    # --- servers ---

    async def _of_servers(self, now: datetime) -> Sequence[Alarm]:
        found: list[Alarm] = []
        busy_since, self._unattended_since = self._unattended_since, {}
        async for lease in cooperatively(self.state.leases.open(LeaseState.READY)):
            if server := self._gpu_server(lease):
                found += self._of_server(lease, server, busy_since, now)
            if lease.is_server and self._is_heard(lease):
                disks = self.state.leases.contact(lease.lease_id).disks
                user = self.state.accounts.name(lease.user)
                known = ServerDisks(lease.lease_id, user, lease.server, disks)
                found += disks_nearly_full(known, self.outbox.rules, now)
        return found

    def _of_server(
        self, lease: Lease, server: GpuServer, busy_since: Mapping[str, float], now: datetime
    ) -> Iterator[Alarm]:
        rules, uptime = self.outbox.rules, self.state.clock.uptime()
        if alarm := server_rules.idle_gpu(server, rules, now):
            yield alarm
        if self._is_unattended(lease):
            since = busy_since.get(lease.lease_id, uptime)
            self._unattended_since[lease.lease_id] = since
            if uptime - since >= rules.unattended_gpu:
                yield server_rules.unattended_gpu(server, uptime - since, now)

    def _gpu_server(self, lease: Lease) -> GpuServer | None:
        """The server as the rules see it; None without a GPU."""
        instance = self.state.instances.instance_of(lease)
        kind = self.market.catalogue.types.get(instance.instance_type) if instance else None
        if instance is None or kind is None or not kind.gpu:
            return None
        current = lease.segments[-1] if lease.segments else None
        return GpuServer(
            lease_id=lease.lease_id,
            user=self.state.accounts.name(lease.user),
            server=lease.server,
            instance=f"{instance.instance_id} ({instance.instance_type})",
            usd_per_hour=current.usd_per_hour if current else None,
            idle_since=self.state.leases.contact(lease.lease_id).idle_since,
        )

    def _is_unattended(self, lease: Lease) -> bool:
        # What works on a worker, or for a run, never belongs to a kernel or terminal.
        if not lease.is_server or not self._is_heard(lease):
            return False
        return self.state.leases.contact(lease.lease_id).gpu_unattended is True

    def _is_heard(self, lease: Lease) -> bool:
        heard_at = self.state.leases.contact(lease.lease_id).heard_at
        return heard_at is not None and self.state.clock.uptime() - heard_at <= HEARD_WITHIN

    # --- runs ---

    def _of_runs(self, now: datetime) -> Sequence[Alarm]:
        """Also of what ended while no hub raised alarms; each is raised once."""
        ended = self.state.runs.ended_to_report(now - ENDED_WITHIN)
        return [runs_ended([_ended(self.state, run) for run in runs], now) for runs in ended]

    # --- the account ---

    async def _of_leaks(self, now: datetime) -> Sequence[Alarm]:
        return [alarm async for alarm in cooperatively(self.leaked.alarms(now))]

    async def _of_prices(self, now: datetime) -> Sequence[Alarm]:
        rules, prices = self.outbox.rules, self.market.prices
        found = list(account_rules.discounts_expiring(prices.discounts, rules, now))
        pools = Counter(
            (each.instance_type, each.zone)
            for each in self._running()
            if each.market is Market.SPOT
        )
        for (name, zone), number in pools.items():
            pool = SpotPool(name, zone, number, prices.history(name, zone))
            if alarm := account_rules.price_rise(pool, rules, now):
                found.append(alarm)
            await asyncio.sleep(0)
        return found

    async def _add_limits(self, now: datetime) -> None:
        """Of all scopes with limits: homes use them, too, while no server runs."""
        state, rules = self.state, self.outbox.rules
        if Kind.LIMIT not in rules.kinds:
            return
        reaches = await Reaches(state, self.market).of(limited_scopes(state), now)
        before, self._exceeded = self._exceeded, set()
        found: list[Alarm] = []
        for reach in (each for of_scope in reaches.values() for each in of_scope):
            standing = state.accounts.displayed_scope(reach.standing)
            if standing.kind not in COUNTED:  # an instance may be replaced at this moment
                self._exceeded.add((standing.scope, standing.kind))
                if (standing.scope, standing.kind) not in before:
                    continue
            alarm = limit_alarm(standing, reach.bounds, state.spending.today(), rules, now)
            found += [alarm] if alarm else []
        await self.outbox.add(found)

    async def _add_storm(self, now: datetime) -> None:
        rules = self.outbox.rules
        since = now - timedelta(seconds=rules.interruptions_within)
        found = self.state.interruptions.since(since)
        if len(found) < rules.interruptions:
            return
        reported_at = await self.outbox.last_raised(Kind.INTERRUPTIONS, since)
        if storm := account_rules.interruption_storm(found, rules, reported_at, now):
            await self.outbox.add([storm])

    async def _add_quotas(self, now: datetime) -> None:
        if Kind.QUOTA not in self.outbox.rules.kinds:
            return
        await self.quotas.refresh(now)
        types = self.market.catalogue.types
        running = [
            Running(each.market, each.instance_type, types[each.instance_type].vcpus)
            for each in self._running()
            if each.instance_type in types and not each.in_block  # that needs no quota
        ]
        refused = [
            RefusedQuota(scope.market, scope.quota_class, mark.code)
            for scope, mark in self.market.offers.sold_out.all(now)
            if mark.error_class is ErrorClass.QUOTA and scope.market is not None
        ]
        listed, rules = self.quotas.listed, self.outbox.rules
        # Of one quota the later alarm is raised: EC2's refusal says more than this hub's sum.
        found = (
            *account_rules.quotas_nearly_used(running, listed, rules, now),
            *account_rules.quotas_refused(refused, running, listed, now),
        )
        await self.outbox.add(found)

    def _running(self) -> Iterator[Instance]:
        """This hub's instances that use a quota and cost money."""
        states = {InstanceState.PENDING, InstanceState.RUNNING}
        return (each for each in self.state.running() if each.state in states)


def _ended(state: State, run: Run) -> EndedRun:
    found = summary(state, run)
    return EndedRun(
        number=run.number,
        array=run.array,
        user=state.accounts.name(run.user),
        path=run.path,
        outcome=run.outcome or "failed",
        message=run.message,
        usd=found.usd,
    )
