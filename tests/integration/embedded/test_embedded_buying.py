"""What the embedded EC2 says about buying: entries, addresses, quotas by class, dry runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


def where(entry: Any) -> tuple[str, str]:
    override = entry["LaunchTemplateAndOverrides"]["Overrides"]
    return override["InstanceType"], override["AvailabilityZone"]


# --- faults of single offers ------------------------------------------------------------------


@pytest.mark.parametrize("market", ["spot", "on-demand"])
@pytest.mark.parametrize(
    "struck", ["UnfulfillableCapacity", "RequestLimitExceeded", "UnauthorizedOperation"]
)
def test_an_injected_error_of_any_code_replaces_every_instance(
    lab: Any, market: str, struck: str
) -> None:
    template = lab.template(f"entry-{market}-{struck}")
    lab.control("faults", {"action": "CreateFleet", "kind": f"entry:{struck}"})

    answer = lab.fleet(template, market=market, types=("g5.xlarge", "g4dn.xlarge"))
    again = lab.fleet(template, market=market)

    assert answer["Instances"] == []
    assert {error["ErrorCode"] for error in answer["Errors"]} == {struck}
    assert {error["Lifecycle"] for error in answer["Errors"]} == {market}
    assert {where(error) for error in answer["Errors"]} == {
        (name, zone) for name in ("g5.xlarge", "g4dn.xlarge") for zone in lab.facts.zones[:4]
    }
    assert len(again["Instances"]) == 1
    assert again["Errors"] == []


def test_an_injected_error_for_some_offers_leaves_the_others(lab: Any) -> None:
    template = lab.template("entry-some")
    first, second = lab.facts.zones[:2]
    lab.control(
        "faults",
        {
            "action": "CreateFleet",
            "kind": "entry:SpotMaxPriceTooLow",
            "zones": [first, second],
            "instance_types": ["g5.xlarge"],
        },
    )

    answer = lab.fleet(template, types=("g5.xlarge",))

    assert {where(error) for error in answer["Errors"]} == {
        ("g5.xlarge", first),
        ("g5.xlarge", second),
    }
    (group,) = answer["Instances"]
    assert group["AvailabilityZone"] in lab.facts.zones[2:]


def test_an_injected_error_applies_once_and_not_to_the_replay(lab: Any) -> None:
    template = lab.template("entry-replay")
    lab.control("faults", {"action": "CreateFleet", "kind": "entry:InternalError"})

    first = lab.fleet(template, ClientToken="entry-replay")
    replay = lab.fleet(template, ClientToken="entry-replay")

    assert first["Errors"] == replay["Errors"] != []
    assert lab.fleet(template)["Errors"] == []


def test_injected_faults_can_be_withdrawn(lab: Any) -> None:
    lab.control("faults", {"action": "*", "kind": "InternalError", "times": 100})
    assert lab.ask("faults", method="DELETE")[0] == 200

    assert lab.ec2.describe_instances()


# --- addresses, quotas, profiles --------------------------------------------------------------


def free_addresses(lab: Any, subnet: str) -> int:
    (found,) = lab.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    return int(found["AvailableIpAddressCount"])


def test_a_full_subnet_is_a_fleet_error_and_another_subnet_serves(lab: Any) -> None:
    template = lab.template("addresses")
    full, other = lab.facts.subnets[:2]
    assert free_addresses(lab, full) > 8000
    lab.control(
        "prices",
        {"instance_type": "g6.xlarge", "zone": lab.facts.zones[0], "usd_per_hour": 0.01},
    )
    lab.control("addresses", {"subnet_id": full, "available": 0})

    answer = lab.fleet(template, types=("g6.xlarge",), subnets=(full, other))

    assert free_addresses(lab, full) == 0
    (error,), (group,) = answer["Errors"], answer["Instances"]
    assert error["ErrorCode"] == "InsufficientFreeAddressesInSubnet"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] == full
    assert group["SubnetId"] == other
    assert code(lab.run) == "InsufficientFreeAddressesInSubnet"


def test_instances_take_and_release_addresses(lab: Any) -> None:
    subnet = lab.facts.subnets[5]
    lab.control("addresses", {"subnet_id": subnet, "available": 1})

    first = lab.run(SubnetId=subnet)
    assert free_addresses(lab, subnet) == 0
    assert code(lambda: lab.run(SubnetId=subnet)) == "InsufficientFreeAddressesInSubnet"

    lab.ec2.terminate_instances(InstanceIds=[first])
    lab.wait_for(first, "terminated")
    assert free_addresses(lab, subnet) == 1
    assert lab.run(SubnetId=subnet)


def test_quotas_are_of_a_class_of_types(lab: Any) -> None:
    template = lab.template("classes")
    lab.control("limits", {"quotas": {"spot": {"g": 0}, "on-demand": {"standard": 0}}})

    gpu_spot = lab.fleet(template, types=("g5.xlarge",))
    cpu_spot = lab.fleet(template, types=("c5.xlarge",))
    gpu = lab.fleet(template, market="on-demand", types=("g5.xlarge",))
    cpu = lab.fleet(template, market="on-demand", types=("c5.xlarge",))

    assert {e["ErrorCode"] for e in gpu_spot["Errors"]} == {"MaxSpotInstanceCountExceeded"}
    assert {e["ErrorCode"] for e in cpu["Errors"]} == {"VcpuLimitExceeded"}
    assert len(cpu_spot["Instances"]) == len(gpu["Instances"]) == 1


def test_an_instance_profile_that_does_not_exist(lab: Any) -> None:
    data = {"IamInstanceProfile": {"Name": "notebook-role"}}
    template = lab.template("profile", **data)

    answer = lab.fleet(template)

    assert answer["Instances"] == []
    assert {error["ErrorCode"] for error in answer["Errors"]} == {"InvalidParameterValue"}
    assert answer["Errors"][0]["ErrorMessage"] == (
        "Value (notebook-role) for parameter iamInstanceProfile.name is invalid. "
        "Invalid IAM Instance Profile name"
    )
    assert code(lambda: lab.run(**data)) == "InvalidParameterValue"

    made = lab.client("iam").create_instance_profile(InstanceProfileName="notebook-role")
    arn = made["InstanceProfile"]["Arn"]
    assert len(lab.fleet(template)["Instances"]) == 1
    assert lab.run(IamInstanceProfile={"Arn": arn})
    wrong = {"Arn": arn.replace("notebook-role", "other-role")}
    assert code(lambda: lab.run(IamInstanceProfile=wrong)) == "InvalidParameterValue"


def test_a_security_group_and_a_key_pair_that_do_not_exist(lab: Any) -> None:
    group = lab.template("no-group", SecurityGroupIds=["sg-0123456789abcdef0"])
    key = lab.template("no-key", KeyName="nobodys")

    assert {e["ErrorCode"] for e in lab.fleet(group)["Errors"]} == {"InvalidGroup.NotFound"}
    assert {e["ErrorCode"] for e in lab.fleet(key)["Errors"]} == {"InvalidKeyPair.NotFound"}


# --- dry runs ---------------------------------------------------------------------------------


def dry_run(lab: Any, **more: Any) -> str:
    asked = {
        "ImageId": lab.facts.image_id,
        "InstanceType": "g5.xlarge",
        "SubnetId": lab.facts.subnets[0],
        "MinCount": 1,
        "MaxCount": 1,
        **more,
    }
    return code(lambda: lab.ec2.run_instances(DryRun=True, **asked))


def test_a_dry_run_validates_its_parameters_and_launches_nothing(lab: Any) -> None:
    before = len(lab.control("instances"))
    lab.control("capacity", {"market": "*", "instance_type": "*", "zone": "*", "available": 0})

    assert dry_run(lab) == "DryRunOperation"
    assert dry_run(lab, ImageId="ami-0123456789abcdef0") == "InvalidAMIID.NotFound"
    assert dry_run(lab, SubnetId="subnet-0123456789abcdef0") == "InvalidSubnetID.NotFound"
    assert dry_run(lab, SecurityGroupIds=["sg-0123456789abcdef0"]) == "InvalidGroup.NotFound"
    assert dry_run(lab, KeyName="nobodys") == "InvalidKeyPair.NotFound"
    assert dry_run(lab, InstanceType="z9.huge") == "InvalidParameterValue"
    assert dry_run(lab, IamInstanceProfile={"Name": "nobodys"}) == "InvalidParameterValue"
    lab.control("faults", {"action": "RunInstances", "kind": "UnauthorizedOperation"})
    assert dry_run(lab) == "UnauthorizedOperation"
    assert len(lab.control("instances")) == before


def test_a_dry_run_of_a_fleet(lab: Any) -> None:
    template = lab.template("dry-fleet")
    image = lab.template("dry-image", ImageId="ami-0123456789abcdef0")

    assert code(lambda: lab.fleet(template, DryRun=True)) == "DryRunOperation"
    assert code(lambda: lab.fleet(image, DryRun=True)) == "InvalidAMIID.NotFound"
    assert code(
        lambda: lab.fleet(template, subnets=("subnet-0123456789abcdef0",), DryRun=True)
    ) == ("InvalidSubnetID.NotFound")
    lab.control("faults", {"action": "CreateFleet", "kind": "entry:InternalError"})
    assert code(lambda: lab.fleet(template, DryRun=True)) == "DryRunOperation"
    assert lab.fleet(template)["Errors"], "a dry run uses no entry up"


def test_a_dry_run_of_the_other_calls_of_a_hub(lab: Any) -> None:
    ec2, zone = lab.ec2, lab.facts.zones[0]
    volume = ec2.create_volume(AvailabilityZone=zone, Size=1)["VolumeId"]
    instance = lab.run()
    tags = [{"Key": "a", "Value": "b"}]
    nobody = "i-0123456789abcdef0"
    template = {"LaunchTemplateData": {"ImageId": lab.facts.image_id}, "DryRun": True}
    lab.template("dry-taken")

    for call in (
        lambda: ec2.terminate_instances(InstanceIds=[instance], DryRun=True),
        lambda: ec2.create_tags(Resources=[volume], Tags=tags, DryRun=True),
        lambda: ec2.create_volume(AvailabilityZone=zone, Size=1, DryRun=True),
        lambda: ec2.attach_volume(
            VolumeId=volume, InstanceId=instance, Device="/dev/sdf", DryRun=True
        ),
        lambda: ec2.detach_volume(VolumeId=volume, DryRun=True),
        lambda: ec2.delete_volume(VolumeId=volume, DryRun=True),
        lambda: ec2.create_launch_template(LaunchTemplateName="dry-new", **template),
        lambda: ec2.delete_launch_template(LaunchTemplateName="dry-taken", DryRun=True),
        lambda: ec2.describe_instances(DryRun=True),
        lambda: ec2.describe_spot_price_history(DryRun=True),
        lambda: ec2.describe_reserved_instances(DryRun=True),
    ):
        assert code(call) == "DryRunOperation"

    assert lab.state(instance) != "shutting-down"
    (found,) = ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert not found.get("Tags")
    named = [{"Name": "launch-template-name", "Values": ["dry-taken", "dry-new"]}]
    (kept,) = ec2.describe_launch_templates(Filters=named)["LaunchTemplates"]
    assert kept["LaunchTemplateName"] == "dry-taken"
    assert (
        code(lambda: ec2.terminate_instances(InstanceIds=[nobody], DryRun=True))
        == "InvalidInstanceID.NotFound"
    )
    assert (
        code(lambda: ec2.create_volume(AvailabilityZone="us-east-1z", Size=1, DryRun=True))
        == "InvalidZone.NotFound"
    )
    assert (
        code(lambda: ec2.create_launch_template(LaunchTemplateName="dry-taken", **template))
        == "InvalidLaunchTemplateName.AlreadyExistsException"
    )
