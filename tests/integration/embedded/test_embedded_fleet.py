"""CreateFleet of type `instant`, as boto3 sees it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2spawner.data import instance_types
from ec2spawner.embedded.api.moto_backend import Moto

from .conftest import Laboratory

GONE = {"shutting-down", "terminated"}
HUB_TAGS = [{"Key": "ec2spawner:hub", "Value": "test"}, {"Key": "ec2spawner:intent", "Value": "1"}]


def sold_out(lab: Any, market: str, instance_type: str, zone: str, available: int = 0) -> None:
    lab.control(
        "capacity",
        {"market": market, "instance_type": instance_type, "zone": zone, "available": available},
    )


def tags(described: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in described["Tags"]}


def test_everything_of_the_launch_template_reaches_the_instance(lab: Any) -> None:
    group = lab.ec2.create_security_group(
        GroupName="of-template",
        Description="notebooks",
        VpcId=lab.ec2.describe_subnets(SubnetIds=[lab.facts.subnets[0]])["Subnets"][0]["VpcId"],
    )["GroupId"]
    template = lab.template(
        "faithful",
        "true",
        InstanceInitiatedShutdownBehavior="terminate",
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        BlockDeviceMappings=[
            {
                "DeviceName": "/dev/sda1",
                "Ebs": {"VolumeSize": 200, "VolumeType": "gp3", "DeleteOnTermination": True},
            }
        ],
        NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [group]}],
        TagSpecifications=[
            {"ResourceType": "network-interface", "Tags": HUB_TAGS},
            {"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "template"}]},
        ],
    )

    answer = lab.fleet(
        template,
        subnets=(lab.facts.subnets[1],),
        TagSpecifications=[
            {"ResourceType": "fleet", "Tags": HUB_TAGS},
            {"ResourceType": "instance", "Tags": HUB_TAGS},
            {"ResourceType": "volume", "Tags": HUB_TAGS},
        ],
    )

    (group_answer,) = answer["Instances"]
    assert group_answer["Lifecycle"] == "spot"
    assert group_answer["InstanceType"] == "g5.xlarge"
    assert (
        group_answer["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"]
        == (lab.facts.subnets[1])
    )
    instance = lab.instance(group_answer["InstanceIds"][0])
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["Placement"]["AvailabilityZone"] == lab.facts.zones[1]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert [g["GroupId"] for g in instance["SecurityGroups"]] == [group]
    assert "PublicIpAddress" not in instance
    assert tags(instance) == {
        "ec2spawner:hub": "test",
        "ec2spawner:intent": "1",
        "from": "template",
        "aws:ec2:fleet-id": answer["FleetId"],
        "aws:ec2launchtemplate:id": template,
        "aws:ec2launchtemplate:version": "1",
    }
    volume_id = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    volume = lab.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
    assert volume["Size"] == 200
    assert tags(volume)["ec2spawner:hub"] == "test"
    interface_id = instance["NetworkInterfaces"][0]["NetworkInterfaceId"]
    interfaces = lab.ec2.describe_network_interfaces(NetworkInterfaceIds=[interface_id])
    interface_tags = interfaces["NetworkInterfaces"][0]["TagSet"]
    assert {"Key": "ec2spawner:hub", "Value": "test"} in interface_tags
    behavior = lab.ec2.describe_instance_attribute(
        InstanceId=instance["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
    )
    assert behavior["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


def test_spot_takes_the_cheapest_offer_with_capacity(lab: Any) -> None:
    template = lab.template("cheapest")
    for zone, price in zip(lab.facts.zones, (0.50, 0.20, 0.40, 0.51, 0.52), strict=False):
        lab.control("prices", {"instance_type": "g6.xlarge", "zone": zone, "usd_per_hour": price})

    first = lab.fleet(template, types=("g6.xlarge",))
    sold_out(lab, "spot", "g6.xlarge", lab.facts.zones[1])
    second = lab.fleet(template, types=("g6.xlarge",))

    assert [g["AvailabilityZone"] for g in first["Instances"]] == [lab.facts.zones[1]]
    assert [g["AvailabilityZone"] for g in second["Instances"]] == [lab.facts.zones[2]]


def test_a_fleet_response_has_instances_and_errors(lab: Any) -> None:
    template = lab.template("partial")
    sold_out(lab, "spot", "*", "*")
    sold_out(lab, "spot", "g5.xlarge", lab.facts.zones[0], available=2)

    answer = lab.fleet(template, count=5, types=("g5.xlarge", "g4dn.xlarge"))

    assert sum(len(group["InstanceIds"]) for group in answer["Instances"]) == 2
    refused = {
        (
            error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"],
            error["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"],
        )
        for error in answer["Errors"]
        if error["ErrorCode"] == "InsufficientInstanceCapacity"
    }
    assert refused == {
        (name, zone) for name in ("g5.xlarge", "g4dn.xlarge") for zone in lab.facts.zones[:4]
    }
    assert {error["Lifecycle"] for error in answer["Errors"]} == {"spot"}


def test_insufficient_capacity_names_the_zones_that_have_it(lab: Any) -> None:
    template = lab.template("elsewhere")
    sold_out(lab, "spot", "g5.xlarge", lab.facts.zones[0])

    answer = lab.fleet(template, subnets=(lab.facts.subnets[0],))

    assert answer["Instances"] == []
    (error,) = answer["Errors"]
    assert error["ErrorMessage"].endswith(
        "choosing us-east-1b, us-east-1c, us-east-1d, us-east-1f."
    )
    sold_out(lab, "spot", "g5.xlarge", "us-east-1c")
    (error,) = lab.fleet(template, subnets=(lab.facts.subnets[0],))["Errors"]
    assert error["ErrorMessage"].endswith("choosing us-east-1b, us-east-1d, us-east-1f.")


def test_a_terminated_instance_releases_its_capacity(lab: Any) -> None:
    template = lab.template("places")
    sold_out(lab, "on-demand", "g5.xlarge", "*", available=1)

    def launch() -> Any:
        return lab.fleet(template, market="on-demand", subnets=(lab.facts.subnets[0],))

    (group,) = launch()["Instances"]
    assert launch()["Instances"] == []
    lab.ec2.terminate_instances(InstanceIds=group["InstanceIds"])
    lab.wait_for(group["InstanceIds"][0], "terminated")
    assert len(launch()["Instances"]) == 1


def test_on_demand_by_priority_and_by_price(lab: Any) -> None:
    template = lab.template("on-demand")
    cheapest = lab.fleet(template, market="on-demand", types=("g5.2xlarge", "g4dn.xlarge"))
    first = lab.ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [
                    {"InstanceType": "g4dn.xlarge", "Priority": 1.0},
                    {
                        "InstanceType": "g5.2xlarge",
                        "Priority": 0.0,
                        "AvailabilityZone": lab.facts.zones[2],
                    },
                ],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "OnDemandTargetCapacity": 1},
        OnDemandOptions={"AllocationStrategy": "prioritized"},
    )

    assert cheapest["Instances"][0]["InstanceType"] == "g4dn.xlarge"
    assert cheapest["Instances"][0]["Lifecycle"] == "on-demand"
    assert first["Instances"][0]["InstanceType"] == "g5.2xlarge"
    assert first["Instances"][0]["AvailabilityZone"] == lab.facts.zones[2]


def test_quotas_are_separate_for_each_market(lab: Any) -> None:
    template = lab.template("quota")
    lab.control("limits", {"quotas": {"spot": 0, "on-demand": 0}})

    spot = lab.fleet(template)
    on_demand = lab.fleet(template, market="on-demand")

    assert {e["ErrorCode"] for e in spot["Errors"]} == {"MaxSpotInstanceCountExceeded"}
    assert {e["ErrorCode"] for e in on_demand["Errors"]} == {"VcpuLimitExceeded"}
    with pytest.raises(ClientError) as refused:
        lab.run()
    assert refused.value.response["Error"]["Code"] == "VcpuLimitExceeded"


def test_a_quota_can_be_used_completely(lab: Any) -> None:
    template = lab.template("quota-partly")
    in_use = sum(
        4
        for instance in lab.control("instances")
        if instance["market"] == "spot" and instance["state"] in ("pending", "running")
    )
    lab.control("limits", {"quotas": {"spot": in_use + 11}})

    answer = lab.fleet(template, count=3)

    assert sum(len(group["InstanceIds"]) for group in answer["Instances"]) == 2
    assert {e["ErrorCode"] for e in answer["Errors"]} == {"MaxSpotInstanceCountExceeded"}


def test_concurrent_fleets_share_the_capacity(lab: Any) -> None:
    template = lab.template("at-once")
    sold_out(lab, "spot", "*", "*", available=1)
    answers: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(
                lab.fleet(template, count=2, subnets=tuple(lab.facts.subnets[:3]))
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    bought = [name for a in answers for group in a["Instances"] for name in group["InstanceIds"]]
    assert len(answers) == 4
    assert len(set(bought)) == len(bought) == 3
    assert all(answer["Errors"] for answer in answers if len(answer["Instances"]) < 2)


def test_a_type_that_a_zone_lacks_is_refused_only_there(lab: Any) -> None:
    answer = lab.fleet(lab.template("unsupported"), market="on-demand", types=("p4de.24xlarge",))

    (error,), (group,) = answer["Errors"], answer["Instances"]
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-east-1a"
    assert error["ErrorCode"] == "InvalidFleetConfiguration"
    assert error["ErrorMessage"] == (
        "Your requested instance type (p4de.24xlarge) is not supported in your requested "
        "Availability Zone (us-east-1a)."
    )
    assert group["AvailabilityZone"] == "us-east-1b"


def test_a_maximum_price_below_the_market_is_too_low(lab: Any) -> None:
    template = lab.template("maximum")
    answer = lab.ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"InstanceType": "g5.xlarge", "MaxPrice": "0.01"}],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "SpotTargetCapacity": 1},
    )

    assert [error["ErrorCode"] for error in answer["Errors"]] == ["SpotMaxPriceTooLow"]


def test_the_same_token_is_the_same_fleet(lab: Any) -> None:
    template = lab.template("replay")
    first = lab.fleet(template, count=2, ClientToken="once-only")
    again = lab.fleet(template, count=2, ClientToken="once-only")

    assert again["FleetId"] == first["FleetId"]
    assert again["Instances"] == first["Instances"]
    with pytest.raises(ClientError) as refused:
        lab.fleet(template, count=3, ClientToken="once-only")
    assert refused.value.response["Error"]["Code"] == "IdempotentParameterMismatch"


def test_concurrent_calls_with_one_token_are_one_fleet(lab: Any) -> None:
    template = lab.template("race")
    answers: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(lab.fleet(template, ClientToken="race")["FleetId"])
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(answers) == 4
    assert len(set(answers)) == 1


def test_missing_resources_are_refused_with_ec2s_messages(lab: Any) -> None:
    def code(call: Any) -> str:
        with pytest.raises(ClientError) as refused:
            call()
        return refused.value.response["Error"]["Code"]

    spot_tags = lab.template(
        "spot-tags",
        TagSpecifications=[{"ResourceType": "spot-instances-request", "Tags": HUB_TAGS}],
    )
    on_demand = lab.fleet(spot_tags, market="on-demand")

    assert code(lambda: lab.fleet("lt-0123456789abcdef0")).startswith("InvalidLaunchTemplateId")
    assert code(lambda: lab.fleet(lab.template("image", ImageId="ami-0123456789abcdef0"))) == (
        "InvalidAMIID.NotFound"
    )
    unknown = lab.fleet(lab.template("type"), types=("z9.huge",))
    assert {error["ErrorCode"] for error in unknown["Errors"]} == {"InvalidParameterValue"}
    assert code(
        lambda: lab.fleet(lab.template("subnet"), subnets=("subnet-0123456789abcdef0",))
    ) == ("InvalidSubnetID.NotFound")
    assert {error["ErrorCode"] for error in on_demand["Errors"]} == {"InvalidParameterCombination"}
    assert len(lab.fleet(spot_tags)["Instances"]) == 1


def test_an_account_without_the_spot_role_gets_no_spot_instance() -> None:
    """And on-demand ones as before."""
    with Laboratory() as lab:
        role = "AWSServiceRoleForEC2Spot"
        lab.client("iam").delete_service_linked_role(RoleName=role)
        template = lab.template("no-role")
        answer = lab.fleet(template)
        assert answer["Instances"] == []
        codes = {entry["ErrorCode"] for entry in answer["Errors"]}
        assert codes == {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
        with pytest.raises(ClientError, match="ServiceLinkedRoleCreationNotPermitted"):
            lab.run(InstanceMarketOptions={"MarketType": "spot"})
        assert lab.fleet(template, market="on-demand")["Instances"]


def test_instances_of_a_launch_end_at_once_for_the_reason_that_a_fault_names(lab: Any) -> None:
    kind = "terminate:Client.InternalError"
    lab.control("faults", {"action": "CreateFleet", "kind": kind})
    template = lab.template("ends-at-once")
    [group] = lab.fleet(template)["Instances"]
    ended = lab.wait_for(group["InstanceIds"][0], "terminated")
    assert ended["StateReason"] == {
        "Code": "Client.InternalError",
        "Message": "Client.InternalError: Client error on launch",
    }
    assert ended["StateTransitionReason"] == "Client.InternalError"
    [group] = lab.fleet(template)["Instances"]
    lab.wait_for(group["InstanceIds"][0], "running")


def test_each_call_into_moto_leaves_a_terminated_instance_its_reason(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing may follow any of them. A hub that reads another reason replaces the instance."""
    reason, begin = "Client.InternalError", Moto.begin
    shown: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)

    def begin_and_record(moto: Moto, work: Callable[[], Any]) -> Any:
        def work_and_record() -> Any:
            done = work()
            for reservation in moto.backend.reservations.values():
                for each in reservation.instances:
                    shown[each.id].add((each._state.name, each.state_reason.code))
            return done

        return begin(moto, work_and_record)

    lab.control("faults", {"action": "CreateFleet", "kind": f"terminate:{reason}"})
    monkeypatch.setattr(Moto, "begin", begin_and_record)
    [group] = lab.fleet(lab.template("recorded"))["Instances"]
    [instance_id] = group["InstanceIds"]
    lab.wait_for(instance_id, "terminated")
    ended = {(state, code) for state, code in shown[instance_id] if state in GONE}
    assert ended == {(state, reason) for state in GONE}


def test_a_pool_is_requested_once_and_at_most_300_are(lab: Any) -> None:
    """Another subnet of the same zone makes the same pool."""
    template = lab.template("pools")
    [first] = lab.ec2.describe_subnets(SubnetIds=lab.facts.subnets[:1])["Subnets"]
    alike = {"availability-zone": first["AvailabilityZone"], "vpc-id": first["VpcId"]}
    of_zone = lab.ec2.describe_subnets(
        Filters=[{"Name": name, "Values": [value]} for name, value in alike.items()]
    )["Subnets"]
    twice = tuple(subnet["SubnetId"] for subnet in of_zone)
    assert len(twice) == 2, "the second is that of the hub"
    with pytest.raises(ClientError, match=r"InvalidFleetConfig.*duplicate instance pools"):
        lab.fleet(template, subnets=twice)
    many = tuple(sorted(instance_types()))[:101]
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*303 launch specifications"):
        lab.fleet(template, types=many, subnets=lab.facts.subnets[:3])
