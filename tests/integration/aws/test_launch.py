"""CreateFleet as EC2 must hear it, and everything that its answers can be."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from html import escape

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.compute import launch, templates
from ec2spawner.core.offers.launch_errors import FREE_PLAN, LaunchError
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.launch import DataVolume, LaunchRequest, LaunchSpec
from ec2spawner.wire import Market

from .scripted_ec2 import CUT, HANG, Call, Cut, Hang, Reply, ScriptedEC2, error, html, ok

SPEC = LaunchSpec(
    instance_types=("g4dn.xlarge", "g5.xlarge"),
    subnets=("subnet-a", "subnet-b", "subnet-a2"),
    image_id="ami-0123456789abcdef0",
    markets=(Market.SPOT, Market.ON_DEMAND),
    disk_gib=125,
    security_groups=("sg-1", "sg-2"),
    instance_profile="notebook",
    key_name="admin",
    user_data="#!/bin/bash\nexec ec2spawner-agent --hub-api-url 'http://hub:8081/hub/api'\n",
)
TAGS = {
    "ec2spawner:hub": "class",
    "ec2spawner:store": "0011223344556677",
    "ec2spawner:launch-key": "key",
    "ec2spawner:intent": "spot-token",
}
OFFERS = (
    ("g5.xlarge", "subnet-b"),
    ("g4dn.xlarge", "subnet-a2"),
    ("g5.xlarge", "subnet-a2"),
    ("g4dn.xlarge", "subnet-b"),
)
REQUEST = LaunchRequest("spot-token", Market.SPOT, 3, SPEC, TAGS, OFFERS)
ZONES = {"subnet-a": "us-east-1a", "subnet-b": "us-east-1b", "subnet-a2": "us-east-1a"}

SUBNETS = ok(
    "<subnetSet>"
    + "".join(
        f"<item><subnetId>{subnet}</subnetId><availabilityZone>{zone}</availabilityZone></item>"
        for subnet, zone in ZONES.items()
    )
    + "</subnetSet>"
)
IMAGE = ok("<imagesSet><item><rootDeviceName>/dev/xvda</rootDeviceName></item></imagesSet>")


def group(subnet: str, *ids: str, lifecycle: str = "spot") -> str:
    instances = "".join(f"<item>{instance_id}</item>" for instance_id in ids)
    return (
        f"<item>{override(subnet)}<lifecycle>{lifecycle}</lifecycle>"
        f"<instanceIds>{instances}</instanceIds><instanceType>g4dn.xlarge</instanceType></item>"
    )


def failure(subnet: str, code: str, message: str = "no") -> str:
    return (
        f"<item>{override(subnet)}<lifecycle>spot</lifecycle>"
        f"<errorCode>{code}</errorCode><errorMessage>{message}</errorMessage></item>"
    )


def override(subnet: str) -> str:
    return (
        "<launchTemplateAndOverrides><overrides><instanceType>g4dn.xlarge</instanceType>"
        f"<subnetId>{subnet}</subnetId></overrides></launchTemplateAndOverrides>"
    )


def fleet(instances: str = "", errors: str = "") -> Reply:
    return ok(
        f"<fleetId>fleet-1</fleetId><errorSet>{errors}</errorSet>"
        f"<fleetInstanceSet>{instances}</fleetInstanceSet>"
    )


@pytest.fixture(autouse=True)
def account(ec2: ScriptedEC2) -> None:
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("DescribeImages", IMAGE)
    ec2.will("CreateLaunchTemplate", ok("<launchTemplate/>"))
    ec2.will("CreateFleet", fleet(group("subnet-a", "i-1", "i-2")))


def tags_of(call: Call, prefix: str) -> dict[str, dict[str, str]]:
    """The TagSpecifications under this prefix: resource type -> tags."""
    found: dict[str, dict[str, str]] = {}
    for number in range(1, 5):
        kind = call.get(f"{prefix}TagSpecification.{number}.ResourceType")
        if kind is None:
            break
        place = f"{prefix}TagSpecification.{number}.Tag."
        keys = {k.removeprefix(place) for k in call if k.startswith(place)}
        names = [key.removesuffix(".Key") for key in keys if key.endswith(".Key")]
        found[kind] = {call[f"{place}{n}.Key"]: call[f"{place}{n}.Value"] for n in names}
    return found


def overrides_of(call: Call) -> list[Mapping[str, str]]:
    place = "LaunchTemplateConfigs.1.Overrides."
    found: dict[int, dict[str, str]] = {}
    for key, value in call.items():
        if key.startswith(place):
            number, _, name = key.removeprefix(place).partition(".")
            found.setdefault(int(number), {})[name] = value
    return [found[number] for number in sorted(found)]


# --- what is asked for ---


async def test_the_template_holds_what_only_a_template_can(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    await cloud.launch(REQUEST)
    (call,) = ec2.made("CreateLaunchTemplate")
    data = {
        key.removeprefix("LaunchTemplateData."): value
        for key, value in call.items()
        if key.startswith("LaunchTemplateData.")
    }
    expected = {
        "ImageId": SPEC.image_id,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions.HttpTokens": "required",
        "MetadataOptions.HttpPutResponseHopLimit": "1",
        "BlockDeviceMapping.1.DeviceName": "/dev/xvda",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "125",
        "BlockDeviceMapping.1.Ebs.VolumeType": "gp3",
        "BlockDeviceMapping.1.Ebs.Encrypted": "true",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
        "SecurityGroupId.1": "sg-1",
        "SecurityGroupId.2": "sg-2",
        "IamInstanceProfile.Name": "notebook",
        "KeyName": "admin",
    }
    assert expected.items() <= data.items()
    assert base64.b64decode(data["UserData"]).decode() == SPEC.user_data
    shared = {key: TAGS[key] for key in ("ec2spawner:hub", "ec2spawner:store")}
    # With tags for spot-instances-request an on-demand launch from the template would fail.
    assert tags_of(call, "LaunchTemplateData.") == {"network-interface": shared}
    assert tags_of(call, "") == {"launch-template": shared}


async def test_a_spot_fleet(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    await cloud.launch(REQUEST)
    (call,) = ec2.made("CreateFleet")
    (template,) = ec2.made("CreateLaunchTemplate")
    expected = {
        "Type": "instant",
        "ClientToken": "spot-token",
        "TargetCapacitySpecification.TotalTargetCapacity": "3",
        "TargetCapacitySpecification.DefaultTargetCapacityType": "spot",
        "SpotOptions.AllocationStrategy": "price-capacity-optimized",
        "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName": template[
            "LaunchTemplateName"
        ],
    }
    assert expected.items() <= call.items()
    # A policy may tie who launches to the tag of the fleet.
    assert tags_of(call, "") == {"fleet": TAGS, "instance": TAGS, "volume": TAGS}
    assert overrides_of(call) == [
        {"InstanceType": type_, "SubnetId": subnet} for type_, subnet in OFFERS
    ], "what the request says, and not all that the spec would allow"
    assert not any("Price" in key for key in call), "a maximum price only adds interruptions"


async def test_on_demand_takes_the_types_in_the_order_of_the_offers_and_any_zone(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    await cloud.launch(replace(REQUEST, market=Market.ON_DEMAND))
    (call,) = ec2.made("CreateFleet")
    assert call["TargetCapacitySpecification.DefaultTargetCapacityType"] == "on-demand"
    assert call["OnDemandOptions.AllocationStrategy"] == "prioritized"
    assert [float(override["Priority"]) for override in overrides_of(call)] == [0, 1, 0, 1]


async def test_on_demand_zones_that_ec2_named_come_before_all_others(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    await cloud.launch(replace(REQUEST, market=Market.ON_DEMAND, preferred=1))
    (call,) = ec2.made("CreateFleet")
    assert [float(override["Priority"]) for override in overrides_of(call)] == [0, 1, 2, 1]


async def test_a_capacity_block_is_the_market_of_its_fleet_and_of_its_template(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("CreateFleet", fleet(group("subnet-a", "i-1", lifecycle="capacity-block")))
    target = "cr-0000000a"
    block = replace(REQUEST, market=Market.ON_DEMAND, reservation=target, is_block=True)
    answer = await cloud.launch(block)
    assert [each.market for each in answer.instances] == [Market.ON_DEMAND]
    (call,) = ec2.made("CreateFleet")
    assert call["TargetCapacitySpecification.DefaultTargetCapacityType"] == "capacity-block"
    assert not any("Options" in key or "Priority" in key for key in call)
    (template,) = ec2.made("CreateLaunchTemplate")
    data = "LaunchTemplateData."
    assert template[f"{data}InstanceMarketOptions.MarketType"] == "capacity-block"
    specification = f"{data}CapacityReservationSpecification."
    of_reservations = {k: v for k, v in template.items() if k.startswith(specification)}
    assert of_reservations == {
        f"{specification}CapacityReservationTarget.CapacityReservationId": target
    }


async def test_later_launches_of_a_spec_are_one_call(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    await cloud.launch(REQUEST)
    ec2.calls.clear()
    tags = {**TAGS, "ec2spawner:intent": "od"}
    await cloud.launch(LaunchRequest("od", Market.ON_DEMAND, 1, SPEC, tags, OFFERS))
    assert ec2.actions == ["CreateFleet"]


async def test_a_replay_by_a_restarted_hub_is_the_identical_call(ec2: ScriptedEC2) -> None:
    for _ in range(2):
        restarted = EC2Cloud("us-east-1", ec2.url)
        await restarted.launch(REQUEST)
        await restarted.close()
        ec2.will("CreateLaunchTemplate", error("InvalidLaunchTemplateName.AlreadyExistsException"))
    first, second = ec2.made("CreateFleet")
    assert first == second
    assert len({call["LaunchTemplateName"] for call in ec2.made("CreateLaunchTemplate")}) == 1


async def test_profiles_that_differ_only_in_types_and_zones_share_a_template(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    other = replace(SPEC, instance_types=("g6.xlarge",), subnets=("subnet-b",))
    tags = {**TAGS, "ec2spawner:launch-key": "other", "ec2spawner:intent": "other"}
    await cloud.launch(REQUEST)
    offers = (("g6.xlarge", "subnet-b"),)
    await cloud.launch(LaunchRequest("other", Market.SPOT, 1, other, tags, offers))
    assert len(ec2.made("CreateFleet")) == 2
    assert len(ec2.made("CreateLaunchTemplate")) == 1


async def test_data_volumes_have_the_size_of_their_snapshot_and_are_deleted_on_termination(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    data = (DataVolume("snap-1", "/data/cats"), DataVolume("snap-2", "/data/dogs"))
    await cloud.launch(replace(REQUEST, spec=replace(SPEC, data_volumes=data)))
    (call,) = ec2.made("CreateLaunchTemplate")
    for number, device, snapshot in ((2, "/dev/sdp", "snap-1"), (3, "/dev/sdo", "snap-2")):
        prefix = f"LaunchTemplateData.BlockDeviceMapping.{number}."
        assert {k.removeprefix(prefix): v for k, v in call.items() if k.startswith(prefix)} == {
            "DeviceName": device,
            "Ebs.SnapshotId": snapshot,
            "Ebs.VolumeType": "gp3",
            "Ebs.DeleteOnTermination": "true",
        }


async def test_different_contents_are_different_templates(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    for changed in (
        {},
        {"disk_gib": 126},
        {"user_data": "#!/bin/sh\n"},
        {"data_volumes": (DataVolume("snap-1", "/data"),)},
    ):
        await cloud.launch(replace(REQUEST, spec=replace(SPEC, **changed)))
    names = {call["LaunchTemplateName"] for call in ec2.made("CreateLaunchTemplate")}
    assert len(names) == 4
    assert all(name.startswith("ec2spawner-") and len(name) <= 128 for name in names)


# --- what is answered ---

CAPACITY = (
    "InsufficientCapacity",
    "InsufficientCapacityOnHost",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientVolumeCapacity",
    "InvalidFleetConfiguration",
    "MaxFleetCountExceeded",
    "UnfulfillableCapacity",
)


NOT_ELIGIBLE = (
    "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance "
    "types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'."
)


async def test_a_type_outside_the_free_plan_has_a_code_of_its_own(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    """EC2 says `InvalidParameterCombination` to everything that does not go together."""
    refused = error("InvalidParameterCombination", NOT_ELIGIBLE)
    entry = failure("subnet-b", "InvalidParameterCombination", escape(NOT_ELIGIBLE))
    ec2.will("CreateFleet", fleet(errors=entry), refused)
    answer = await cloud.launch(REQUEST)
    assert [(each.code, each.message) for each in answer.errors] == [(FREE_PLAN, NOT_ELIGIBLE)]
    with pytest.raises(CloudError) as whole:
        await cloud.launch(REQUEST)
    assert (whole.value.code, whole.value.retryable) == (FREE_PLAN, False)


async def test_a_verification_passes_by_itself(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    pending = error("PendingVerification", "Your request is being validated.")
    ec2.will("CreateFleet", pending)
    with pytest.raises(CloudError) as raised:
        await cloud.launch(REQUEST)
    assert (raised.value.code, raised.value.retryable) == ("PendingVerification", True)


async def test_instances_and_errors_of_one_response_are_both_returned(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will(
        "CreateFleet",
        fleet(
            group("subnet-a", "i-1", "i-2") + group("subnet-b", "i-3"),
            failure("subnet-b", "InsufficientInstanceCapacity", "no capacity in us-east-1b"),
        ),
    )
    answer = await cloud.launch(REQUEST)
    assert [(one.instance_id, one.zone) for one in answer.instances] == [
        ("i-1", "us-east-1a"),
        ("i-2", "us-east-1a"),
        ("i-3", "us-east-1b"),
    ]
    assert {(one.instance_type, one.market) for one in answer.instances} == {
        ("g4dn.xlarge", Market.SPOT)
    }
    assert answer.errors == (
        LaunchError(
            code="InsufficientInstanceCapacity",
            message="no capacity in us-east-1b",
            instance_type="g4dn.xlarge",
            subnet="subnet-b",
            zone="us-east-1b",
        ),
    )


@pytest.mark.parametrize(
    ("answer", "code", "retryable"),
    [
        *((error(code, status=500), code, False) for code in CAPACITY),
        (error("UnauthorizedOperation", "x" * 9000, 403), "UnauthorizedOperation", False),
        (error("IdempotentParameterMismatch"), "IdempotentParameterMismatch", False),
        (error("RequestLimitExceeded", status=503), "RequestLimitExceeded", True),
        (error("Throttling"), "Throttling", True),
        (error("InternalError", status=500), "InternalError", True),
        (html(500), None, True),
        (html(200), None, True),
        (HANG, "ReadTimeoutError", True),
        (CUT, "ConnectionClosedError", True),
    ],
)
async def test_a_failed_call_is_not_repeated_and_says_whether_a_retry_helps(
    cloud: EC2Cloud, ec2: ScriptedEC2, answer: Reply | Hang | Cut, code: str | None, retryable: bool
) -> None:
    ec2.will("CreateFleet", answer)
    with pytest.raises(CloudError) as failed:
        await cloud.launch(REQUEST)
    assert failed.value.retryable is retryable
    assert code is None or failed.value.code == code
    assert len(failed.value.message) <= 1000
    assert len(ec2.made("CreateFleet")) == 1, "botocore repeated a launch"


async def test_a_template_deleted_meanwhile_is_created_again(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "NEW_SECONDS", 0.0)
    await cloud.launch(REQUEST)
    ec2.calls.clear()
    gone = error("InvalidLaunchTemplateName.NotFoundException")
    ec2.will("CreateFleet", gone, fleet(group("subnet-a", "i-9")))
    answer = await cloud.launch(REQUEST)
    assert [one.instance_id for one in answer.instances] == ["i-9"]
    assert ec2.actions == ["CreateFleet", "CreateLaunchTemplate", "CreateFleet"]
    # The first call made nothing: with its own token, a replay cannot launch twice.
    assert {call["ClientToken"] for call in ec2.made("CreateFleet")} == {"spot-token"}


async def test_a_response_without_the_template_is_not_repeated_under_a_token_nobody_stored(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC2 may record that response, or not: a hub that crashed after a call with a token of its
    own could not know which of both tokens has launched."""
    gone = "InvalidLaunchTemplateName.NotFoundException"
    ec2.will("CreateFleet", error(gone), fleet(errors=failure("subnet-a", gone)))
    monkeypatch.setattr(launch, "PAUSES", (0.01,))
    answer = await cloud.launch(REQUEST)
    assert [each.code for each in answer.errors] == [gone]
    assert [call["ClientToken"] for call in ec2.made("CreateFleet")] == ["spot-token"] * 2


