"""A hub's provisioner over the simulated EC2, with agents to drive: what each test lives in."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ec2spawner import data
from ec2spawner.core.names import lease_id as new_lease_id
from ec2spawner.core.names import sha256_hex
from ec2spawner.provisioner.instances.claims import Claimant, Granted
from ec2spawner.provisioner.model.cloud.launch import LaunchSpec
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.home_change import NO_CHANGE, HomeChange
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.provisioner import Provisioner
from ec2spawner.provisioner.runtime.clock import Clock as HubClock
from ec2spawner.provisioner.state.user_accounts import UserAccounts
from ec2spawner.provisioner.store.store import Store
from ec2spawner.wire import (
    PROTOCOL,
    AgentEvent,
    Heartbeat,
    HeartbeatResponse,
    IdlePolicy,
    Market,
    SavedSession,
    Stop,
)
from tests.simulated_cloud import ACCOUNT, Clock, SimulatedCloud
from tests.virtual_time import DELAYED_SHARE, VirtualTimeLoop

TIMEOUT = 600.0
"""Seconds of the loop's time until a condition that does not come true fails its test."""

REAL_TIMEOUT = 60.0
"""The same on a real loop."""

LONGEST_CALL = 2.5
"""Seconds that a call takes to reach EC2, at most: longer than the pause between two listings."""

LONGEST_STEP = 0.5
"""Seconds that a pass pauses between two controllers, at most."""

STEPS_PAUSED = 0.05
"""The share of the controllers before which a pass pauses."""

SPEC = LaunchSpec(
    instance_types=("g4dn.xlarge",),
    subnets=("subnet-a", "subnet-b"),
    image_id="ami-1",
    security_groups=("sg-notebooks",),
    markets=(Market.SPOT, Market.ON_DEMAND),
    disk_gib=0,  # amounts are the instances' alone; `test_disk_costs.py` has disks
)

SETTINGS = Settings(
    hub="hub",
    region="us-east-1",
    subnets=("subnet-a", "subnet-b"),
    listing_lag=0.0,  # counted on the clock, which stands still
    price_interval=5.0,
    want_types=("g4dn.xlarge", "g5.xlarge"),
)


REAL_TIME: Final[Mapping[str, float]] = {
    "busy_interval": 0.05,
    "quiet_interval": 0.1,
    "batch_window": 0.01,
    "price_interval": 0.1,
}
"""Settings for `World.start` on a real loop, where a test waits for each pause."""


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Return when the condition holds; fail when it does not for `TIMEOUT` seconds."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualTimeLoop):
        holds = await loop.until(condition, TIMEOUT)
    else:
        deadline = loop.time() + REAL_TIMEOUT
        while not (holds := bool(condition())) and loop.time() <= deadline:
            await asyncio.sleep(0.002)
    if not holds:
        raise AssertionError(f"did not come true in time: {what or condition}")


LOOPS = (
    *("watch", "prices", "catalogue", "templates", "reaper", "capacity reservations"),
    "scheduled events",
    *("reconcile", "ends", "lost starts", "homes", "moves"),
)
"""What runs in the background until the provisioner is closed."""


def delay(longest: float, share: float = DELAYED_SHARE) -> float:
    """What the seed of a virtual loop draws; 0 on a real one."""
    loop = asyncio.get_running_loop()
    return loop.delay(longest, share) if isinstance(loop, VirtualTimeLoop) else 0.0


class Pause:
    """A step of a pass that takes time, as calls and the store take it in any other step."""

    async def reconcile(self, _now: datetime) -> None:
        if seconds := delay(LONGEST_STEP, STEPS_PAUSED):
            await asyncio.sleep(seconds)


