"""Runs that a limit holds: they wait together, in nobody's way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.runs.queue import QueueRules
from ec2spawner.provisioner.limits.admission import Admission
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.leases.run import RunState
from ec2spawner.provisioner.runs.runs import LIMIT_PAUSE, Owner
from tests.unit.provisioner.runs.submitted import allow_runs, run_of, seen, start_due, submit
from tests.unit.provisioner.world import World, until

ADA = Owner("ada")

LAB = "group:lab"

RULES = QueueRules(at_once=3, priorities={LAB: 5})

FULL = "The limit of servers of group lab is reached"

WELL_OVER = 40.0
"""Seconds: more than the least time of a hold, less than all of it, by far in case the process is
suspended for some."""


async def blocked(world: World, rules: QueueRules = RULES) -> None:
    """From now on the lab's limit allows no more servers than run already."""
    await world.restart(limits=Limits(Bounds(), {LAB: Bounds(servers=1)}), runs=rules)
    await world.request("head", payer=LAB)


def is_queued(world: World, number: int) -> bool:
    return run_of(world, number).state is RunState.QUEUED


def refused(world: World) -> list[str]:
    """Servers whose refused start the admin sees."""
    return [each.server for each in world.provisioner.overview.denied_starts()]


def counted_refusals() -> float:
    labels = {"scope": "group", "limit": "servers"}
    return REGISTRY.get_sample_value("ec2spawner_denied_starts_total", labels) or 0


async def waiting(world: World, kind: str, count: int = 300, **fields: Any) -> list[int]:
    """Runs that the lab pays for: an array, or each submitted by itself."""
    if kind == "array":
        return await submit(world, count, payer=LAB, **fields)
    found: list[int] = []
    for n in range(count):
        own: dict[str, Any] = {"max_usd": 100.0 + n} if kind == "each with its own cap" else {}
        found += await submit(world, payer=LAB, **fields, **own)
    return found


async def scans(world: World, count: int) -> None:
    """Let the hub read the queue so often, half a second apart."""
    for _ in range(count):
        await start_due(world)
        world.clock.advance(0.5)


@pytest.mark.parametrize("kind", ["array", "single"])
@pytest.mark.parametrize("user", ["ada", "bob"])
async def test_runs_that_a_limit_refuses_hold_up_no_others(
    world: World, kind: str, user: str
) -> None:
    await blocked(world)
    held = await waiting(world, kind)
    [free] = await submit(world, user=user)
    await scans(world, 3)
    assert not is_queued(world, free)
    assert all(is_queued(world, number) for number in held)
    assert {seen(world, number).message for number in held} == {FULL}


@pytest.mark.parametrize("user", ["ada", "bob"])
async def test_any_number_of_terms_that_are_refused_leaves_places_to_others(
    world: World, user: str
) -> None:
    """One place is free, and a retry is always due."""
    await blocked(world, QueueRules(at_once=1, priorities={LAB: 5}))
    held = await waiting(world, "each with its own cap", 40, profile="t4")
    for _ in range(50):
        await scans(world, 1)
    world.clock.advance(LIMIT_PAUSE.total_seconds())
    [free] = await submit(world, user=user)
    await scans(world, 3)
    assert not is_queued(world, free)
    assert all(is_queued(world, number) for number in held)


async def test_one_refusal_is_recorded_however_long_the_runs_wait(world: World) -> None:
    await blocked(world)
    held = await waiting(world, "array", 20)
    before = counted_refusals()
    for _ in range(5):
        await scans(world, 2)
        world.clock.advance(LIMIT_PAUSE.total_seconds())
    assert refused(world) == [f"/run/{held[0]}"]
    assert counted_refusals() == before + 1
    await world.provisioner.runs.cancel(ADA, held[0], all_of_array=True)
    await scans(world, 1)
    [again] = await waiting(world, "single", 1)
    await scans(world, 1)
    assert refused(world)[0] == f"/run/{again}", "of runs submitted later"


async def test_others_of_the_same_scan_are_not_judged_after_a_refusal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await blocked(world)
    await waiting(world, "array", 5)
    judged: list[int] = []
    admit = Admission.admit

    def counted(self: Admission, lease: Lease, **how: Any) -> Lease:
        judged.append(lease.run)
        return admit(self, lease, **how)

    monkeypatch.setattr(Admission, "admit", counted)
    assert len(world.provisioner.runs.due()) == 3
    await start_due(world)
    assert len(judged) == 1


