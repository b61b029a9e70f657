"""Instance types and offerings as the embedded EC2 answers over real HTTP."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ec2spawner import data
from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.compute import instance_types
from ec2spawner.config import Profile
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.offers.instance_types import Catalogue
from tests.bare_state import bare_state

from .embedded_ec2 import Embedded
from .scripted_ec2 import Call, Reply, ScriptedEC2, error, ok


async def test_ec2_confirms_every_bundled_type(
    embedded_cloud: EC2Cloud,
) -> None:
    bundled = data.instance_types()
    described = await embedded_cloud.describe_types([*bundled, "g99.moon"])
    without_prices = {
        name: replace(
            kind, on_demand_usd_per_hour=None, spot_saving_percent=None, interruption_band=None
        )
        for name, kind in bundled.items()
    }
    limits = {name: kind.max_volumes for name, kind in described.items()}
    assert (limits["g5.48xlarge"], limits["g4dn.xlarge"]) == (9, 25)
    unlimited = {name: replace(kind, max_volumes=None) for name, kind in described.items()}
    assert unlimited == without_prices


async def test_a_wildcard_is_no_type_name(embedded_cloud: EC2Cloud) -> None:
    assert not await embedded_cloud.describe_types(["g4dn.*"])
    assert not await embedded_cloud.describe_types([])


async def test_offerings_cover_the_requested_zones(
    embedded: Embedded, embedded_cloud: EC2Cloud
) -> None:
    offered = await embedded_cloud.offerings(embedded.zones)
    everywhere = frozenset(embedded.zones)
    assert len(offered) > 500
    assert all(zones and zones <= everywhere for zones in offered.values())
    some = [name for name, zones in offered.items() if zones != everywhere]
    assert some, "no zone differs from another"
    first = await embedded_cloud.offerings(embedded.zones[:1])
    assert first.keys() == {n for n, zones in offered.items() if embedded.zones[0] in zones}
    assert await embedded_cloud.offerings([]) == {}


async def test_a_profile_matches_only_types_offered_in_the_zones(
    embedded: Embedded, embedded_cloud: EC2Cloud
) -> None:
    offered = await embedded_cloud.offerings(embedded.zones)
    zone, lacking = next(
        (zone, name)
        for name in data.instance_types()
        for zone in embedded.zones
        if zone not in offered.get(name, ()) and name in offered
    )
    settings = Settings(hub="hub", region=embedded.region, subnets=embedded.subnets)
    state = bare_state(settings, lambda: datetime.now(UTC), [zone])
    catalogue = Catalogue(state, embedded_cloud, data.instance_types())
    profile = Profile.model_validate({"display_name": "P", "instance_types": [lacking, "m5.large"]})
    architecture = data.instance_types()[lacking].architecture
    before = catalogue.types_for(profile, architecture, 1)
    assert lacking in {kind.name for kind in before}, "unknown is not gone"
    assert await catalogue.refresh()
    assert not catalogue.is_offered(lacking, zone)
    assert lacking not in {kind.name for kind in catalogue.types_for(profile, architecture, 1)}
    # A family with GPUs that the bundle lacks is known, without a price.
    strangers = catalogue.types.keys() - data.instance_types().keys()
    assert all(catalogue.types[name].on_demand_usd_per_hour is None for name in strangers)


async def test_refusals_raise_an_error(embedded: Embedded, embedded_cloud: EC2Cloud) -> None:
    embedded.fault("DescribeInstanceTypeOfferings", "UnauthorizedOperation")
    with pytest.raises(CloudError, match="UnauthorizedOperation"):
        await embedded_cloud.offerings(embedded.zones)


# --- what no emulator does: many pages -------------------------------------------------------


async def test_all_pages_of_offerings_are_read(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    def page(name: str, zone: str, token: str = "") -> Reply:
        following = f"<nextToken>{token}</nextToken>" if token else ""
        return ok(
            "<instanceTypeOfferingSet><item>"
            f"<instanceType>{name}</instanceType><location>{zone}</location>"
            "<locationType>availability-zone</locationType>"
            f"</item></instanceTypeOfferingSet>{following}"
        )

    ec2.will(
        "DescribeInstanceTypeOfferings",
        page("g5.xlarge", "us-east-1a", "two"),
        page("g5.xlarge", "us-east-1b", "three"),
        page("g6.xlarge", "us-east-1b"),
    )
    offered = await cloud.offerings(["us-east-1b", "us-east-1a"])
    assert offered == {
        "g5.xlarge": frozenset({"us-east-1a", "us-east-1b"}),
        "g6.xlarge": frozenset({"us-east-1b"}),
    }
    first, second, _ = ec2.calls
    assert first["LocationType"] == "availability-zone"
    assert (first["Filter.1.Name"], first["Filter.1.Value.1"]) == ("location", "us-east-1a")
    assert second["NextToken"] == "two"


async def test_many_types_are_requested_in_batches(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_types, "TYPES_BATCH", 2)

    def known(call: Call) -> Reply:
        names = [call[key] for key in sorted(call) if key.startswith("Filter.1.Value.")]
        return ok(f"<instanceTypeSet>{''.join(map(described, names))}</instanceTypeSet>")

    ec2.answer_by("DescribeInstanceTypes", known)
    names = ["c.1", "a.1", "b.1", "b.1"]
    assert set(await cloud.describe_types(names)) == {"a.1", "b.1", "c.1"}
    assert len(ec2.calls) == 2
    assert {call["Filter.1.Name"] for call in ec2.calls} == {"instance-type"}


def described(name: str) -> str:
    return (
        f"<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>4</defaultVCpus>"
        "</vCpuInfo><memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo><processorInfo>"
        "<supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>"
        "</item>"
    )


async def test_an_incomplete_response_is_an_error(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeInstanceTypes", ok("<instanceTypeSet><item/></instanceTypeSet>"))
    with pytest.raises(CloudError, match="UnexpectedAnswer"):
        await cloud.describe_types(["g5.xlarge"])
    ec2.will("DescribeInstanceTypes", error("RequestLimitExceeded", status=503))
    with pytest.raises(CloudError, match="RequestLimitExceeded") as failed:
        await cloud.describe_types(["g5.xlarge"])
    assert failed.value.retryable
