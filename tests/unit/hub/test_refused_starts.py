"""A start that is refused changes nothing: no home, no copy of one, no session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm

from ec2spawner.config import validate_options
from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.hub.app import service
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.runs.lease import WaitsForPrice, run_lease
from ec2spawner.hub.security.sealed_start import Seal
from ec2spawner.provisioner.model.leases.lease import Home, LeaseState
from ec2spawner.provisioner.model.leases.mounts import Mounts
from ec2spawner.provisioner.model.leases.run import RunState
from ec2spawner.provisioner.model.settings import HomeRules
from ec2spawner.provisioner.state.home_records import HomeChanged
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.spawner import EC2Spawner
from tests.stored import sleeping
from tests.unit.provisioner.runs.submitted import allow_runs, run_of, submit
from tests.unit.provisioner.world import World, until
from tests.user_accounts import fake_user

from .hub_of_ann import URL

pytestmark = pytest.mark.virtual_time

NOBODY = Limits(user=Bounds(servers=0))
"""Refuse all starts."""


class Adas(EC2Spawner):
    """A spawner of ada outside a JupyterHub."""

    def get_env(self) -> dict[str, str]:
        return {"JUPYTERHUB_API_URL": URL, "JUPYTERHUB_ACTIVITY_URL": f"{URL}/users/ada/activity"}

    def get_args(self) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def _no_hub_is_left() -> Iterator[None]:
    yield
    service.publish(None)


def spawner_for(server: str, chosen: dict[str, Any]) -> Adas:
    """As JupyterHub has it when it calls `start`."""
    user = fake_user("ada", settings={"cookie_secret": b"x" * 32})
    base_url = f"/user/ada/{server}"
    listening = orm.Server(proto="http", ip="", port=0, base_url=base_url, cookie_name="ada")
    return Adas(
        user=user,
        hub=SimpleNamespace(base_url="/hub/"),
        orm_spawner=orm.Spawner(name=server, server=listening),
        db=SimpleNamespace(commit=lambda: None),
        user_options=chosen,
        profile_list=[{"display_name": "T4", "slug": "t4", "instance_types": ["g4dn.xlarge"]}],
    )


def hub_of(world: World, copies: bool) -> service.HubService:
    """A hub that copies homes, or no more."""
    options = validate_options(
        {
            "region": "us-east-1",
            "subnets": ["subnet-a", "subnet-b"],
            "profile_list": spawner_for("", {}).profile_list,
            "home": {"named_servers": "copy" if copies else "empty"},
        },
        cleanup_servers=False,
        environ={},
    )
    accounts = world.provisioner.accounts
    running = service.HubService(options, Seal(b"x" * 32), verifier=None, accounts=accounts)
    running.started(world.provisioner)
    return running


async def start(world: World, server: str = "", copies: bool = True, **chosen: Any) -> None:
    """JupyterHub's call to start a server of ada's. Raises `SpawnError`."""
    service.publish(hub_of(world, copies))
    await spawner_for(server, chosen).start()


async def refused(world: World, server: str = "", **chosen: Any) -> str:
    """The reason for which a start is refused."""
    with pytest.raises(SpawnError) as error:
        await start(world, server, **chosen)
    return error.value.reason


async def known(world: World) -> tuple[Any, ...]:
    """What the hub knows of homes and sessions, in memory and in its store."""
    state, stored = world.provisioner._state, await world.store.load()
    by_id = {home.home_id: home for home in stored.homes}
    session = world.provisioner.sleeping.last("ada", "")
    return state.homes.live(), state.homes.leaving(), by_id, set(state.homes.gone), session


async def stopped(world: World, **lease: Any) -> Home:
    """The home of a server that has run."""
    found, agent = await world.ready("ada", home_kind="ebs", **lease)
    await world.stop(found)
    await agent.event("stopped")
    await world.state(found, LeaseState.ENDED)
    home = world.provisioner.homes.of("ada", found.server)
    assert home is not None
    return home


async def gone(world: World) -> str:
    """A home whose volume was deleted in EC2, and its snapshot."""
    await world.restart(home=HomeRules(schedule=Schedule(every=3600, keep=3)))
    home = await stopped(world)
    world.clock.advance(7200)
    await world.complete_passes(1)
    await world.provisioner._state.sleeping.record(sleeping())
    del world.cloud.volumes[home.volume_id or ""]
    [snapshot_id] = world.cloud.snapshots
    return snapshot_id


async def pending(world: World) -> None:
    """A named server whose first home is yet to be copied."""
    source = await stopped(world)
    copy = replace(source, home_id="home-2", server="gpu", volume_id=None, made_from="vol-1")
    await world.provisioner._state.homes.save(copy)


async def asked_for(world: World, case: str) -> dict[str, Any]:
    """What a start is called with that changes a home."""
    match case:
        case "move":
            await stopped(world)
            return {"move_home": "us-east-1b"}
        case "restored":
            return {"replace_home": await gone(world)}
        case "empty":
            await gone(world)
            return {"replace_home": "empty"}
        case "copy":
            await stopped(world)
        case "copy in place of a temporary one":
            await stopped(world)
            temporary = Mounts(temporary_home=True)
            await world.ready("ada", server="gpu", home_kind="ebs", mounts=temporary)
        case "empty in place of a copy":
            await pending(world)
            return {"server": "gpu", "replace_home": "empty"}
        case "no copy any more":
            await pending(world)
            return {"server": "gpu", "copies": False}
    return {"server": "gpu"}


CASES = pytest.mark.parametrize(
    "case",
    [
        *("move", "restored", "empty", "copy", "copy in place of a temporary one"),
        *("empty in place of a copy", "no copy any more"),
    ],
)


@CASES
async def test_a_start_that_a_limit_refuses_changes_no_home(world: World, case: str) -> None:
    asked = await asked_for(world, case)
    await world.restart(limits=NOBODY)
    before = await known(world)
    assert await refused(world, **asked) == "limit"
    assert await known(world) == before


@CASES
async def test_a_start_of_what_no_zone_offers_changes_no_home(world: World, case: str) -> None:
    asked = await asked_for(world, case)
    world.cloud.not_offered |= {("g4dn.xlarge", "us-east-1a"), ("g4dn.xlarge", "us-east-1b")}
    await world.provisioner.market.catalogue.refresh()
    before = await known(world)
    assert await refused(world, **asked) == "not-offered"
    assert await known(world) == before


@CASES
async def test_a_start_that_is_admitted_changes_the_home(world: World, case: str) -> None:
    asked = await asked_for(world, case)
    before = await known(world)
    starting = asyncio.create_task(start(world, **asked))
    await until(lambda: world.provisioner.lease_of("ada", asked.get("server", "")))
    await world.complete_passes(1)
    live, leaving, stored, _, session = await known(world)
    assert (live, leaving) != before[:2]
    assert stored == {home.home_id: home for home in (*live, *leaving)}
    assert session is None or case == "restored"
    starting.cancel()
    await asyncio.wait({starting})


async def test_of_two_starts_of_which_a_limit_allows_one_only_that_moves_its_home(
    world: World,
) -> None:
    servers = ("one", "two")
    for server in servers:
        await stopped(world, server=server)
    await world.restart(limits=Limits(user=Bounds(servers=1)))
    starts = [asyncio.create_task(start(world, x, move_home="us-east-1b")) for x in servers]
    await asyncio.wait(starts, return_when=asyncio.FIRST_COMPLETED)
    [admitted] = [x for x in servers if world.provisioner.lease_of("ada", x)]
    assert [x for x in servers if world.provisioner.homes.is_moving("ada", x)] == [admitted]
    for each in starts:
        each.cancel()
    await asyncio.wait(starts)


async def test_a_run_that_waits_for_a_limit_or_a_price_begins_no_home(world: World) -> None:
    await stopped(world)
    await world.restart(limits=NOBODY)
    allow_runs(world)
    spawner, hub = spawner_for("", {}), hub_of(world, copies=True)
    for price in (None, 0.001):
        [number] = await submit(world, max_spot_usd_per_hour=price)
        run = run_of(world, number)
        with contextlib.suppress(WaitsForPrice):
            lease, home = await run_lease(hub, world.provisioner, spawner, run, {}, URL)
            await world.provisioner.runs.start(number, lease, home)
        assert run_of(world, number).state is RunState.QUEUED
        assert world.provisioner.homes.of("ada", run.home) is None


async def test_a_change_that_is_planned_for_another_home_is_refused(world: World) -> None:
    home = await stopped(world)
    planned = world.provisioner.homes.plan_move(home, "us-east-1b")
    await world.provisioner._state.homes.save(replace(home, size_gib=70))
    before = await known(world)
    with pytest.raises(HomeChanged):
        await world.request("ada", home_kind="ebs", home=planned)
    assert await known(world) == before
    assert world.provisioner.lease_of("ada", "") is None


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_is_asked_of_ec2_for_a_home_before_its_change_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    await stopped(world)
    answer, save = asyncio.Event(), world.store.save_home

    async def save_late(home: Home) -> None:
        await answer.wait()
        if fails:
            monkeypatch.undo()
            raise StoreError("database or disk is full")
        await save(home)

    monkeypatch.setattr(world.store, "save_home", save_late)
    home = await world.provisioner.homes.plan_copy("ada", "gpu", 20)
    ask = world.request("ada", server="gpu", home_kind="ebs", home=home)
    starting = asyncio.create_task(ask)
    await until(lambda: world.provisioner.lease_of("ada", "gpu"))
    await world.watch_passes(2)
    assert world.cloud.of("copy_volume") == []
    answer.set()
    if fails:
        with pytest.raises(StoreError):
            await starting
        await world.complete_passes(1)
        assert world.cloud.of("copy_volume") == [], "no start waits for it"
        live, _, by_id, *_ = await known(world)
        assert set(by_id.values()) == set(live), "a pass has stored it"
    else:
        await until(lambda: world.cloud.of("copy_volume"), "the copy")
        await starting
