"""A world that runs by itself: people wait for their servers, instances boot and call the hub.

Time is the loop's (`VirtualTimeLoop`), so nothing is shortened but what would only be longer. The
hub's process can be killed at any moment: what it has not written by then was never written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from ec2spawner import data
from ec2spawner.core import tags
from ec2spawner.provisioner.instances.claims import ClaimRefused, InstanceUnwanted
from ec2spawner.provisioner.lifecycle.start import StartFailed
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import Instance
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.wire import Market, Stop
from tests.simulated_cloud import Call, Clock, Fault, Machine, SimulatedCloud
from tests.unit.provisioner.world import SETTINGS, Agent, World
from tests.virtual_time import VirtualTimeLoop

LATENCY = 0.3
"""Seconds that a call to EC2 takes to arrive, and its answer to come back."""

START_TIMEOUT = 300.0
"""JupyterHub waits so long for a server."""

RETRY = 5.0
"""Seconds after which an agent calls again where no hub answered."""

HUB_LOST_AFTER = 900.0
"""Seconds without a hub after which an idle or unassigned instance powers off."""

SHOWN_FOR = 3600.0
"""Seconds that EC2's listings show a terminated instance."""

REAL_PAUSES = Settings(
    hub=SETTINGS.hub,
    region=SETTINGS.region,
    subnets=SETTINGS.subnets,
    want_types=("g4dn.xlarge",),
    boot_timeout=120.0,
    agent_silent_after=200.0,
    stop_timeout=20.0,
    busy_interval=3.0,
    launch_timeout=60.0,
    recovery_grace=60.0,
)

CALLS = (
    "launch",
    "list_instances",
    "terminate",
    "tag",
    "create_volume",
    "attach_volume",
    "detach_volume",
    "list_volumes",
    "volume",
    "stop",
    "start",
)
LOST = CloudError("ReadTimeoutError", "no answer", retryable=True)
BUSY = CloudError("RequestLimitExceeded", "slow down", retryable=True)

T = TypeVar("T")


class HubIsDown(Exception):
    """No response: the process is gone, or ended while it responded."""


