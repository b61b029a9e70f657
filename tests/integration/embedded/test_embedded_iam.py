"""A hub's key: it may do what `configs/iam-policy.json` allows, in EC2's words and no more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from .conftest import Laboratory

HUB, OTHER = "demo", "another"
DENIED = "UnauthorizedOperation"
TRUST = '{"Version": "2012-10-17", "Statement": []}'


def client(lab: Laboratory, service: str = "ec2", *statements: dict[str, Any]) -> Any:
    """With a new key of the hub, whose admin added these statements."""
    key = lab.control("hub-keys", {"hub_name": HUB, "statements": list(statements)})
    return boto3.client(
        service, endpoint_url=lab.facts.ec2_endpoint, region_name=lab.facts.region, **key
    )


@pytest.fixture
def hub(lab: Laboratory) -> Any:
    return client(lab)


def refusal(call: Callable[[], Any]) -> tuple[str, str, int]:
    """Code, message and HTTP status."""
    with pytest.raises(ClientError) as refused:
        call()
    answer = refused.value.response
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    return answer["Error"]["Code"], answer["Error"]["Message"], status


def tagged(*kinds: str, hub: str = HUB, **tags: str) -> list[dict[str, Any]]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    listed.append({"Key": "ec2spawner:hub", "Value": hub})
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]


def volume(lab: Laboratory, **more: Any) -> dict[str, Any]:
    return {"AvailabilityZone": lab.facts.zones[0], "Size": 1, **more}


def launch_of(lab: Laboratory, hub: str) -> str:
    return lab.run(TagSpecifications=tagged("instance", "volume", hub=hub))


# --- what is created -------------------------------------------------------------------------


def test_a_volume_needs_the_hubs_tag_in_the_creating_call(lab: Laboratory, hub: Any) -> None:
    before = len(lab.ec2.describe_volumes()["Volumes"])
    for specification in ([], tagged("volume", hub=OTHER)):
        call = partial(hub.create_volume, **volume(lab), TagSpecifications=specification)
        code, message, status = refusal(call)
        assert (code, status) == (DENIED, 403)
        arn = f"arn:aws:ec2:{lab.facts.region}:{lab.facts.account}:volume/*"
        assert f"is not authorized to perform: ec2:CreateVolume on resource: {arn} " in message
        assert "Encoded authorization failure message: " in message
        assert refusal(partial(call, DryRun=True))[0] == DENIED
    assert len(lab.ec2.describe_volumes()["Volumes"]) == before

    ours = volume(lab, TagSpecifications=tagged("volume"))
    assert refusal(partial(hub.create_volume, **ours, DryRun=True))[0] == "DryRunOperation"
    assert hub.create_volume(**ours)["State"] == "creating"


def test_an_action_that_the_policy_does_not_name_is_denied(hub: Any) -> None:
    for call in (hub.describe_vpcs, partial(hub.describe_vpcs, DryRun=True)):
        code, message, _ = refusal(call)
        assert code == DENIED
        assert message.endswith("no identity-based policy allows the ec2:DescribeVpcs action")


def test_a_copy_needs_the_hubs_tag_on_both_volumes(lab: Laboratory, hub: Any) -> None:
    encrypted = volume(lab, Encrypted=True)
    ours = lab.ec2.create_volume(**encrypted, TagSpecifications=tagged("volume"))["VolumeId"]
    other = tagged("volume", hub=OTHER)
    theirs = lab.ec2.create_volume(**encrypted, TagSpecifications=other)["VolumeId"]

    def copy(source: str, specification: list[dict[str, Any]]) -> Callable[[], Any]:
        return partial(
            hub.copy_volumes,
            SourceVolumeId=source,
            VolumeType="gp3",
            TagSpecifications=specification,
        )

    for source, specification in ((theirs, tagged("volume")), (ours, other), (ours, [])):
        code, message, _ = refusal(copy(source, specification))
        assert code == DENIED
        assert "is not authorized to perform: ec2:CopyVolumes on resource: " in message
    assert copy(ours, tagged("volume"))()["Volumes"][0]["State"] == "creating"


# --- what exists -----------------------------------------------------------------------------


def test_another_hubs_instance_cannot_be_changed(lab: Laboratory, hub: Any) -> None:
    ours, theirs = launch_of(lab, HUB), launch_of(lab, OTHER)
    nobodys = lab.run()
    for each in (theirs, nobodys):
        lab.wait_for(each, "running")
        assert refusal(partial(hub.stop_instances, InstanceIds=[each]))[0] == DENIED
        assert refusal(partial(hub.terminate_instances, InstanceIds=[each]))[0] == DENIED
        assert refusal(partial(hub.get_console_output, InstanceId=each))[0] == DENIED
        change = {"InstanceId": each, "InstanceInitiatedShutdownBehavior": {"Value": "stop"}}
        assert refusal(partial(hub.modify_instance_attribute, **change))[0] == DENIED
        assert lab.state(each) == "running"
    both = partial(hub.terminate_instances, InstanceIds=[ours, theirs])
    assert refusal(both)[0] == DENIED
    assert lab.state(ours) != "terminated"
    hub.terminate_instances(InstanceIds=[ours])
    lab.wait_for(ours, "terminated")


def test_the_hubs_tag_is_neither_given_nor_taken_later(lab: Laboratory, hub: Any) -> None:
    ours, theirs = launch_of(lab, HUB), launch_of(lab, OTHER)

    def tag(instance: str, key: str, value: str) -> Callable[[], Any]:
        return partial(hub.create_tags, Resources=[instance], Tags=[{"Key": key, "Value": value}])

    assert refusal(tag(theirs, "ec2spawner:hub", HUB))[0] == DENIED
    assert refusal(tag(theirs, "ec2spawner:lease", "1"))[0] == DENIED
    assert refusal(tag(ours, "ec2spawner:hub", OTHER))[0] == DENIED
    assert refusal(tag(ours, "anything", "1"))[0] == DENIED
    tag(ours, "ec2spawner:lease", "1")()


def test_an_interface_is_tagged_only_if_it_is_the_hubs(lab: Laboratory, hub: Any) -> None:
    """And with it the instance: one resource that is refused refuses the call."""

    def interface(of: str) -> str:
        found = lab.ec2.create_network_interface(
            SubnetId=lab.facts.subnets[0], TagSpecifications=tagged("network-interface", hub=of)
        )
        return str(found["NetworkInterface"]["NetworkInterfaceId"])

    def tag(key: str, *resources: str) -> Callable[[], Any]:
        return partial(hub.create_tags, Resources=resources, Tags=[{"Key": key, "Value": "x"}])

    instance, ours, theirs = launch_of(lab, HUB), interface(HUB), interface(OTHER)
    tag("ec2spawner:payer", instance, ours)()
    assert refusal(tag("ec2spawner:payer", instance, ours, theirs))[0] == DENIED
    assert refusal(tag("ec2spawner:hub", ours))[0] == DENIED
    assert refusal(tag("anything", ours))[0] == DENIED


def test_what_does_not_exist_is_not_found(hub: Any) -> None:
    missing = partial(hub.terminate_instances, InstanceIds=["i-00000000000000000"])
    assert refusal(missing)[0] == "InvalidInstanceID.NotFound"


# --- launches --------------------------------------------------------------------------------


def template(lab: Laboratory, name: str, hub: str = HUB, **data: Any) -> str:
    """A launch template of this hub, as the hub makes them."""
    made = lab.ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={
            "ImageId": lab.facts.image_id,
            "TagSpecifications": tagged("network-interface", hub=hub),
            **data,
        },
        TagSpecifications=tagged("launch-template", hub=hub),
    )
    return str(made["LaunchTemplate"]["LaunchTemplateId"])


def fleet(lab: Laboratory, ec2: Any, template_id: str, *kinds: str, market: str = "spot") -> Any:
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateId": template_id, "Version": "1"},
        "Overrides": [{"InstanceType": "t3.micro", "SubnetId": lab.facts.subnets[0]}],
    }
    target = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": market}
    return ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[config],
        TargetCapacitySpecification=target,
        TagSpecifications=tagged(*kinds),
    )


@pytest.mark.parametrize("market", ["spot", "on-demand"])
def test_a_fleet_needs_the_hubs_template_and_its_tags(
    lab: Laboratory, hub: Any, market: str
) -> None:
    everything = ("fleet", "instance", "volume")
    ours = template(lab, f"ours-{market}")
    theirs = template(lab, f"theirs-{market}", OTHER)
    assert refusal(lambda: fleet(lab, hub, theirs, *everything, market=market))[0] == DENIED
    for missing in everything:
        kinds = [kind for kind in everything if kind != missing]
        call = partial(fleet, lab, hub, ours, *kinds, market=market)
        assert refusal(call)[0] == DENIED
    assert fleet(lab, hub, ours, *everything, market=market)["Instances"]


def errors_of(lab: Laboratory, ec2: Any, template_id: str) -> list[str]:
    answer = fleet(lab, ec2, template_id, "fleet", "instance", "volume")
    assert not answer["Instances"]
    return [f"{error['ErrorCode']} {error['ErrorMessage']}" for error in answer["Errors"]]


def test_a_launch_that_is_denied_is_an_error_of_each_offer(lab: Laboratory) -> None:
    ours = template(lab, "ours-denied")
    ban = {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*"}
    [error] = errors_of(lab, client(lab, "ec2", ban), ours)
    assert error.startswith(f"{DENIED} ")
    assert "ec2:RunInstances" in error
    assert "with an explicit deny in an identity-based policy" in error


def test_an_interface_without_the_hubs_tag_is_not_launched(lab: Laboratory, hub: Any) -> None:
    bare = template(lab, "ours-bare", TagSpecifications=[])
    [error] = errors_of(lab, hub, bare)
    assert "ec2:RunInstances on resource: " in error
    assert ":network-interface/*" in error


def test_a_role_is_passed_only_with_the_statement_of_the_documentation(lab: Laboratory) -> None:
    iam = lab.client("iam")
    role = iam.create_role(RoleName="notebooks", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    iam.create_instance_profile(InstanceProfileName="of-notebooks")
    iam.add_role_to_instance_profile(InstanceProfileName="of-notebooks", RoleName="notebooks")
    profile = {"Name": "of-notebooks"}
    ours = template(lab, "ours-with-role", IamInstanceProfile=profile)
    [error] = errors_of(lab, client(lab), ours)
    assert f"iam:PassRole on resource: {role}" in error
    allowed = {
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": role,
        "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    }
    ec2 = client(lab, "ec2", allowed)
    assert fleet(lab, ec2, ours, "fleet", "instance", "volume")["Instances"]


# --- other services --------------------------------------------------------------------------


def test_other_services_deny_in_their_own_words(lab: Laboratory) -> None:
    code, message, status = refusal(client(lab, "iam").list_roles)
    assert (code, status) == ("AccessDenied", 403)
    assert "is not authorized to perform: iam:ListRoles" in message
    code, message, status = refusal(lambda: client(lab, "ssm").get_parameter(Name="/own/image"))
    assert (code, status) == ("AccessDeniedException", 400)
    assert f":{lab.facts.account}:parameter/own/image" in message
    code, _, status = refusal(lambda: client(lab, "s3").list_objects_v2(Bucket="any"))
    assert (code, status) == ("AccessDenied", 403)
    assert client(lab, "sts").get_caller_identity()["Account"] == lab.facts.account
    assert client(lab, "service-quotas").list_service_quotas(ServiceCode="ec2")["Quotas"]
    name = "/aws/service/deeplearning/ami/x86_64/any/latest/ami-id"
    found = client(lab, "ssm").get_parameter(Name=name)["Parameter"]
    assert found["Value"] == lab.facts.image_id


def test_a_statement_that_is_not_evaluated_is_refused(lab: Laboratory) -> None:
    statement = {
        "Effect": "Allow",
        "Action": "ec2:*",
        "Resource": "*",
        "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    }
    status, answer = lab.ask("hub-keys", {"hub_name": HUB, "statements": [statement]})
    assert status == 400
    assert "aws:sourceip" in answer["error"]
