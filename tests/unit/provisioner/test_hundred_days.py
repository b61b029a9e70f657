"""Days of a fifty-user hub where everything goes wrong: no instance runs for nobody for long.

Four days with each change. A hundred are for a machine that has nothing else to do for long; the
table that they print is the promise:

    EC2SPAWNER_DAYS=100 pytest -s tests/unit/provisioner/test_hundred_days.py
"""

from __future__ import annotations

import math
import os
import random
import secrets
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from inhabited_world import HUB_LOST_AFTER, REAL_PAUSES, START_TIMEOUT, Inhabitant, InhabitedWorld
from rich.console import Console
from rich.table import Table
from simulated_cloud import Machine
from virtual_time import VirtualTimeLoop
from workdays import DAY, MINUTE, Workdays

from ec2spawner.provisioner.lease import Lease, LeaseState
from ec2spawner.provisioner.provisioner import PASS_INTERVAL

DAYS = int(os.environ.get("EC2SPAWNER_DAYS", "4"))
SEED = int(os.environ.get("EC2SPAWNER_SEED", "50"))
PEOPLE = 50

TWO_PASSES = 2 * REAL_PAUSES.quiet_interval + 2 * PASS_INTERVAL
LISTING_LAG = 20.0
BEAT = 55.0
"""Seconds between two beats at most, where nothing is new."""

ENDS_WITHIN = (
    TWO_PASSES + LISTING_LAG + BEAT + REAL_PAUSES.stop_timeout + REAL_PAUSES.adoption_grace
)
"""Seconds that an instance may run after nobody needs it, while the hub runs and EC2 answers."""

LOST_WITHIN = HUB_LOST_AFTER + BEAT
"""The same while the hub is down: then the instance's agent ends it."""

NOBODY = "nobody"


@pytest.fixture(autouse=True)
def quick() -> None:
    """In place of the other tests' shortened pauses: in virtual time the real ones cost nothing."""


@dataclass(slots=True)
class Ledger:
    """Every minute of every instance, by what it was for."""

    minutes: Counter[str] = field(default_factory=Counter)
    wasted: dict[tuple[str, str], float] = field(default_factory=dict)
    """Instance id and whose bound holds -> seconds that it ran for nobody, without a pause."""
    leaks: dict[str, str] = field(default_factory=dict)

    def note(self, world: InhabitedWorld) -> None:
        leases = {x.instance_id: x for x in world.provisioner.book.open()}
        waiting = any(x.state is LeaseState.WAITING for x in leases.values())
        wasted, self.wasted = self.wasted, {}
        for machine in world.ours():
            instance_id = machine.instance.instance_id
            use = what_for(world, machine, leases.get(instance_id), waiting)
            if use == NOBODY:
                why, bound = who_ends(world, world.agents[instance_id])
                seconds = wasted.get((instance_id, why), 0.0) + MINUTE
                self.wasted[instance_id, why] = seconds
                use = f"{NOBODY}, {why}"
                if seconds > bound + MINUTE:
                    use = f"{NOBODY}, beyond the bound"
                    self.leaks[instance_id] = f"{seconds:.0f} s {why}"
            self.minutes[use] += 1


def who_ends(world: InhabitedWorld, agent: Inhabitant) -> tuple[str, float]:
    """Who must end an instance that is nobody's, and within how many seconds."""
    if world.is_up:
        if world.distant.is_troubled("list_instances", "terminate", "detach_volume"):
            return "while EC2 fails", math.inf
        return "within the bound", ENDS_WITHIN
    if agent.temper == "good":
        return "while the hub is down", LOST_WITHIN
    return "while the hub is down and the agent is dead", math.inf


def what_for(
    world: InhabitedWorld, machine: Machine, lease: Lease | None, somebody_waits: bool
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


def table(days: Workdays, ledger: Ledger) -> Table:
    made = Table(f"{days.minute / DAY:g} days, {PEOPLE} people: instances ran for", "minutes")
    for use, minutes in sorted(ledger.minutes.items(), key=lambda item: -item[1]):
        made.add_row(use, f"{minutes:,}")
    made.add_row(f"{NOBODY}, beyond the bound", f"{sum_of_leaks(ledger):,}")
    made.add_section()
    for name, times in sorted(days.befell.items()):
        made.add_row(name.replace("_", " "), f"{times:,} times")
    return made


def sum_of_leaks(ledger: Ledger) -> int:
    return ledger.minutes[f"{NOBODY}, beyond the bound"]


def lost_servers(world: InhabitedWorld) -> list[str]:
    """Servers that ended though nobody stopped them, nothing befell them and they were not idle."""
    ends = [lease for lease in world.ended if lease.lease_id in world.was_ready]
    return [
        f"{lease.lease_id}: {lease.stop}"
        for lease in ends
        if not world.may_it_end(lease.lease_id) and lease.stop and lease.stop.reason != "idle"
    ]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_instance_runs_for_nobody_beyond_the_bounds(
    tmp_path: Path, empty_store: Path, one_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_bytes", random.Random(0).randbytes)
    shutil.copy(empty_store, tmp_path / "store.sqlite")
    loop = VirtualTimeLoop()
    world = InhabitedWorld(tmp_path, loop)
    days, ledger = Workdays(world, random.Random(SEED), PEOPLE), Ledger()

    async def live() -> None:
        await world.start()
        while days.minute < DAYS * DAY:
            await days.pass_minute()
            ledger.note(world)
            world.forget_old()
        await world.close()

    try:
        loop.run_until_complete(live())
    finally:
        loop.close()
    Console().print(table(days, ledger))
    told = f"with EC2SPAWNER_SEED={SEED}"
    assert not ledger.leaks, f"{told}: {ledger.leaks}"
    assert not lost_servers(world), f"{told}: {lost_servers(world)}"
    assert ledger.minutes["work"] > DAYS * PEOPLE, "nobody could work"