class LoopClock(Clock):
    """The loop's time as UTC; `skew` seconds before or behind it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.skew = 0.0

    def __call__(self) -> datetime:
        return self.time + timedelta(seconds=self._loop.time() + self.skew)

    def monotonic(self) -> float:
        return self._loop.time()


@dataclass(slots=True)
class DistantCloud(SimulatedCloud):
    """Calls take time, so that a process can end while they are on their way."""

    launched: Callable[[str], None] = lambda instance_id: None
    """Called for each instance, even when the response is lost."""
    boots: set[tuple[str, datetime]] = field(default_factory=set)
    """Instance id and launch time of each start of a stopped instance."""
    contested: list[Call] = field(default_factory=list)
    """Calls to attach a volume that another instance held. EC2 refuses; none may be made."""

    failed_at: dict[str, datetime] = field(default_factory=dict)
    """When a call of each name last failed, or lost its answer."""

    async def _receive(self, name: str, *arguments: Any) -> Fault | None:
        await asyncio.sleep(LATENCY)
        if name == "attach_volume":
            volume_id, instance_id = arguments
            if self.volumes[volume_id].attached_to not in {None, instance_id}:
                self.contested.append(Call(name, arguments, self.clock()))
        try:
            loses_answer = await SimulatedCloud._receive(self, name, *arguments)
        except CloudError:
            self.failed_at[name] = self.clock()
            raise
        if loses_answer is not None:
            self.failed_at[name] = self.clock()
        return loses_answer

    async def _lose_answer(self, fault: Fault | None) -> None:
        await asyncio.sleep(LATENCY)
        await SimulatedCloud._lose_answer(self, fault)

    def _launch(self, request: LaunchRequest) -> Any:
        answer = SimulatedCloud._launch(self, request)
        for launched in answer.instances:
            self.launched(launched.instance_id)
        return answer

    async def start(self, instance_ids: Sequence[str]) -> None:
        asleep = set(instance_ids) & set(self.stopped())
        try:
            await SimulatedCloud.start(self, instance_ids)
        finally:  # also where only the answer is lost
            for instance_id in asleep - set(self.stopped()):
                boot = instance_id, self.machines[instance_id].instance.launched_at
                if boot not in self.boots:  # two calls that overlap are one start
                    self.boots.add(boot)
                    self.launched(instance_id)

    def strange(self, instance_id: str, **carried: str) -> str:
        """Somebody else's instance, with these tags. Its id."""
        now = self.clock()
        instance = Instance(
            instance_id=instance_id,
            state=None,  # `shown` says it
            instance_type="g4dn.xlarge",
            zone="us-east-1a",
            market=Market.ON_DEMAND,
            launched_at=now,
            tags={f"ec2spawner:{name}": value for name, value in carried.items()},
        )
        self.machines[instance_id] = Machine(instance, listed_from=now, runs_from=now)
        return instance_id

    def is_troubled(self, *names: str) -> bool:
        """True while one of these calls fails or hangs, or a listing lacks what is there."""
        faults = [fault for name in names for fault in self._faults[name]]
        return any(
            fault.times or (fault.gate and not fault.gate.is_set()) for fault in faults
        ) or any(machine.hidden for machine in self.machines.values())

    def has_failed_lately(self, *names: str, seconds: float) -> bool:
        """The same for calls that were made: one that was never made is no excuse."""
        latest = self.clock() - timedelta(seconds=seconds)
        hangs = [
            fault
            for name in names
            for fault in self._faults[name]
            if not fault.times and fault.gate and not fault.gate.is_set()
        ]
        failed = [name for name in names if name in self.failed_at]
        return (
            bool(hangs)
            or any(self.failed_at[name] >= latest for name in failed)
            or any(machine.hidden for machine in self.machines.values())
        )

    def forget_met_faults(self) -> None:
        for name, faults in self._faults.items():
            self._faults[name] = [f for f in faults if f.times or (f.gate and not f.gate.is_set())]

    def be_well(self) -> None:
        self._faults.clear()
        self.capacity.clear()
        self.errors.clear()
        self.listing_lag = 0.0
        for machine in self.machines.values():
            machine.hidden = False