class World:
    """`start`, `kill` and `start` again: cloud and store file outlive the provisioner."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.cloud = SimulatedCloud(self.clock, call_seconds=lambda: delay(LONGEST_CALL))
        self.settings = SETTINGS
        self.folder = folder
        self.database = "store.sqlite"
        self.store_url = ""
        """Of a database server; else the file `database` is the store."""
        self.ended: list[Lease] = []
        self.lost_payers: set[tuple[str, str]] = set()
        """User and payer, where the user has left the group that pays."""
        self.passes = 0
        self.no_pass = asyncio.Lock()
        """Held, no pass is under way and none begins."""

    async def start(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)
        url = self.store_url or f"sqlite:///{self.folder / self.database}"
        self.store = await Store.open(url, now=self.clock())
        clock = HubClock(self.clock, self.clock.monotonic)
        accounts = UserAccounts(self.store, clock)
        await accounts.load()
        self.provisioner = provisioner = Provisioner(
            self.cloud,
            self.store,
            self.settings,
            data.instance_types(),
            clock,
            accounts,
            ended=self.ended.append,
            lost_payers=lambda charges: self.lost_payers.intersection(charges),
        )
        reconciler = provisioner._reconciler
        if isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            steps = reconciler.controllers
            reconciler.controllers = [step for each in steps for step in (Pause(), each)]
        reconcile = reconciler.reconcile

        async def counted() -> None:
            try:
                async with self.no_pass:
                    await reconcile()
            finally:
                self.passes += 1

        reconciler.reconcile = counted  # type: ignore[method-assign]
        await provisioner.start()

    async def kill(self) -> None:
        """The process ends here: nothing is finished, nothing is said to anybody."""
        await self.provisioner._tasks.end()
        await self.provisioner.market.images.close()
        await self.store.close()
        assert self.cloud.detached_while_mounted == []

    async def restart(self, **settings: Any) -> None:
        await self.kill()
        await self.start(**settings)

    def silence_agents(self) -> None:
        """From now on no agent reports its stop, and the hub awaits none."""
        self.settings = replace(self.settings, stop_timeout=0.0)
        self.provisioner._state.settings = self.settings

    def run_sql(self, statement: str) -> list[Any]:
        """The rows that it finds, on the store's file, from outside the hub."""
        with closing(sqlite3.connect(self.folder / self.database, timeout=5)) as database:
            rows = database.execute(statement).fetchall()
            database.commit()
        return rows

    def break_store(self) -> None:
        """No lease can be stored from now on."""
        self.run_sql(
            "CREATE TRIGGER full BEFORE UPDATE ON lease BEGIN "
            "SELECT RAISE(ABORT, 'database or disk is full'); END"
        )

    def fix_store(self) -> None:
        self.run_sql("DROP TRIGGER full")

    async def watch_passes(self, number: int) -> None:
        """Passes that begin after this, each after a listing that began after this."""
        for _ in range(number):
            for _ in range(2):  # what is under way may have begun before
                assert await self.provisioner._state.instances.next_listing(TIMEOUT)
            await self.run_passes(1)

    async def run_passes(self, number: int) -> None:
        """Run passes whatever has been listed: this takes a second at most."""
        for _ in range(number + 1):  # one is under way
            before = self.passes
            self.provisioner._state.wake()
            await until(lambda seen=before: self.passes > seen, "a pass")  # type: ignore[misc]

    async def complete_passes(self, number: int) -> None:
        """The same, and everything that they began has come to its end."""
        for _ in range(number):
            await self.watch_passes(1)
            await self.settle()

    async def settle(self) -> None:
        """Wait for everything in the background but the endless loops."""
        loops = {f"ec2spawner {name}" for name in LOOPS}
        await until(lambda: self.provisioner._tasks.names() <= loops, "settled")

    # --- leases ---

    async def request(self, user: str = "ada", **changes: Any) -> Lease:
        """Ask for a server, `afresh` or not; `home` is what changes of its home, and `spec` and
        every other field of the lease can be given."""
        afresh, home = changes.pop("afresh", False), changes.pop("home", NO_CHANGE)
        spec = changes.pop("spec", replace(SPEC, subnets=self.subnets(user)))
        lease = Lease(
            lease_id=new_lease_id(),
            user=user,
            server="",
            profile="t4",
            profile_name="T4, 16 GB",
            spec=spec,
            launch_key=launch_key_of(spec),
            home_kind="none",
            home_gib=20,
            idle=IdlePolicy(),
            state=LeaseState.WAITING,
            requested_at=self.clock(),
            sealed_start="sealed",
        )
        lease = replace(lease, **changes)
        self.clock.advance(0.001)
        await self.provisioner.request(lease, home, afresh=afresh)
        return lease

    async def change_home(self, change: HomeChange) -> None:
        """As a start does that is admitted."""
        await asyncio.gather(*self.provisioner._state.begin_changing_home(change))

    def subnets(self, user: str) -> tuple[str, ...]:
        return self.provisioner.homes.subnets_for(user, "")

    def now(self, lease: Lease) -> Lease:
        """The lease as it is now."""
        found = self.provisioner._state.leases.get(lease.lease_id)
        assert found is not None
        return found

    async def state(self, lease: Lease, *states: LeaseState) -> Lease:
        await until(lambda: self.now(lease).state in states, f"{states}, is {self.now(lease)}")
        return self.now(lease)

    async def ready(self, user: str = "ada", **changes: Any) -> tuple[Lease, Agent]:
        """A server that runs, and its agent."""
        before = set(self.cloud.running())
        lease = await self.request(user, **changes)
        await until(lambda: len(self.cloud.running()) > len(before), "an instance")
        [instance_id] = set(self.cloud.running()) - before
        agent = Agent(self, instance_id)
        await agent.serve()
        return self.now(lease), agent

    async def many_ready(self, number: int) -> list[Lease]:
        leases = [await self.request(f"user-{n}") for n in range(number)]
        await until(lambda: len(self.cloud.running()) == number, "instances")
        await asyncio.gather(*(Agent(self, each).serve() for each in self.cloud.running()))
        assert all(self.now(lease).state is LeaseState.READY for lease in leases)
        return [self.now(lease) for lease in leases]

    async def stop(self, lease: Lease, reason: Any = "user") -> None:
        await self.provisioner.end(lease.lease_id, Stop(reason=reason, message="because"))

    async def stop_of(self, lease: Lease) -> Stop:
        ended = await self.state(lease, LeaseState.ENDED)
        assert ended.stop is not None
        return ended.stop

    async def boot(self, number: int = 1) -> list[str]:
        """Ids of the running instances, once there are so many."""
        await until(lambda: len(self.cloud.running()) == number, f"{number} instances")
        return self.cloud.running()