async def test_a_template_that_a_response_lacks_is_created_again_by_the_next_request(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "NEW_SECONDS", 0.0)
    gone = fleet(errors=failure("subnet-a", "InvalidLaunchTemplateName.NotFoundException"))
    ec2.will("CreateFleet", gone, fleet(group("subnet-a", "i-9")))
    assert not (await cloud.launch(REQUEST)).instances
    answer = await cloud.launch(replace(REQUEST, client_token="spot-again"))
    assert [one.instance_id for one in answer.instances] == ["i-9"]
    assert len(ec2.made("CreateLaunchTemplate")) == 2


async def test_a_template_that_stays_missing_is_an_error(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "NEW_SECONDS", 0.0)
    ec2.will("CreateFleet", error("InvalidLaunchTemplateName.NotFoundException"))
    with pytest.raises(CloudError, match="InvalidLaunchTemplateName"):
        await cloud.launch(REQUEST)
    assert len(ec2.made("CreateFleet")) == 2


async def test_a_new_template_that_ec2_does_not_know_yet_is_waited_for(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PAUSES", (0.01,))
    monkeypatch.setattr(launch, "LAST_PAUSE", 0.01)
    unknown = error("InvalidLaunchTemplateName.NotFoundException")
    ec2.will("CreateFleet", unknown, unknown, unknown, fleet(group("subnet-a", "i-9")))
    answer = await cloud.launch(REQUEST)
    assert [one.instance_id for one in answer.instances] == ["i-9"]
    assert len(ec2.made("CreateLaunchTemplate")) == 1
    assert [call["ClientToken"] for call in ec2.made("CreateFleet")] == ["spot-token"] * 4


async def test_an_unknown_image_launches_nothing(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeImages", ok("<imagesSet/>"))
    with pytest.raises(CloudError, match=r"InvalidAMIID\.NotFound") as failed:
        await cloud.launch(REQUEST)
    assert not failed.value.retryable
    assert "CreateFleet" not in ec2.actions