class PopulatedWorld(World):
    def __init__(self, folder: Path, loop: VirtualTimeLoop) -> None:
        super().__init__(folder)
        self.loop = loop
        self.settings = REAL_PAUSES
        self.clock = self.hub_clock = LoopClock(loop)
        types = {name: data.instance_types()[name] for name in ("g4dn.xlarge", "g5.xlarge")}
        self.cloud = self.distant = DistantCloud(
            LoopClock(loop), types=types, boot_seconds=15, launched=self._boot
        )
        self.is_up = False
        self.up_since = 0.0
        self.tempers: list[str] = []
        """Of the next instances; none is a good one."""
        self.agents: dict[str, Inhabitant] = {}
        self.servers: dict[str, str] = {}
        """What JupyterHub believes: user -> lease id of a server that runs or starts."""
        self.was_ready: dict[str, str] = {}
        """Lease id -> instance id, of every server whose start JupyterHub saw succeed."""
        self.may_end: dict[str, str] = {}
        """Id of a lease, or of the instance under it -> why it may end though it was ready."""
        self.served: dict[str, set[str]] = {}
        """Instance id -> whose leases it was given."""
        self.failures: list[BaseException] = []
        """What agents and people met that no hub may do to them."""
        self._seen_ended: dict[str, float] = {}
        self._outside: set[asyncio.Task[Any]] = set()

    # --- the hub's process ---

    async def start(self, **settings: Any) -> None:
        await super().start(**settings)
        self.is_up, self.up_since = True, self.loop.time()

    async def kill(self) -> None:
        """SIGKILL: no task continues, no queued write is made."""
        if not self.is_up:
            return
        self.is_up = False
        self.loop.refusal = None
        self.loop.drop_work()
        tasks = asyncio.all_tasks() - self._outside - {asyncio.current_task()}
        for task in self.loop.in_order(tasks):
            task.cancel()
        await asyncio.wait(tasks)
        await self.store.close()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Something that runs in the hub's process. Raises `HubIsDown` where that ends first."""
        if not self.is_up:
            work.close()
            raise HubIsDown
        task = asyncio.create_task(work)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise HubIsDown
        try:
            return task.result()
        except StoreError as error:  # the hub answers 503
            raise HubIsDown from error

    def continue_outside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it outside the hub's process."""
        task = asyncio.create_task(work)
        self._outside.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._outside.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            self.failures.append(failure)

    def _boot(self, instance_id: str) -> None:
        temper = self.tempers.pop(0) if self.tempers else "good"
        agent = self.agents[instance_id] = Inhabitant(self, instance_id, temper)
        self.continue_outside(agent.live())

    async def run(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)
        for failure in self.failures:
            raise failure

    def forget_old(self) -> None:
        """What EC2 shows no more: nothing here grows with the days."""
        now = self.loop.time()
        for instance_id, machine in list(self.cloud.machines.items()):
            if machine.ended is None:
                continue
            if now - self._seen_ended.setdefault(instance_id, now) > SHOWN_FOR:
                del self.cloud.machines[instance_id], self._seen_ended[instance_id]
                self.agents.pop(instance_id, None)
        self.cloud.calls.clear()
        self.distant.forget_met_faults()

    async def close(self) -> None:
        await self.kill()
        for task in self.loop.in_order(self._outside):
            task.cancel()
        if self._outside:
            await asyncio.wait(self._outside)

    # --- people ---

    async def start_server(self, user: str, **changes: Any) -> None:
        """JupyterHub starts a server of this user's, as long as it believes to have none."""
        try:
            lease = await self.call(self.request(user, **changes))
        except HubIsDown:
            return
        self.servers[user] = lease.lease_id
        self.continue_outside(self._wait_ready(lease))

    async def _wait_ready(self, lease: Lease) -> None:
        starting = self.provisioner._starts
        try:
            ready = await self.call(starting.wait_ready(lease.lease_id, START_TIMEOUT))
        except HubIsDown:
            return
        except (TimeoutError, StartFailed):
            await self.stop_server(lease.user, lease.lease_id, "failed")
        else:
            assert ready.instance_id is not None
            self.was_ready[lease.lease_id] = ready.instance_id

    async def stop_server(self, user: str, lease_id: str, reason: str = "user") -> None:
        self.may_end.setdefault(lease_id, f"stopped by {reason}")
        stop = Stop(reason=reason, message="because")
        with suppress(HubIsDown):
            await self.call(self.provisioner.end(lease_id, stop))
        if self.servers.get(user) == lease_id:
            del self.servers[user]

    async def come_back(self, *, asks: bool) -> None:
        """Another process of the hub; JupyterHub `asks` for the servers that it knows to run."""
        self.loop.refusal = None  # a hub without a store does not start
        await self.start()
        for user, lease_id in list(self.servers.items()):
            if asks and lease_id in self.was_ready:
                self.provisioner._recovery.take_up(user, "", lease_id)
            else:  # a start that had not succeeded was never saved
                del self.servers[user]
                self.may_end.setdefault(lease_id, "forgotten by JupyterHub")

    def may_it_end(self, lease_id: str) -> bool:
        return lease_id in self.may_end or self.was_ready[lease_id] in self.may_end

    # --- what EC2 shows ---

    def ours(self) -> list[Machine]:
        """Our instances that cost money."""
        return [
            machine
            for instance_id, machine in self.cloud.machines.items()
            if machine.ended is None and instance_id in self.agents
        ]

    def given(self) -> list[str]:
        """Those of them that have been a user's since their last boot."""
        ids = [machine.instance.instance_id for machine in self.ours()]
        return [instance_id for instance_id in ids if self.agents[instance_id].lease is not None]


