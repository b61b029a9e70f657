"""Days of a fifty-user hub where everything goes wrong: no unused instance runs for long.

`make test-all` lives two days with the misfortunes of four, `make test-long` a hundred, or as many
as `EC2SPAWNER_DAYS` says. A hundred take a quarter of an hour; the tables that they print are the
promise.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.reconciler import PASS_INTERVAL
from tests.simulated_cloud import Machine
from tests.unit.provisioner.populated_world import (
    HUB_LOST_AFTER,
    REAL_PAUSES,
    START_TIMEOUT,
    Inhabitant,
    PopulatedWorld,
)
from tests.unit.provisioner.workdays import DAY, MEANING, MINUTE, Workdays
from tests.virtual_time import VirtualTimeLoop

FEW = pytest.param(2, 2.0, id="short", marks=pytest.mark.slow(seconds=45))
MANY = pytest.param(
    int(os.environ.get("EC2SPAWNER_DAYS", "100")),
    1.0,
    id="long",
    marks=[pytest.mark.long, pytest.mark.slow(seconds=900)],
)
SEED = int(os.environ.get("EC2SPAWNER_SEED", "50"))
PEOPLE = 50

LISTING_LAG = 20.0
HEARTBEAT = 55.0
"""Maximum seconds between two heartbeats without news."""

NOBODY = "unused"
HUB_RUNS = "unused, while hub and EC2 answer"
HUB_DOWN = "unused, while the hub is down"
EC2_FAILS = "unused, while EC2 fails"
BOTH_DOWN = "unused, while the hub is down and the agent dead"


@dataclass(frozen=True, slots=True)
class Bound:
    """Within so many seconds an unused instance has ended."""

    seconds: float
    is_sum_of: str


BOUNDS = {
    HUB_RUNS: Bound(
        2 * REAL_PAUSES.quiet_interval
        + 2 * PASS_INTERVAL
        + LISTING_LAG
        + HEARTBEAT
        + REAL_PAUSES.stop_timeout
        + REAL_PAUSES.recovery_grace,
        "two listings and passes, their lag, a heartbeat, the stop, the grace after a hub's start",
    ),
    HUB_DOWN: Bound(HUB_LOST_AFTER + HEARTBEAT, "hub_lost_after and a heartbeat"),
}
"""The others end when EC2 answers again, or the hub is back."""

BEYOND_ITS_USE = (
    "Beyond boot_timeout, a start's timeout, agent_silent_after or its idle policy, an instance is "
    "nobody's."
)
CAPTION = "\n".join(
    [
        *(f"{use}: at most {bound.is_sum_of}." for use, bound in BOUNDS.items()),
        "Where EC2 fails, or hub and agent are both down, that bound begins at the end of it.",
        BEYOND_ITS_USE,
    ]
)


@dataclass(slots=True)
class Use:
    """All minutes that instances ran for one purpose, or for none."""

    minutes: int = 0
    longest: float = 0.0
    """Seconds of the longest that one instance ran so without a pause."""
    beyond: int = 0
    """Minutes beyond the bound."""


@dataclass(slots=True)
class Ledger:
    """Every minute of every instance, by what it was for, and how every server ended."""

    uses: defaultdict[str, Use] = field(default_factory=lambda: defaultdict(Use))
    leaks: dict[str, str] = field(default_factory=dict)
    """By instance id: for how long it ran unused, and why."""
    ends: dict[str, str] = field(default_factory=dict)
    """By lease id: why it ended."""
    lost: dict[str, str] = field(default_factory=dict)
    """By lease id: servers that ended though nobody stopped them, nothing happened to them and they
    were not idle."""
    instances: set[str] = field(default_factory=set)
    minutes_down: int = 0
    _running: dict[tuple[str, str], float] = field(default_factory=dict)
    """Instance id and use -> for how many seconds, without a pause."""

    def note(self, world: PopulatedWorld) -> None:
        leases = {x.instance_id: x for x in world.provisioner._state.leases.open()}
        waiting = any(x.state is LeaseState.WAITING for x in leases.values())
        before, self._running = self._running, {}
        for machine in world.ours():
            instance_id = machine.instance.instance_id
            use = what_for(world, machine, leases.get(instance_id), waiting)
            if use == NOBODY:
                use = who_ends(world, world.agents[instance_id])
            seconds = before.get((instance_id, use), 0.0) + MINUTE
            self._running[instance_id, use] = seconds
            self._count(instance_id, use, seconds)
        self.instances |= world.agents.keys()
        self.minutes_down += not world.is_up
        self._note_ends(world)

    def _count(self, instance_id: str, use: str, seconds: float) -> None:
        kind = self.uses[use]
        kind.minutes += 1
        kind.longest = max(kind.longest, seconds)
        if use in BOUNDS and seconds > BOUNDS[use].seconds + MINUTE:  # looked at once a minute
            kind.beyond += 1
            self.leaks[instance_id] = f"{seconds:.0f} s: {use}"

    def _note_ends(self, world: PopulatedWorld) -> None:
        for lease in world.ended:
            reason = lease.stop.reason if lease.stop else "unknown"
            self.ends[lease.lease_id] = reason
            incident = lease.lease_id not in world.was_ready or world.may_it_end(lease.lease_id)
            if not incident and reason != "idle":
                self.lost[lease.lease_id] = f"{lease.stop}"
        world.ended.clear()

    @property
    def minutes_beyond(self) -> int:
        return sum(use.beyond for use in self.uses.values())


def who_ends(world: PopulatedWorld, agent: Inhabitant) -> str:
    """Who has to end an unused instance."""
    if world.is_up:
        calls = ("list_instances", "terminate", "detach_volume")
        if world.distant.has_failed_lately(*calls, seconds=MINUTE):
            return EC2_FAILS
        return HUB_RUNS
    return HUB_DOWN if agent.temper == "good" else BOTH_DOWN


def what_for(
    world: PopulatedWorld, machine: Machine, lease: Lease | None, somebody_waits: bool
) -> str:
    """What an instance is for in this minute."""
    now, agent = world.cloud.clock(), world.agents[machine.instance.instance_id]
    if lease is None:
        age = (now - machine.instance.launched_at).total_seconds()
        listened = min(age, world.loop.time() - world.up_since)  # a hub that was down heard none
        return "boot" if somebody_waits and listened <= REAL_PAUSES.boot_timeout else NOBODY
    if lease.state is LeaseState.ENDING:
        return NOBODY
    if lease.state is LeaseState.STARTING:
        waits = (now - lease.requested_at).total_seconds()
        return "boot" if waits <= START_TIMEOUT else NOBODY
    if agent.temper == "silent":
        silent = world.loop.time() - agent.heard_at
        return "silent" if silent <= REAL_PAUSES.agent_silent_after else NOBODY
    if agent.idle_since is None:
        return "work"
    idle = (now - agent.idle_since).total_seconds()
    return "idle, within the policy" if idle <= lease.idle.server_seconds else NOBODY


def report(days: Workdays, ledger: Ledger) -> list[Table]:
    """What was lived through, what instances ran for, and how long beyond each bound."""
    return [life(days, ledger), minutes_of_instances(ledger), misfortunes(days)]


def life(days: Workdays, ledger: Ledger) -> Table:
    world, made = days.world, Table()
    made.add_column(f"{days.minute / DAY:g} days, {PEOPLE} people, seed {SEED}")
    made.add_column("number", justify="right")
    made.add_row("servers that got ready", f"{len(world.was_ready):,}")
    for reason, times in sorted(Counter(ledger.ends.values()).items()):
        made.add_row(f"starts and servers that ended: {reason}", f"{times:,}")
    made.add_row("servers that ended without a cause", f"{len(ledger.lost):,}")
    made.add_row("instances launched", f"{len(ledger.instances):,}")
    hours = sum(use.minutes for use in ledger.uses.values()) / 60
    made.add_row("instance-hours", f"{hours:,.1f}")
    made.add_row("minutes without a hub", f"{ledger.minutes_down:,}")
    return made


def minutes_of_instances(ledger: Ledger) -> Table:
    made = Table()
    made.add_column("instances ran for")
    for title in ("bound, s", "minutes", "longest, s", "minutes beyond"):
        made.add_column(title, justify="right")
    for use, kind in sorted(ledger.uses.items(), key=lambda item: -item[1].minutes):
        bound = BOUNDS.get(use)
        made.add_row(
            use,
            f"{bound.seconds:,.0f}" if bound else "-",
            f"{kind.minutes:,}",
            f"{kind.longest:,.0f}",
            f"{kind.beyond:,}" if bound else "-",
        )
    made.add_section()
    minutes = sum(use.minutes for use in ledger.uses.values())
    made.add_row("all", "", f"{minutes:,}", "", f"{ledger.minutes_beyond:,}")
    made.caption = CAPTION
    made.caption_justify = "left"
    return made


def misfortunes(days: Workdays) -> Table:
    made = Table()
    made.add_column("what happened to them")
    made.add_column("times", justify="right")
    for name, times in sorted(days.incidents.items()):
        made.add_row(f"{name.replace('_', ' ')}: {MEANING[name]}", f"{times:,}")
    return made


@pytest.mark.parametrize(("number_of_days", "bad_luck"), [FEW, MANY])
@pytest.mark.timeout(7200)
@pytest.mark.nightly(
    guard="tests/unit/provisioner/failures/test_invariants.py::"
    "test_the_invariants_hold_whatever_happens"
)
def test_no_unassigned_instance_runs_beyond_the_bounds(
    number_of_days: int,
    bad_luck: float,
    tmp_path: Path,
    empty_store: Path,
    one_engine: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "token_bytes", random.Random(0).randbytes)
    shutil.copy(empty_store, tmp_path / "store.sqlite")
    loop = VirtualTimeLoop()
    world = PopulatedWorld(tmp_path, loop)
    days, ledger = Workdays(world, random.Random(SEED), PEOPLE, bad_luck), Ledger()

    async def live() -> None:
        await world.start()
        while days.minute < number_of_days * DAY:
            await days.pass_minute()
            ledger.note(world)
            world.forget_old()
            if days.minute % (10 * DAY) == 0:
                beyond = ledger.minutes_beyond
                print(f"day {days.minute // DAY}: {beyond} minutes beyond the bounds", flush=True)
        await world.close()

    try:
        loop.run_until_complete(live())
    finally:
        loop.close()
    for each in report(days, ledger):
        Console(width=110).print(each)
    hint = f"with EC2SPAWNER_SEED={SEED}"
    assert not ledger.leaks, f"{hint}: {ledger.leaks}"
    assert ledger.minutes_beyond == 0
    assert not ledger.lost, f"{hint}: {ledger.lost}"
    assert ledger.uses["work"].minutes > number_of_days * PEOPLE, "no user could work"