async def test_nothing_holds_runs_after_one_that_can_never_start(world: World) -> None:
    await blocked(world)
    await waiting(world, "array", 5)
    await scans(world, 1)
    world.clock.advance(2 * LIMIT_PAUSE.total_seconds())
    [number] = due_numbers(world)
    await world.provisioner.runs.refuse(number, "there is no profile 't4'")
    assert len(due_numbers(world)) == 3


async def test_runs_that_wait_are_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await blocked(world)
    held = await waiting(world, "array", 1000)
    await world.complete_passes(1)
    written: list[int] = []
    save = world.store.runs.save

    async def counted(run: Any, *arguments: Any) -> None:
        written.append(run.number)
        await save(run, *arguments)

    monkeypatch.setattr(world.store.runs, "save", counted)
    for _ in range(3):
        await scans(world, 2)
        world.clock.advance(LIMIT_PAUSE.total_seconds())
    await world.complete_passes(1)
    assert written == []
    assert {seen(world, number).message for number in held} == {FULL}


def due_numbers(world: World) -> list[int]:
    return [run.number for run in world.provisioner.runs.due()]


async def test_a_limit_lets_the_next_run_start_when_one_of_the_user_ends(world: World) -> None:
    await world.restart(limits=Limits(Bounds(servers=1)), runs=QueueRules(20))
    first, second, *_ = await submit(world, 5)
    await scans(world, 2)
    assert [is_queued(world, each) for each in (first, second)] == [False, True]
    world.clock.advance(WELL_OVER)
    assert world.provisioner.runs.due() == []

    await world.provisioner.runs.cancel(ADA, first)

    await until(world.provisioner.runs.due, "the next one's turn")
    assert due_numbers(world) == [second], "one tries for all"
    await start_due(world)
    assert not is_queued(world, second)
    assert seen(world, second + 1).message == ""


async def test_a_limit_of_the_hub_lets_a_run_start_when_anybodys_server_ends(world: World) -> None:
    limits = Limits(Bounds(), {"hub": Bounds(servers=1)})
    await world.restart(limits=limits, runs=QueueRules(20))
    server = await world.request("eve")
    [number] = await submit(world)
    await scans(world, 1)
    world.clock.advance(WELL_OVER)
    assert world.provisioner.runs.due() == []
    await world.stop(server)
    await until(world.provisioner.runs.due, "its turn")
    assert due_numbers(world) == [number]


async def test_more_than_one_starts_again_once_one_has_started(world: World) -> None:
    limits = Limits(Bounds(servers=3))
    await world.restart(limits=limits, runs=QueueRules(20))
    servers = [await world.request(server=f"s{n}") for n in range(3)]
    held = await submit(world, 5)
    await scans(world, 1)
    world.clock.advance(WELL_OVER)
    for server in servers:
        await world.stop(server)
    for server in servers:
        await world.state(server, LeaseState.ENDED)
    await until(world.provisioner.runs.due, "a turn")
    await scans(world, 1)
    assert [is_queued(world, number) for number in held] == [False, True, True, True, True]
    await scans(world, 1)
    assert [is_queued(world, number) for number in held] == [False, False, False, True, True]


async def test_after_an_unexpected_error_another_run_with_its_terms_is_tried(world: World) -> None:
    allow_runs(world, RULES)
    first, second = await submit(world, 2)
    runs, terms = world.provisioner.runs, run_of(world, first).terms(world.clock())
    runs.hold(terms, "a bug", timedelta(seconds=30))
    runs.pause(first, timedelta(minutes=2))
    world.clock.advance(31)
    assert due_numbers(world) == [second]
    await start_due(world)
    world.clock.advance(90)
    assert due_numbers(world) == [first]


async def test_runs_that_wait_are_tried_again_after_a_restart(world: World) -> None:
    await blocked(world)
    [number] = await waiting(world, "single", 1)
    await scans(world, 1)
    assert world.provisioner.runs.due() == []
    await world.restart(limits=Limits())
    assert due_numbers(world) == [number]


async def test_nothing_is_remembered_of_runs_that_wait_no_more(world: World) -> None:
    await blocked(world)
    for n in range(5):
        [number] = await waiting(world, "single", 1, max_spot_usd_per_hour=0.1 + n)
        await scans(world, 1)
        await world.provisioner.runs.cancel(ADA, number)
    assert world.provisioner.runs.due() == []
    assert world.provisioner._state.runs.holds.is_empty


async def test_runs_with_a_cap_wait_together_for_prices(world: World) -> None:
    allow_runs(world, RULES)
    held = await waiting(world, "array", max_usd=0.001)  # spot prices are not known here
    [free] = await submit(world)
    await scans(world, 3)
    assert not is_queued(world, free)
    assert {seen(world, number).message for number in held} == {
        "Waits until prices are known, because it has a cost cap"
    }