class Inhabitant(Agent):
    """An instance's own life. `temper`: good, `mute` (never phones home), `stuck` (never gets
    ready), `silent` (says nothing any more)."""

    def __init__(self, world: PopulatedWorld, instance_id: str, temper: str) -> None:
        super().__init__(world, instance_id)
        self.place = world
        self.temper = temper
        self.phoned = False
        self.works_until: datetime | None = None
        """Its user's work ends then; None is never."""
        self.heard_at = world.loop.time()
        """When a hub answered last, on the loop's clock."""

    @property
    def is_on(self) -> bool:
        """And no later boot of its machine has taken its place."""
        is_latest = self.place.agents.get(self.instance_id) is self
        return is_latest and self.place.cloud.machines[self.instance_id].ended is None

    async def live(self) -> None:
        await asyncio.sleep(self.place.distant.boot_seconds + 5)
        while self.is_on and self.temper != "mute" and await self._get_lease():
            if self.temper == "stuck" or not await self._live_with_lease():
                return

    async def _live_with_lease(self) -> bool:
        """Until its end; True when the instance is kept and claims again."""
        assert self.lease is not None
        self.works_until = None
        while self.lease.home_kind == "ebs" and self.is_on and not self.home_is_here():
            await asyncio.sleep(1)
        for step in ("home", "notebook", "ready"):
            await asyncio.sleep(1)
            await self._say(step)
        while self.is_on and self.temper != "silent":
            stop = await self._heartbeat_once()
            if stop is not None:
                return stop.then != "terminate"
        return False

    @property
    def idle_since(self) -> datetime | None:
        if self.works_until is None or self.works_until > self.place.cloud.clock():
            return None
        return self.works_until

    @property
    def _is_abandoned(self) -> bool:
        """No hub and no activity, both for long: only the agent can end this instance."""
        if self.place.loop.time() - self.heard_at < HUB_LOST_AFTER:
            return False
        if self.lease is None:
            return True
        idle_since, limit = self.idle_since, timedelta(seconds=HUB_LOST_AFTER)
        return idle_since is not None and self.place.cloud.clock() - idle_since >= limit

    async def _without_hub(self) -> None:
        if self._is_abandoned:
            self.place.may_end.setdefault(self.instance_id, "idle, and without a hub for long")
            self._power_off()
        await asyncio.sleep(RETRY)

    async def _get_lease(self) -> bool:
        while self.is_on:
            self.phoned = True
            try:
                if (granted := await self.place.call(self.claim(wait=55))) is not None:
                    users = self.place.served.setdefault(self.instance_id, set())
                    users.add(granted.lease.user)
                    return True
                self.heard_at = self.place.loop.time()
            except HubIsDown:
                await self._without_hub()
            except ClaimRefused:
                await asyncio.sleep(60)
            except InstanceUnwanted:
                self._power_off()
        return False

    async def _say(self, step: str) -> None:
        """Until the hub has taken it, as the hub's handler answers: 200, 404 or 410."""
        assert self.lease is not None
        while self.is_on and self.temper != "silent":
            try:
                if self._known() is not None:
                    await self.place.call(self.event(step))
                return
            except HubIsDown:
                await self._without_hub()

    async def _heartbeat_once(self) -> Stop | None:
        """The stop, once it is reported and done."""
        lease = self._known()
        if lease is None:
            await asyncio.sleep(RETRY)
            return None
        if lease.state is LeaseState.ENDED:
            self._power_off()
            return lease.stop or Stop(reason="hub")
        try:
            answer = await self.place.call(
                self.heartbeat(self.idle_since, hold=50.0, sent_at=self.place.cloud.clock())
            )
        except HubIsDown:
            await self._without_hub()
            return None
        self.heard_at = self.place.loop.time()
        if answer.stop is None:
            return None
        self.works_until = self.place.cloud.clock()
        await asyncio.sleep(3)
        await self._say("stopped")
        return answer.stop

    def _known(self) -> Lease | None:
        assert self.lease is not None
        if not self.place.is_up:
            return self.lease
        return self.place.provisioner._state.leases.get(self.lease.lease_id)

    def _power_off(self) -> None:
        if self.is_on:
            self.place.cloud.end(self.instance_id, "Client.InstanceInitiatedShutdown")

    @property
    def served(self) -> str:
        return self.place.cloud.tags(self.instance_id).get(tags.LEASE, "")
