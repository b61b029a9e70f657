"""Fifty people at work, and what goes wrong meanwhile: days of a hub in virtual time.

Every minute people come, work, stop or just leave; what happens to the hub, EC2 and the instances
is drawn by rates per day. All of it follows from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from ec2spawner.core import tags
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.populated_world import BUSY, CALLS, LOST, PopulatedWorld

MINUTE = 60.0
DAY = 1440
"""Minutes."""

COMES = 0.6
"""Share of the people who work on a day of the week; at its end, a tenth of them."""

CALLS_MADE = tuple(name for name in CALLS if name not in {"stop", "start"})
"""No instance is retained here: `test_invariants` covers that."""

FORGETS = 0.3
"""Share of the sessions that users leave to the idle policy."""


@dataclass(slots=True)
class Session:
    """Somebody's work: from `begins` on, in minutes of the simulation."""

    user: str
    begins: int
    minutes: int
    forgets: bool
    is_over: bool = False


@dataclass(slots=True)
class Workdays:
    world: PopulatedWorld
    random: random.Random
    people: int
    bad_luck: float = 1.0
    """How many times as often as `RATES` say everything goes wrong."""
    minute: int = 0
    back_at: int | None = None
    """The minute at which a hub that is down comes back."""
    incidents: dict[str, int] = field(default_factory=dict)
    """How often each misfortune did."""
    _sessions: list[Session] = field(default_factory=list)
    _ends: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    async def pass_minute(self) -> None:
        if self.minute % DAY == 0:
            self._sessions = [s for s in self._sessions if not s.is_over] + self._new_day()
        for at, end in [each for each in self._ends if each[0] <= self.minute]:
            self._ends.remove((at, end))
            end()
        if self.back_at is not None and self.back_at <= self.minute:
            self.back_at = None
            await self.world.come_back(asks=True)
        self._notice_ends()
        for session in self._sessions:
            if session.begins <= self.minute and not session.is_over:
                await self._work(session)
        await self._misfortunes()
        await self.world.run(MINUTE)
        self.minute += 1

    # --- people ---

    def _new_day(self) -> list[Session]:
        weekday = self.minute // DAY % 7 < 5
        comes = COMES if weekday else COMES / 10
        return [
            Session(
                user=f"user-{n}",
                begins=self.minute + 8 * 60 + self.random.randrange(8 * 60),
                minutes=20 + int(self.random.expovariate(1 / 120)),
                forgets=self.random.random() < FORGETS,
            )
            for n in range(self.people)
            if self.random.random() < comes
        ]

    async def _work(self, session: Session) -> None:
        """Start a server where there is none, until the work is done; then stop it, or forget."""
        world, over = self.world, session.begins + session.minutes <= self.minute
        lease_id = world.servers.get(session.user)
        agent = world.agents.get(world.was_ready.get(lease_id or "", ""))
        if over:
            session.is_over = True
            if lease_id and not (agent and session.forgets):
                await world.stop_server(session.user, lease_id)
        elif lease_id is None:
            kind = "none" if int(session.user[5:]) % 5 == 0 else "ebs"
            await world.start_server(session.user, home_kind=kind)
        elif agent is not None:
            left = timedelta(minutes=session.begins + session.minutes - self.minute)
            agent.works_until = world.cloud.clock() + left

    def _notice_ends(self) -> None:
        """JupyterHub polls: a server whose lease has ended is no more."""
        if not self.world.is_up:
            return
        for user, lease_id in list(self.world.servers.items()):
            lease = self.world.provisioner._state.leases.get(lease_id)
            if lease is None or lease.state is LeaseState.ENDED:
                del self.world.servers[user]

    # --- misfortunes, with how often each happens in a day ---

    async def _misfortunes(self) -> None:
        for name, per_day in RATES.items():
            if self.random.random() >= self.bad_luck * per_day / DAY:
                continue
            if name == "crash":
                await self._crash()
            elif not getattr(self, f"_{name}")():
                continue
            self.incidents[name] = self.incidents.get(name, 0) + 1

    async def _crash(self) -> None:
        if not self.world.is_up:
            return
        # In the midst of a minute: of what is under way, each part may be the last.
        await self.world.run(self.random.random() * MINUTE / 2)
        await self.world.kill()
        long = self.random.random() < 0.03
        self.back_at = self.minute + 1 + int(self.random.expovariate(1 / (180 if long else 3)))

    def _fault(self) -> bool:
        name, error = self.random.choice(CALLS_MADE), self.random.choice([LOST, BUSY])
        after = error is LOST and self.random.random() < 0.5
        self.world.cloud.fail(name, error, self.random.randint(1, 4), after=after)
        return True

    def _hang(self) -> bool:
        gate = self.world.cloud.hold(
            self.random.choice(CALLS_MADE), after=self.random.random() < 0.5, then=LOST
        )
        self.world.loop.call_later(self.random.uniform(5, 70), gate.set)
        return True

    def _listings_lag(self) -> bool:
        self.world.cloud.listing_lag = self.random.choice([0.0, 0.0, 5.0, 20.0])
        return True

    def _listing_lacks(self) -> bool:
        if not (ours := self.world.ours()):
            return False
        machine, long = self.random.choice(ours), self.random.random() < 0.1
        if long:
            self.world.may_end[machine.instance.instance_id] = "in no listing for long"
        machine.hidden = True
        seconds = 120 if long else 3
        self.world.loop.call_later(seconds, lambda: setattr(machine, "hidden", False))
        return True

    def _interruption(self) -> bool:
        if not (ours := self.world.ours()):
            return False
        machine = self.random.choice(ours)
        self.world.may_end[machine.instance.instance_id] = "it ended"
        self.world.cloud.end(machine.instance.instance_id)
        return True

    def _sold_out(self) -> bool:
        market = self.random.choice([Market.SPOT, Market.SPOT, Market.ON_DEMAND])
        self.world.cloud.sell_out(market)
        until = self.minute + self.random.randint(5, 60)
        self._ends.append((until, self.world.cloud.capacity.clear))
        return True

    def _price_moves(self) -> bool:
        for zone in self.world.cloud.subnets.values():
            self.world.cloud.prices["g4dn.xlarge", zone] = self.random.uniform(0.1, 0.6)
        return True

    def _bad_image(self) -> bool:
        self.world.tempers.append(self.random.choice(["mute", "stuck"]))
        return True

    def _silence(self) -> bool:
        ready = [x for x in self.world.servers.values() if x in self.world.was_ready]
        if not ready:
            return False
        lease_id = self.random.choice(ready)
        self.world.agents[self.world.was_ready[lease_id]].temper = "silent"
        self.world.may_end.setdefault(lease_id, "silent")
        return True

    def _clock_jump(self) -> bool:
        self.world.hub_clock.skew = self.random.uniform(-30, 30)
        return True

    def _copied_tags(self) -> bool:
        ours = self.world.ours()
        if not ours or not self.world.is_up:
            return False
        machine = self.random.choice(ours)
        intent = machine.instance.tags[tags.INTENT]
        if self.world.provisioner._state.launches.is_open(intent):
            return False
        copied = self.world.cloud.copy(machine.instance.instance_id)
        # Not the hub's: its creator ends it some day.
        self._ends.append((self.minute + 2 * DAY, lambda: self.world.cloud.end(copied)))
        return True


MEANING = {
    "crash": "the hub is killed in the midst of its work, and comes back after minutes or hours",
    "fault": "one to four calls of a kind fail, or take effect and lose their answer",
    "hang": "a call hangs for up to 70 s, then fails",
    "listings_lag": "listings show new instances later than before, or at once again",
    "listing_lacks": "listings lack an instance that runs, for 3 s or for two minutes",
    "interruption": "AWS reclaims an instance",
    "sold_out": "spot or on-demand is sold out in all zones, for up to an hour",
    "price_moves": "spot prices change",
    "bad_image": "the agent of the next machine never calls, or never gets ready",
    "silence": "a running server's agent dies",
    "clock_jump": "the hub's clock is set by up to half a minute",
    "copied_tags": "somebody launches an instance with the tags of one of ours",
}

RATES = {
    "crash": 3.0,
    "fault": 30.0,
    "hang": 8.0,
    "listings_lag": 10.0,
    "listing_lacks": 6.0,
    "interruption": 6.0,
    "sold_out": 5.0,
    "price_moves": 24.0,
    "bad_image": 4.0,
    "silence": 1.0,
    "clock_jump": 2.0,
    "copied_tags": 0.5,
}
