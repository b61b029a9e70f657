"""What `ec2spawner prices` says of a region."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner import data
from ec2spawner.config import Profile
from ec2spawner.core.pricing.price_history import PricePoint
from ec2spawner.prices.rows import Region, rows_of

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TYPES = {name: data.instance_types()[name] for name in ("g4dn.xlarge", "g4dn.2xlarge")}
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
T4 = Profile.model_validate({"display_name": "T4", "gpu": "T4"})


def price(usd: float) -> tuple[PricePoint, ...]:
    return (PricePoint(NOW - timedelta(days=8), usd),)


REGION = Region(
    "us-east-1",
    ZONES,
    TYPES,
    {name: frozenset(ZONES) for name in TYPES},
    on_demand={"g4dn.xlarge": 0.5, "g4dn.2xlarge": 0.75},
    on_demand_source="AWS Price List",
    spot={
        ("g4dn.xlarge", "us-east-1a"): price(0.3),
        ("g4dn.xlarge", "us-east-1b"): price(0.2),
        ("g4dn.2xlarge", "us-east-1c"): price(0.25),
    },
)


def test_the_cheapest_type_and_its_zones() -> None:
    [row] = rows_of(REGION, [T4], "x86_64", NOW)
    assert (row.instance_type, row.offered, row.zones) == ("g4dn.xlarge", True, ZONES)
    assert row.spot_by_zone == {"us-east-1a": 0.3, "us-east-1b": 0.2}
    assert (row.spot_usd_per_hour, row.on_demand_usd_per_hour) == (0.2, 0.5)
    assert row.saving_percent == 60
    assert row.steadiness == "steady for 7 days"
    assert row.risk == "often"


def test_a_type_that_cannot_have_the_volumes_of_a_server_is_left_out() -> None:
    small = replace(TYPES["g4dn.xlarge"], max_volumes=2)
    region = replace(REGION, types={**TYPES, "g4dn.xlarge": small})
    for volumes, name in ((1, "g4dn.xlarge"), (2, "g4dn.2xlarge")):
        [row] = rows_of(region, [T4], "x86_64", NOW, {T4: volumes}.__getitem__)
        assert row.instance_type == name
    xen = Profile.model_validate({"display_name": "M60", "instance_types": ["g3s.xlarge"]})
    known = replace(TYPES["g4dn.xlarge"], name="g3s.xlarge")
    [row] = rows_of(replace(REGION, types={"g3s.xlarge": known}), [xen], "x86_64", NOW, lambda _: 1)
    assert not row.offered


def test_a_larger_type_that_is_cheaper_on_spot_comes_first() -> None:
    region = replace(REGION, spot={("g4dn.2xlarge", "us-east-1c"): price(0.1)})
    [row] = rows_of(region, [T4], "x86_64", NOW)
    assert (row.instance_type, row.spot_usd_per_hour) == ("g4dn.2xlarge", 0.1)


def test_a_profile_on_demand_is_judged_by_on_demand_prices() -> None:
    region = replace(REGION, spot={("g4dn.2xlarge", "us-east-1c"): price(0.1)})
    safe = Profile.model_validate({"display_name": "T4", "gpu": "T4", "market": "on-demand"})
    [row] = rows_of(region, [safe], "x86_64", NOW)
    assert row.instance_type == "g4dn.xlarge"


def test_what_is_unknown_stays_unknown() -> None:
    [row] = rows_of(replace(REGION, spot={}, on_demand={}), [T4], "x86_64", NOW)
    assert row.offered
    assert (row.spot_usd_per_hour, row.on_demand_usd_per_hour) == (None, None)
    assert (row.saving_percent, row.steadiness, row.on_demand_source) == (None, "", "")


def test_a_region_without_the_gpu_says_so() -> None:
    [row] = rows_of(Region("eu-north-1", ("eu-north-1a",)), [T4], "x86_64", NOW)
    assert not row.offered
    assert row.instance_type == ""


prices = st.floats(min_value=0.001, max_value=50, allow_nan=False)


@given(
    spot=st.dictionaries(st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from(ZONES)), prices)
)
def test_the_figure_is_the_lowest_of_its_zones_and_types(
    spot: dict[tuple[str, str], float],
) -> None:
    region = replace(REGION, spot={key: price(usd) for key, usd in spot.items()})
    [row] = rows_of(region, [T4], "x86_64", NOW)
    own = [usd for (name, _), usd in spot.items() if name == row.instance_type]
    assert row.spot_usd_per_hour == min(own, default=None)
    known = [usd for usd in (row.spot_usd_per_hour, row.on_demand_usd_per_hour) if usd is not None]
    assert min(known) == min([*spot.values(), *REGION.on_demand.values()])
