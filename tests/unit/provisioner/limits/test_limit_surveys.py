"""All limits are judged once for all pages that show them within seconds of each other."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.core.limits.bounds import Bounds, Kind, Limits
from ec2spawner.provisioner.limits.survey import MAX_AGE, LimitSurveys, Survey
from ec2spawner.provisioner.model.leases.lease import Lease, Snapshot
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.offers.market import MarketData
from ec2spawner.provisioner.overview import Overview
from ec2spawner.provisioner.runtime.cooperative_iteration import BATCH
from ec2spawner.provisioner.runtime.task_group import TaskGroup
from tests.bare_state import bare_state
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.stored import lease

SERVERS = 4 * BATCH
"""So many that others run while they are judged."""


class Pages:
    """What admins' open pages read, and the servers that they show."""

    def __init__(self) -> None:
        self.clock = clock = Clock()
        bounds = Limits(Bounds(usd_per_month=10, servers=2), {"hub": Bounds(servers=SERVERS)})
        settings = Settings(hub="hub", region="us-east-1", subnets=(), limits=bounds)
        self.state = bare_state(settings, clock, monotonic=clock.monotonic)
        market, self.tasks = MarketData.of(self.state, SimulatedCloud(clock), {}), TaskGroup()
        self.surveys = LimitSurveys(self.state, market, self.tasks)
        self.overview = Overview(self.state, market, self.surveys)
        self.run(SERVERS)

    def run(self, servers: int) -> None:
        leases: list[Lease] = [lease(f"lease-{n}", user=f"user-{n}") for n in range(servers)]
        self.state.leases.load(Snapshot(leases=tuple(leases)))

    async def servers(self) -> int:
        """How many the hub's limit counts."""
        [of_hub] = (await self.overview.hub_limits()).of_hub
        assert of_hub.standing.kind is Kind.SERVERS
        return of_hub.standing.used


@pytest.fixture
def pages() -> Pages:
    return Pages()


async def test_pages_share_a_survey_for_some_seconds_whatever_the_wall_clock_says(
    pages: Pages,
) -> None:
    assert await pages.servers() == SERVERS
    begun = pages.clock()
    pages.run(SERVERS + 1)
    pages.clock.advance(MAX_AGE - 0.1)
    pages.clock.jump(3600)
    assert await pages.servers() == SERVERS
    limits = await pages.overview.hub_limits()
    assert limits.at == begun, "the page says of when it is"
    assert [each.standing.percent for each in limits.nearly_used] == [100]
    pages.clock.jump(-7200)
    pages.clock.advance(0.1)
    assert await pages.servers() == SERVERS + 1
    limits = await pages.overview.hub_limits()
    assert limits.at == pages.clock()
    assert [each.standing.scope for each in limits.nearly_used] == ["hub"]


async def asked(pages: Pages) -> asyncio.Task[Survey]:
    """A request that has begun to wait."""
    request = asyncio.create_task(pages.surveys.latest())
    await asyncio.sleep(0)
    return request


async def test_requests_at_once_share_a_survey_that_no_cancelled_one_ends(pages: Pages) -> None:
    begun, first = pages.clock(), await asked(pages)
    pages.clock.advance(2 * MAX_AGE)
    second = await asked(pages)
    third = await asked(pages)
    first.cancel()
    found = await second
    assert await third is found
    assert first.cancelled()
    assert found.at == begun
    assert (await pages.surveys.latest()).at == pages.clock()


async def test_a_survey_that_did_not_end_is_made_again(pages: Pages) -> None:
    first = await asked(pages)
    await pages.tasks.end()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await pages.servers() == SERVERS
