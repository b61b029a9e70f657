"""The hub's edge of the queue: what it requests, and what waits when it cannot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ec2spawner.core.profiles.choices import OptionsRefused
from ec2spawner.core.runs.queue import QueueRules
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.runs import starts
from ec2spawner.hub.runs.lease import WaitsForPrice
from ec2spawner.hub.runs.starts import RunStarts
from ec2spawner.hub.spawn.server_options import ProfileListError
from ec2spawner.provisioner.model.leases.home_change import NO_CHANGE, HomeChange
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.leases.run import Run
from ec2spawner.provisioner.runs.runs import Owner
from tests.unit.provisioner.runs.submitted import allow_runs, lease_of, run_of, seen, submit
from tests.unit.provisioner.world import World, until
from tests.user_accounts import fake_user, fake_users

DEAR = WaitsForPrice("Waits for a spot instance at 0.001 USD/hour or less")


@dataclass
class HubOfRuns:
    """`RunStarts` over a world, with users but without JupyterHub."""

    world: World
    errors: dict[str, Exception] = field(default_factory=dict)
    """By profile: what its runs are refused with."""
    asked: Counter[str] = field(default_factory=Counter)
    """By profile: how often a lease was made."""

    async def run_lease(
        self, running: Any, provisioner: Any, spawner: Any, run: Run, *_: Any
    ) -> tuple[Lease, HomeChange]:
        """In the place of the hub's."""
        self.asked[run.profile] += 1
        home = await self.making(run)
        if error := self.errors.get(run.profile):
            raise error
        return lease_of(self.world, run), home

    async def making(self, run: Run) -> HomeChange:
        """What is awaited before there is a lease."""
        await asyncio.sleep(0)
        return NO_CHANGE

    async def run(self) -> None:
        spawner = SimpleNamespace(get_env=lambda: {"JUPYTERHUB_API_URL": "http://hub/api"})
        known: dict[str, Any] = {"orm_spawners": {"": None}, "spawners": {"": spawner}}
        users = fake_users(*(fake_user(name, **known) for name in ("ada", "bob")))
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        started.set_result(None)
        app = SimpleNamespace(_start_future=started, users=users)
        service = SimpleNamespace(
            options=SimpleNamespace(contact="ops"), accounts=self.world.provisioner.accounts
        )
        await RunStarts(cast("Any", app), cast("Any", service), self.world.provisioner).run()


@pytest.fixture
async def hub(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HubOfRuns]:
    """It looks at the queue when that changes only."""
    allow_runs(world, QueueRules(at_once=3, priorities={"group:lab": 5}))
    found = HubOfRuns(world)
    monkeypatch.setattr(starts, "INTERVAL", 3600.0)
    monkeypatch.setattr(starts, "run_lease", found.run_lease)
    monkeypatch.setattr(starts, "reachable_api_url", lambda url, options: url)
    running = asyncio.create_task(found.run())
    yield found
    running.cancel()
    await asyncio.wait({running})


ERRORS: dict[str, Exception] = {
    "price": DEAR,
    "profiles": ProfileListError("The list of profiles is not available"),
    "image": SpawnError("The hub cannot find the image", reason="image", status_code=503),
    "hook": RuntimeError("a function of the admin"),
}


@pytest.mark.parametrize("kind", ["array", "single"])
@pytest.mark.parametrize("reason", ERRORS)
async def test_what_cannot_start_for_now_holds_up_no_others(
    hub: HubOfRuns, kind: str, reason: str
) -> None:
    world, error = hub.world, ERRORS[reason]
    hub.errors["p4d"] = error
    batches, size = (1, 300) if kind == "array" else (300, 1)
    lab: dict[str, Any] = {"profile": "p4d", "payer": "group:lab", "max_spot_usd_per_hour": 0.001}
    held = [n for _ in range(batches) for n in await submit(world, size, **lab)]
    [own] = await submit(world)
    [other] = await submit(world, user="bob")
    await until(lambda: seen(world, own).state == "starting", "another profile of the user")
    await until(lambda: seen(world, other, "bob").state == "starting", "another user's run")
    assert hub.asked["p4d"] <= 3, "the first look's"
    said = {(seen(world, number).state, seen(world, number).message) for number in held}
    assert len(said) == 1, "the same of each"
    [(state, message)] = said
    assert state == "queued"
    words = "ask ops" if reason == "hook" else getattr(error, "jupyterhub_message", str(error))
    assert words in message


async def test_a_run_takes_any_price_once_it_has_waited_long_enough(hub: HubOfRuns) -> None:
    world = hub.world
    hub.errors["t4"] = DEAR
    until_then = world.clock() + timedelta(seconds=10)
    price: dict[str, Any] = {"max_spot_usd_per_hour": 0.001}
    [patient] = await submit(world, **price)
    [hurried] = await submit(world, wait_until=until_then, **price)
    await until(lambda: "USD/hour or less" in seen(world, hurried).message, "a refusal")
    asked = hub.asked["t4"]
    del hub.errors["t4"]
    world.clock.advance(11)
    world.provisioner._state.runs.announce()
    await until(lambda: seen(world, hurried).state == "starting", "its start at any price")
    assert seen(world, patient).state == "queued"
    assert hub.asked["t4"] == asked + 1


async def test_runs_that_can_never_start_end_and_nothing_holds_those_after_them(
    hub: HubOfRuns,
) -> None:
    world = hub.world
    hub.errors["gone"] = DEAR
    held = await submit(world, 30, profile="gone", max_spot_usd_per_hour=0.001)
    await until(lambda: seen(world, held[-1]).message == str(DEAR), "a refusal")
    hub.errors["gone"] = OptionsRefused("there is no profile 'gone'")
    world.clock.advance(2 * starts.PRICE_PAUSE.total_seconds())
    world.provisioner._state.runs.announce()
    await until(lambda: {seen(world, x).outcome for x in held} == {"failed"}, "their end")
    assert world.provisioner.runs.not_ended() == []


async def test_a_run_that_is_cancelled_before_it_starts_gets_no_home(
    hub: HubOfRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = hub.world
    lease, agent = await world.ready("ada", home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)

    async def cancelled_meanwhile(run: Run) -> HomeChange:
        home = await world.provisioner.homes.plan_copy(run.user, run.home, 20)
        await world.provisioner.runs.cancel(Owner("ada"), run.number)
        await until(lambda: run_of(world, run.number).is_cleared, "all cleared")
        return home

    monkeypatch.setattr(hub, "making", cancelled_meanwhile)
    [number] = await submit(world)
    await until(lambda: seen(world, number).outcome == "cancelled", "its end")
    await world.complete_passes(1)
    homes = world.provisioner._state.homes
    assert [home.server for home in (*homes.live(), *homes.leaving())] == [""]
