"""What the zones have: bundled, until EC2 says otherwise."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import MappingProxyType

import pytest

from ec2spawner import data
from ec2spawner.config import Profile
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.offers.instance_types import Catalogue
from tests.bare_state import bare_state
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.unit.provisioner.world import SETTINGS, until

A, B = "us-east-1a", "us-east-1b"
THROTTLE = CloudError("RequestLimitExceeded", "slow down", retryable=True)
T4 = Profile.model_validate({"display_name": "T4", "gpu": "T4"})

BUNDLED = MappingProxyType(
    {
        name: data.instance_types()[name]
        for name in ("g4dn.xlarge", "g4dn.2xlarge", "m5.large", "g5g.xlarge")
    }
)


@pytest.fixture
def cloud() -> SimulatedCloud:
    cloud = SimulatedCloud(Clock())
    cloud.types = dict(BUNDLED)
    return cloud


@pytest.fixture
def catalogue(cloud: SimulatedCloud) -> Catalogue:
    settings = replace(SETTINGS, catalogue_interval=3600, catalogue_retry=60.0, want_types=())
    return Catalogue(bare_state(settings, cloud.clock, [A, B]), cloud, BUNDLED)


def names(catalogue: Catalogue, profile: Profile = T4) -> list[str]:
    return [kind.name for kind in catalogue.types_for(profile, "x86_64", 1)]


# --- before EC2 has answered -----------------------------------------------------------------


def test_every_type_counts_as_offered_until_ec2_has_responded(catalogue: Catalogue) -> None:
    assert catalogue.read_at is None
    assert catalogue.is_offered("g4dn.xlarge", A)
    assert catalogue.types == BUNDLED
    assert names(catalogue) == ["g4dn.xlarge", "g4dn.2xlarge"]


async def test_a_failure_keeps_the_known_types(cloud: SimulatedCloud, catalogue: Catalogue) -> None:
    cloud.fail("offerings", THROTTLE)
    assert not await catalogue.refresh()
    assert catalogue.is_offered("g4dn.xlarge", A)

    cloud.not_offered = {("g4dn.xlarge", A), ("g4dn.xlarge", B)}
    assert await catalogue.refresh()
    read_at = catalogue.read_at
    cloud.clock.advance(60)
    cloud.not_offered.clear()
    cloud.fail("describe_types", THROTTLE)
    assert not await catalogue.refresh()
    assert not catalogue.is_offered("g4dn.xlarge", A), "half an answer is no answer"
    assert catalogue.read_at == read_at


async def test_reading_continues_after_a_bug(
    cloud: SimulatedCloud, catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.fail("offerings", ZeroDivisionError("a bug"), times=2)
    running = asyncio.create_task(catalogue.run())
    await until(lambda: catalogue.read_at is not None, "read")
    running.cancel()
    logged = [r for r in caplog.records if "failed" in r.message]
    assert [bool(each.exc_info) for each in logged] == [True, False]


# --- EC2's word ------------------------------------------------------------------------------


async def test_a_profile_excludes_types_that_no_zone_offers(
    cloud: SimulatedCloud, catalogue: Catalogue
) -> None:
    cloud.not_offered = {("g4dn.xlarge", A), ("g4dn.xlarge", B), ("g4dn.2xlarge", A)}
    assert await catalogue.refresh()
    assert catalogue.read_at == cloud.clock()
    assert names(catalogue) == ["g4dn.2xlarge"]
    assert not catalogue.is_offered("g4dn.2xlarge", A)
    assert catalogue.is_offered("g4dn.2xlarge", B)
    assert "g4dn.xlarge" in catalogue.types, "its facts stay known"


async def test_ec2s_facts_override_the_bundle_except_prices(
    cloud: SimulatedCloud, catalogue: Catalogue
) -> None:
    described = replace(BUNDLED["g4dn.xlarge"], memory_mib=17000)
    cloud.types["g4dn.xlarge"] = described
    await catalogue.refresh()
    assert catalogue.types["g4dn.xlarge"] == described


async def test_a_gpu_type_newer_than_the_bundle_has_no_price(
    cloud: SimulatedCloud, catalogue: Catalogue
) -> None:
    for name in ("g9z.xlarge", "gr9.xlarge", "p9.48xlarge", "m99.large", "u-6tb1.metal"):
        cloud.types[name] = replace(BUNDLED["g4dn.xlarge"], name=name, gpu="T4")
    await catalogue.refresh()
    strangers = catalogue.types.keys() - BUNDLED.keys()
    assert strangers == {"g9z.xlarge", "gr9.xlarge", "p9.48xlarge"}
    assert {catalogue.types[name].on_demand_usd_per_hour for name in strangers} == {None}


async def test_only_needed_types_are_requested(cloud: SimulatedCloud, catalogue: Catalogue) -> None:
    cloud.types |= {f"m99.{n}xlarge": BUNDLED["m5.large"] for n in range(500)}
    cloud.not_offered = {("m5.large", A), ("m5.large", B)}
    catalogue.want(["m99.7xlarge", "made.up"])
    await catalogue.refresh()
    [call] = cloud.of("describe_types")
    assert call.arguments[0] == ("g4dn.2xlarge", "g4dn.xlarge", "g5g.xlarge", "m99.7xlarge")


async def test_a_zone_without_any_type_is_unknown_and_not_empty(
    cloud: SimulatedCloud, catalogue: Catalogue
) -> None:
    cloud.not_offered = {(name, B) for name in BUNDLED}
    await catalogue.refresh()
    assert catalogue.is_offered("g4dn.xlarge", A)
    assert catalogue.is_offered("g4dn.xlarge", B)
    assert catalogue.is_offered("g4dn.xlarge", "us-east-1f"), "was not asked for"


async def test_without_zones_nothing_is_requested(cloud: SimulatedCloud) -> None:
    """Before the first listing of subnets nothing is known, and no zones would be all zones."""
    catalogue = Catalogue(bare_state(SETTINGS, cloud.clock), cloud, BUNDLED)
    assert not await catalogue.refresh()
    assert not cloud.calls


# --- when it is read -------------------------------------------------------------------------


async def test_types_are_read_at_the_start_and_soon_after_a_failure(
    cloud: SimulatedCloud, catalogue: Catalogue
) -> None:
    cloud.fail("offerings", THROTTLE, times=3)
    running = asyncio.create_task(catalogue.run())
    try:
        await until(lambda: catalogue.read_at is not None, "a reading")
        assert len(cloud.of("offerings")) == 4
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_unknown_wanted_type_is_requested_once_and_at_once(
    cloud: SimulatedCloud, catalogue: Catalogue
) -> None:
    cloud.types["m99.large"] = replace(BUNDLED["m5.large"], name="m99.large")
    running = asyncio.create_task(catalogue.run())
    try:
        await until(lambda: catalogue.read_at is not None, "a reading")
        catalogue.want(["m99.large", "made.up"])
        await until(lambda: "m99.large" in catalogue.types, "the wanted type")
        readings = len(cloud.of("offerings"))
        for _ in range(3):
            catalogue.want(["g4dn.xlarge", "m99.large", "made.up"])
            for _ in range(20):
                await asyncio.sleep(0)
        assert len(cloud.of("offerings")) == readings
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
