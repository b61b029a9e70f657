"""Cost and price of a server that moves, as its user sees them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.cost import usd
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.api.instances import server_model
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import Cost, Market, Stop
from tests.unit.provisioner.lifecycle.test_continuation import boot_for
from tests.unit.provisioner.lifecycle.test_continue_on_other_hardware import continues_on
from tests.unit.provisioner.world import Agent, World, until

RESUME = SleepRules(save_seconds=300.0, after_interruption="resume-on-demand")


async def left(world: World, lease: Lease, agent: Agent) -> tuple[Lease, Agent]:
    """The server on its next instance, after a notice; the old one still runs."""
    await agent.heartbeat(interruption_at=world.clock() + timedelta(seconds=115))
    await until(lambda: len(world.cloud.running()) == 2, "another instance")
    [instance_id] = set(world.cloud.running()) - {agent.instance_id}
    other = Agent(world, instance_id)
    serving = asyncio.create_task(other.serve())
    await world.state(lease, LeaseState.ENDING)
    await agent.event("stopped")
    return await serving, other


async def reclaimed(world: World, lease: Lease, agent: Agent) -> None:
    """Let EC2 reclaim the instance that the server has left."""
    world.cloud.end(agent.instance_id, SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)


async def test_what_a_server_has_cost_continues_where_it_moves(priced: World) -> None:
    lease, agent = await priced.ready(sleep=RESUME)
    await agent.heartbeat_often(7200.0)
    before = (await agent.heartbeat()).cost

    second, other = await left(priced, lease, agent)
    await reclaimed(priced, lease, agent)
    await other.heartbeat_often(3600.0)

    cost = (await other.heartbeat()).cost
    assert cost.since == before.since
    leases = (priced.now(lease), priced.now(second))
    paid = [usd(each.segments, priced.clock()) or 0.0 for each in leases]
    assert cost.usd == pytest.approx(sum(paid), abs=1e-6)
    assert cost.usd == cost.known_usd
    assert cost.usd == pytest.approx(2 * 0.20 + 0.526, abs=0.02)
    assert cost.saved_usd == pytest.approx(2 * 0.326, abs=0.02)
    [shown] = [each for each in priced.provisioner.overview.servers() if each.lease.user == "ada"]
    assert shown.earlier.since == before.since
    assert shown.earlier.usd == pytest.approx(paid[0], abs=1e-6)


async def test_nothing_is_lost_of_several_moves_nor_in_a_restart(priced: World) -> None:
    lease, agent = await priced.ready(sleep=replace(RESUME, after_interruption="resume"))
    since, leases = (await agent.heartbeat()).cost.since, [lease]
    for _ in range(2):
        await agent.heartbeat_often(3600.0)
        following, other = await left(priced, leases[-1], agent)
        await reclaimed(priced, leases[-1], agent)
        leases.append(following)
        agent = other
    cost = (await agent.heartbeat()).cost
    assert cost.since == since
    assert cost.usd == pytest.approx(2 * 0.20, abs=0.05)

    await priced.restart()

    again = (await agent.heartbeat()).cost
    assert (again.since, again.usd) == (since, pytest.approx(cost.usd, abs=1e-3))


@pytest.mark.parametrize("restarts", [False, True])
async def test_nothing_is_lost_when_the_lease_before_is_forgotten(
    priced: World, restarts: bool
) -> None:
    lease, agent = await priced.ready(sleep=RESUME)
    await agent.heartbeat_often(7200.0)
    _, other = await left(priced, lease, agent)
    await reclaimed(priced, lease, agent)
    cost = (await other.heartbeat()).cost
    if restarts:
        await priced.restart()
        await other.heartbeat()
        assert (await other.heartbeat()).cost.usd == pytest.approx(cost.usd, abs=0.01)

    await forget(priced, other, lease)

    again = (await other.heartbeat()).cost
    assert again.since == cost.since
    assert again.usd == pytest.approx(cost.usd + 0.526 / 2, abs=0.01)


async def test_nothing_is_lost_where_a_restart_follows_a_start_elsewhere_that_failed(
    priced: World,
) -> None:
    """The lease that ended last of the server is then not the one that it has left."""
    lease, agent = await priced.ready(sleep=RESUME)
    await agent.heartbeat_often(7200.0)
    second, other = await left(priced, lease, agent)
    await reclaimed(priced, lease, agent)
    await other.heartbeat_often(120.0)
    for market in Market:
        priced.cloud.sell_out(market, "g5.xlarge")
    found = await continues_on(priced, second)
    await priced.state(found, LeaseState.ENDED)
    await priced.complete_passes(3)
    cost = (await other.heartbeat()).cost

    await priced.restart()

    again = (await other.heartbeat()).cost
    assert again.since == cost.since
    assert again.usd == pytest.approx(cost.usd, abs=0.01)


async def test_nothing_is_lost_where_the_end_of_a_move_given_up_is_not_stored_yet(
    priced: World,
) -> None:
    """Two open leases then continue the one that has ended."""
    lease, agent = await priced.ready(sleep=replace(RESUME, after_interruption="resume"))
    await agent.heartbeat_often(7200.0)
    given_up = await continues_on(priced, lease)
    await priced.provisioner.moves.give_up("ada", "", Stop(reason="user"))
    await priced.state(given_up, LeaseState.ENDED)
    second, other = await left(priced, lease, agent)
    await reclaimed(priced, lease, agent)
    cost = (await other.heartbeat()).cost
    await priced.kill()
    priced.run_sql(f"UPDATE lease SET state = 'ending' WHERE lease_id = '{given_up.lease_id}'")

    await priced.start()
    priced.provisioner.take_up("ada", "", second.lease_id)
    await priced.state(given_up, LeaseState.ENDED)
    await forget(priced, other, given_up)
    _, last = await left(priced, second, other)
    await reclaimed(priced, second, other)
    await forget(priced, last, second)

    again = (await last.heartbeat()).cost
    assert again.since == cost.since
    half_an_hour = 0.10  # of `last`: AWS does not charge `second`, reclaimed in its first hour
    assert again.usd == pytest.approx(cost.usd + half_an_hour, abs=0.02)


async def forget(world: World, other: Agent, ended: Lease) -> None:
    """Half an hour later."""
    leases = world.provisioner._state.leases
    await other.heartbeat_often(1800.0)
    await world.complete_passes(1)
    leases.forget_last_ended(world.clock())
    assert leases.remembered(ended.lease_id) is None


async def test_a_move_to_another_price_is_said_with_both(priced: World) -> None:
    lease, agent = await priced.ready(sleep=RESUME)
    assert (await agent.heartbeat()).cost.price_change is None
    await agent.heartbeat_often(7200.0)

    second, other = await left(priced, lease, agent)
    await reclaimed(priced, lease, agent)

    change = (await other.heartbeat()).cost.price_change
    assert change is not None
    assert (change.why, change.at) == ("move", second.segments[0].start)
    assert (change.before.usd_per_hour, change.before.market) == (0.20, Market.SPOT)
    assert (change.now.usd_per_hour, change.now.market) == (0.526, Market.ON_DEMAND)


async def test_a_price_that_its_user_has_chosen_is_no_news(priced: World) -> None:
    """*Continue on…* has shown it."""
    lease, agent = await priced.ready()
    await agent.heartbeat_often(120.0)
    before = (await agent.heartbeat()).cost
    zones = {zone for _, zone in priced.cloud.prices}
    dearer = {("g5.xlarge", zone): 0.50 for zone in zones}
    priced.cloud.prices = {**priced.cloud.prices, **dearer}
    prices = priced.provisioner.market.prices
    prices.want({"g5.xlarge"})
    await until(lambda: prices._spot.keys() >= dearer.keys(), "prices")
    found = await continues_on(priced, lease)
    other = await boot_for(priced, lease)
    serving = asyncio.create_task(other.serve())
    await priced.state(lease, LeaseState.ENDING)
    await agent.event("stopped")
    await serving
    cost = (await other.heartbeat()).cost
    assert priced.now(found).state is LeaseState.READY
    assert cost.usd_per_hour > 2 * before.usd_per_hour
    assert cost.price_change is None


async def test_each_server_on_the_page_costs_its_own_while_it_moves(priced: World) -> None:
    lease, agent = await priced.ready(sleep=RESUME)
    await agent.heartbeat_often(7200.0)
    await left(priced, lease, agent)
    shown = [server_model(x, priced.clock()) for x in priced.provisioner.overview.servers("ada")]
    assert sum(each.usd or 0.0 for each in shown) == pytest.approx(0.41, abs=0.02)
    await reclaimed(priced, lease, agent)
    [shown_after] = priced.provisioner.overview.servers("ada")
    model = server_model(shown_after, priced.clock())
    assert model.usd == pytest.approx(0.41, abs=0.03)
    assert model.since == priced.now(lease).segments[0].start


async def test_what_is_not_charged_is_said(priced: World) -> None:
    """AWS does not charge for a spot instance that it takes back in its first hour."""
    lease, agent = await priced.ready(sleep=RESUME)
    await agent.heartbeat_often(1800.0)
    _, other = await left(priced, lease, agent)
    before = (await other.heartbeat()).cost
    assert before.credits == []

    await reclaimed(priced, lease, agent)

    cost = (await other.heartbeat()).cost
    [credit] = cost.credits
    assert credit.why == "free-hour"
    assert credit.usd == pytest.approx(_today(before) - _today(cost), abs=1e-6)
    assert credit.usd == pytest.approx(0.10, abs=0.02)
    change = cost.price_change
    assert change is not None
    assert change.before.usd_per_hour == 0.20, "it was not free while it ran"


def _today(cost: Cost) -> float:
    assert cost.today_usd is not None
    return cost.today_usd


async def test_a_start_that_is_not_to_be_had_as_shown_is_said(priced: World) -> None:
    priced.cloud.sell_out(Market.SPOT)

    _, agent = await priced.ready()

    change = (await agent.heartbeat()).cost.price_change
    assert change is not None
    assert change.why == "start"
    assert (change.before.usd_per_hour, change.before.market) == (0.20, Market.SPOT)
    assert (change.now.usd_per_hour, change.now.market) == (0.526, Market.ON_DEMAND)


async def test_a_spot_price_that_rises_is_said(priced: World) -> None:
    lease, agent = await priced.ready()
    await agent.heartbeat_often(1800.0)
    zone = priced.now(lease).segments[-1].zone

    priced.cloud.prices = {**priced.cloud.prices, ("g4dn.xlarge", zone): 0.40}
    await until(lambda: len(priced.now(lease).segments) == 2, "the new price")

    change = (await agent.heartbeat()).cost.price_change
    assert change is not None
    assert change.why == "rise"
    assert (change.before.usd_per_hour, change.now.usd_per_hour) == (0.20, 0.40)


async def test_what_is_not_for_the_instance_is_said_apart(priced: World) -> None:
    lease, agent = await priced.ready()
    assert (await agent.heartbeat()).cost.beside_usd_per_hour == 0.0
    segments = priced.now(lease).segments
    with_address = replace(segments[-1], address_usd_per_hour=0.005)
    priced.provisioner._state.leases.remember(
        lease.lease_id, segments=(*segments[:-1], with_address)
    )
    cost = (await agent.heartbeat()).cost
    assert cost.beside_usd_per_hour == pytest.approx(0.005)
    assert cost.beside_of == ["address"], "this cloud's disks are free"
