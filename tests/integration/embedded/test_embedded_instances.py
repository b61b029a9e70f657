"""Launching, listing, stopping and ending instances."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError


def code(call: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


def tagged(name: str) -> Any:
    return [{"ResourceType": "instance", "Tags": [{"Key": "group", "Value": name}]}]


def listed(lab: Any, name: str, **more: Any) -> list[Any]:
    filters = [{"Name": "tag:group", "Values": [name]}]
    found = lab.ec2.describe_instances(Filters=[*filters, *more.pop("Filters", [])], **more)
    return [i for reservation in found["Reservations"] for i in reservation["Instances"]]


def test_an_instance_is_pending_then_running_then_gone(make_lab: Any, wait_until: Any) -> None:
    lab = make_lab(boot_seconds=3.0, terminated_visible_seconds=3.0)
    lab.control("limits", {"token_buckets": False})  # this test looks often

    def launched_together() -> set[str]:
        [launch] = lab.ec2.describe_instances()["Reservations"]
        return {each["InstanceId"] for each in launch["Instances"]}

    instance_id = lab.run(MinCount=2, MaxCount=2)

    assert lab.state(instance_id) == "pending"
    assert lab.processes(instance_id) == []
    [other] = launched_together() - {instance_id}
    assert lab.wait_for(instance_id, "running")["State"]["Code"] == 16
    ended = lab.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"][0]
    assert ended["CurrentState"]["Name"] == "shutting-down"
    assert ended["PreviousState"]["Name"] == "running"
    shown = lab.wait_for(instance_id, "terminated")
    assert shown["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert "PrivateIpAddress" not in shown
    wait_until(lambda: launched_together() == {other})
    assert code(lambda: lab.instance(instance_id)) == "InvalidInstanceID.NotFound"
    lab.ec2.terminate_instances(InstanceIds=[other])
    wait_until(lambda: not lab.ec2.describe_instances()["Reservations"])


def test_a_terminated_instance_cannot_be_started(lab: Any) -> None:
    instance_id = lab.run()
    lab.ec2.terminate_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "terminated")

    assert code(lambda: lab.ec2.start_instances(InstanceIds=[instance_id])) == (
        "IncorrectInstanceState"
    )
    again = lab.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"][0]
    assert again["CurrentState"]["Name"] == "terminated"


def test_one_unknown_id_fails_the_whole_call(lab: Any) -> None:
    instance_id = lab.run()

    assert code(
        lambda: lab.ec2.terminate_instances(InstanceIds=[instance_id, "i-0123456789abcdef0"])
    ) == ("InvalidInstanceID.NotFound")
    assert lab.wait_for(instance_id, "running")


def test_an_address_is_used_again_once_its_instance_is_gone(lab: Any) -> None:
    subnet = {"SubnetId": lab.facts.subnets[5]}  # no other test uses it
    first = lab.run(**subnet)
    address = lab.wait_for(first, "running")["PrivateIpAddress"]
    lab.ec2.terminate_instances(InstanceIds=[first])
    lab.wait_for(first, "terminated")

    second, third = lab.run(**subnet), lab.run(**subnet)
    addresses = [lab.instance(i)["PrivateIpAddress"] for i in (second, third)]

    assert address in addresses
    assert len(set(addresses)) == 2


def test_a_terminated_instance_leaves_no_interface_and_no_root_disk(lab: Any) -> None:
    instance = lab.instance(lab.run())
    interface = instance["NetworkInterfaces"][0]["NetworkInterfaceId"]
    volume = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]

    lab.ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    lab.wait_for(instance["InstanceId"], "terminated")

    shown = lab.ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert interface not in [i["NetworkInterfaceId"] for i in shown]
    assert volume not in [v["VolumeId"] for v in lab.ec2.describe_volumes()["Volumes"]]


def test_stop_and_start(lab: Any) -> None:
    instance_id = lab.run("echo booted on $EMBEDDED_EC2_INSTANCE; exec sleep 1000")
    lab.console_says(instance_id, f"booted on {instance_id}")
    address = lab.instance(instance_id)["PrivateIpAddress"]

    lab.ec2.stop_instances(InstanceIds=[instance_id])
    stopped = lab.wait_for(instance_id, "stopped")
    assert stopped["PrivateIpAddress"] == address
    assert lab.processes(instance_id) == []
    lab.ec2.start_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "running")
    # User-data runs at the first boot only.
    assert lab.console(instance_id).count("booted") == 1


def test_one_that_has_never_run_cannot_be_stopped(make_lab: Any) -> None:
    lab = make_lab(boot_seconds=60.0)
    instance_id = lab.run()
    assert lab.instance(instance_id)["State"]["Name"] == "pending"
    assert code(lambda: lab.ec2.stop_instances(InstanceIds=[instance_id])) == (
        "IncorrectInstanceState"
    )


def test_a_one_time_spot_instance_cannot_be_stopped(lab: Any) -> None:
    instance_id = lab.run(InstanceMarketOptions={"MarketType": "spot"}, InstanceType="g5.xlarge")

    assert code(lambda: lab.ec2.stop_instances(InstanceIds=[instance_id])) == (
        "UnsupportedOperation"
    )
    modify = partial(lab.ec2.modify_instance_attribute, InstanceId=instance_id)
    behavior = {"Value": "stop"}
    assert code(lambda: modify(InstanceInitiatedShutdownBehavior=behavior)) == (
        "UnsupportedOperation"
    )
    assert code(lambda: modify(EbsOptimized={"Value": True})) == "UnsupportedOperation"


def test_run_instances_by_token_and_by_count(lab: Any) -> None:
    def run(**more: Any) -> Any:
        return lab.ec2.run_instances(
            **{
                "ImageId": lab.facts.image_id,
                "InstanceType": "t3.micro",
                "SubnetId": lab.facts.subnets[0],
                "MinCount": 1,
                "MaxCount": 3,
                "ClientToken": "three",
                **more,
            }
        )["Instances"]

    first, again = run(), run()

    assert len(first) == 3
    assert [i["InstanceId"] for i in again] == [i["InstanceId"] for i in first]
    assert {i["State"]["Name"] for i in first} == {"pending"}
    assert code(lambda: run(MaxCount=2)) == "IdempotentParameterMismatch"
    assert len(listed_by_token(lab, "three")) == 3


def listed_by_token(lab: Any, token: str) -> list[str]:
    found = lab.ec2.describe_instances(Filters=[{"Name": "client-token", "Values": [token]}])
    return [i["InstanceId"] for r in found["Reservations"] for i in r["Instances"]]


def test_run_instances_from_a_launch_template(lab: Any) -> None:
    template = lab.template(
        "run", "echo from the template", InstanceType="t3.small", TagSpecifications=tagged("run")
    )
    (launched,) = lab.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": template},
        SubnetId=lab.facts.subnets[2],
        MinCount=1,
        MaxCount=1,
    )["Instances"]

    instance_id = launched["InstanceId"]
    assert lab.instance(instance_id)["InstanceType"] == "t3.small"
    assert [i["InstanceId"] for i in listed(lab, "run")] == [instance_id]
    lab.console_says(instance_id, "from the template")


def test_refused_launches(lab: Any) -> None:
    sold_out = {"market": "*", "instance_type": "*", "zone": "*", "available": 0}
    assert code(lambda: lab.run(ImageId="ami-0123456789abcdef0")) == "InvalidAMIID.NotFound"
    assert code(lambda: lab.run(InstanceType="z9.huge")) == "InvalidParameterValue"
    assert code(lambda: lab.run("#" * 16 * 1024)) == "InvalidParameterValue"
    assert code(lambda: lab.run(SecurityGroupIds=["sg-0123456789abcdef0"])) == (
        "InvalidGroup.NotFound"
    )
    assert code(lambda: lab.run(InstanceType="g5g.xlarge")) == "InvalidParameterValue"
    lab.control("capacity", sold_out)
    with pytest.raises(ClientError) as refused:
        lab.run()
    assert refused.value.response["Error"]["Code"] == "InsufficientInstanceCapacity"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_pages_hold_every_instance_once(lab: Any) -> None:
    launched = [lab.run(TagSpecifications=tagged("pages")) for _ in range(12)]
    filters = [{"Name": "tag:group", "Values": ["pages"]}]

    seen: list[str] = []
    sizes = []
    pages = lab.ec2.get_paginator("describe_instances")
    for page in pages.paginate(Filters=filters, PaginationConfig={"PageSize": 5}):
        found = [i["InstanceId"] for r in page["Reservations"] for i in r["Instances"]]
        sizes.append(len(found))
        seen += found
        # One that has been listed ends while the rest is read: nothing may be lost by it.
        lab.ec2.terminate_instances(InstanceIds=found[:1])

    assert sizes == [5, 5, 2]
    assert seen == launched
    assert code(lambda: lab.ec2.describe_instances(NextToken="nonsense")) == (
        "InvalidParameterValue"
    )


def test_more_than_a_hundred_are_listed_without_pages(lab: Any) -> None:
    lab.control("boot", {"seconds": 600})
    template = lab.template("many")
    answer = lab.fleet(template, count=101, market="on-demand", TagSpecifications=tagged("many"))
    ids = [name for group in answer["Instances"] for name in group["InstanceIds"]]

    assert len(listed(lab, "many")) == 101
    found = lab.ec2.describe_instances(InstanceIds=ids)
    assert sum(len(r["Instances"]) for r in found["Reservations"]) == 101
    lab.ec2.terminate_instances(InstanceIds=ids)


def test_filters(lab: Any) -> None:
    lab.control("boot", {"seconds": 600})
    spot = lab.run(
        InstanceType="g5.xlarge",
        InstanceMarketOptions={"MarketType": "spot"},
        TagSpecifications=tagged("filters"),
    )
    lab.control("boot", {"seconds": 0})
    on_demand = lab.run(TagSpecifications=tagged("filters"))
    lab.wait_for(on_demand, "running")

    def ids(name: str, *values: str) -> list[str]:
        found = listed(lab, "filters", Filters=[{"Name": name, "Values": list(values)}])
        return [i["InstanceId"] for i in found]

    assert ids("instance-lifecycle", "spot") == [spot]
    assert ids("instance-state-name", "pending") == [spot]
    assert ids("instance-state-name", "running", "pending") == [spot, on_demand]
    assert ids("instance-type", "t3.micro") == [on_demand]
    assert ids("availability-zone", lab.facts.zones[1]) == []
    assert ids("tag-key", "group") == [spot, on_demand]
    assert code(lambda: ids("no-such-filter", "x")) == "InvalidParameterValue"
    assert code(lambda: ids("instance-life", "spot")) == "InvalidParameterValue"


def test_unsupported_calls_return_an_ec2_error(lab: Any) -> None:
    with pytest.raises(ClientError) as refused:
        lab.ec2.get_spot_placement_scores(TargetCapacity=1, InstanceTypes=["g5.xlarge"])

    assert refused.value.response["Error"]["Code"] == "UnsupportedOperation"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert code(lambda: lab.client("rds").describe_db_instances()) == "UnsupportedOperation"
    assert code(lambda: lab.run(DryRun=True)) == "DryRunOperation"


def test_account_image_and_public_parameter(lab: Any) -> None:
    assert lab.client("sts").get_caller_identity()["Account"] == lab.facts.account
    (image,) = lab.ec2.describe_images(ImageIds=[lab.facts.image_id])["Images"]
    assert "Deep Learning" in image["Name"]
    parameter = lab.client("ssm").get_parameter(
        Name="/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04"
        "/latest/ami-id"
    )["Parameter"]
    assert parameter["Value"] == lab.facts.image_id


def test_the_network_is_the_same_at_every_start(make_lab: Any) -> None:
    one, other = make_lab(), make_lab()

    assert one.facts.subnets == other.facts.subnets
    assert one.facts.account != other.facts.account
    mine, theirs = one.run(), other.run()
    assert one.instance(mine)["PrivateIpAddress"] != other.instance(theirs)["PrivateIpAddress"]
    assert code(lambda: one.instance(theirs)) == "InvalidInstanceID.NotFound"
