"""What everything costs in an hour, and what that lacks: the page's forecast of the month."""

from __future__ import annotations

import pytest

from ec2spawner.core.ledger.cost_rows import HUB, Resource
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.provisioner.limits.rates import HubRate, Rates
from ec2spawner.provisioner.model.leases.lease import Snapshot
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.offers.market import MarketData
from ec2spawner.wire import Market
from tests.bare_state import bare_state
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.stored import lease

LISTED = 0.526
KNOWN = {"usd_per_hour": 0.2, "on_demand_usd_per_hour": LISTED}
LIKE_LISTED = {"usd_per_hour": None, "on_demand_usd_per_hour": LISTED}
NOTHING = {"usd_per_hour": None}
DISK = {"disk_usd_per_month": None}


async def hub_rate(*servers: dict[str, float | None], home: str = "") -> HubRate:
    """Of a hub with these servers, and with a home on a volume of this type."""
    clock = Clock()
    state = bare_state(Settings(hub="hub", region="us-east-1", subnets=()), clock)
    leases = []
    for number, prices in enumerate(servers):
        segment = Segment(instance_id=f"i-{number}", market=Market.SPOT, start=clock(), **prices)  # type: ignore[arg-type]
        leases.append(lease(f"lease-{number}", user=f"user-{number}", segments=(segment,)))
    state.leases.load(Snapshot(leases=tuple(leases)))
    if home:
        state.home_storage.found((), {HUB: {(Resource.HOME, home): 1024}})
    return await Rates(state, MarketData.of(state, SimulatedCloud(clock), {})).of_hub(clock())


@pytest.mark.parametrize(
    ("servers", "usd", "known_usd", "unpriced"),
    [
        ((), 0.0, 0.0, 0),
        ((KNOWN, KNOWN), 0.4, 0.4, 0),
        ((KNOWN, LIKE_LISTED), 0.2 + LISTED, 0.2, 0),
        ((KNOWN, NOTHING), 0.2, 0.2, 1),
        ((KNOWN | DISK, LIKE_LISTED | DISK), 0.2 + LISTED, 0.2, 2),
        ((NOTHING | DISK,), 0.0, 0.0, 2),
    ],
)
async def test_what_no_list_price_replaces_is_counted(
    servers: tuple[dict[str, float | None], ...], usd: float, known_usd: float, unpriced: int
) -> None:
    found = await hub_rate(*servers)
    assert (found.usd, found.known_usd) == (pytest.approx(usd), pytest.approx(known_usd))
    assert found.unpriced == unpriced


async def test_a_home_without_a_price_is_counted() -> None:
    assert (await hub_rate(KNOWN, home="io2")).unpriced == 1