class Agent:
    """What runs on one instance, as far as the hub sees it."""

    def __init__(self, world: World, instance_id: str) -> None:
        self.world = world
        self.instance_id = instance_id
        self.key = secrets.token_urlsafe(32)
        self.lease: Lease | None = None
        self.state_seen = 0

    def claimant(self, **changes: Any) -> Claimant:
        instance = self.world.cloud.machines[self.instance_id].instance
        region = self.world.settings.region
        claimant = Claimant(self.instance_id, region, ACCOUNT, instance.launched_at)
        return replace(claimant, **changes)

    async def claim(
        self, wait: float = TIMEOUT, *, reads_ahead: bool = False, **changes: Any
    ) -> Granted | None:
        starting = self.world.provisioner._starts
        claimant = self.claimant(reads_ahead=reads_ahead, **changes)
        granted = await starting.claim(claimant, self.key, wait)
        if granted is not None:
            self.lease = granted.lease
            stored = self.world.now(granted.lease).token_sha256
            assert stored == sha256_hex(granted.token), "the token opens the lease"
        return granted

    async def event(
        self,
        step: Any,
        message: str = "",
        session: SavedSession | None = None,
        interruption_at: datetime | None = None,
        *,
        home_released: bool = True,
    ) -> None:
        """As the hub's handler takes it."""
        provisioner = self.world.provisioner
        assert self.lease is not None
        lease = self.world.now(self.lease)
        provisioner._heartbeats.heard(lease.lease_id)
        event = AgentEvent(
            step=step, at=self.world.clock(), message=message, home_released=home_released
        )
        if step == "home":
            self.world.cloud.mounted.add(self.instance_id)
        elif step in {"stopped", "failed"} and home_released:
            self.world.cloud.mounted.discard(self.instance_id)
        if step == "stopped":
            await provisioner.agents.stopped(
                lease, "because", session, interruption_at, home_released=home_released
            )
        else:
            await provisioner._starts.agent_event(lease, event, f"http://{self.instance_id}")

    async def serve(self) -> Lease:
        """From the claim to a notebook that listens."""
        assert await self.claim() is not None
        assert self.lease is not None
        if self.lease.home_kind == "ebs":
            await until(self.home_is_here, "the home attached")
        for step in ("home", "notebook", "ready"):
            await self.event(step)
        return self.world.now(self.lease)

    def home_is_here(self) -> bool:
        volumes = self.world.cloud.volumes.values()
        return self.instance_id in {volume.attached_to for volume in volumes}

    async def heartbeat(
        self, idle_since: datetime | None = None, hold: float = 0.0, **fields: Any
    ) -> HeartbeatResponse:
        assert self.lease is not None
        heartbeat = Heartbeat(
            protocol=PROTOCOL,
            idle_since=idle_since,
            hold_seconds=hold,
            state_seen=fields.pop("state_seen", self.state_seen),
            **fields,
        )
        agents = self.world.provisioner.agents
        answer = await agents.news(agents.heartbeat(self.world.now(self.lease), heartbeat))
        self.state_seen = answer.state
        return answer

    async def heartbeat_often(self, seconds: float, every: float = 60.0) -> None:
        """Let time pass with an agent that is there and busy."""
        end = self.world.clock() + timedelta(seconds=seconds)
        while self.world.clock() < end:
            self.world.clock.advance(min(every, (end - self.world.clock()).total_seconds()))
            await self.heartbeat()
