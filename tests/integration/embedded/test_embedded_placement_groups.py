"""Placement groups are made, launched into and deleted under EC2's rules."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from ec2spawner.embedded.iam.hub_policy import cluster_statements

from .conftest import Laboratory
from .test_embedded_group_actions import DENIED, HUB, OTHER, error, of_key, tagged, unchecked

LARGE, BURSTABLE = "m5.large", "t3.medium"
KIND = "placement-group"


@pytest.fixture
def group(lab: Laboratory) -> Any:
    """Makes groups."""

    def make(**more: Any) -> str:
        name = f"g-{uuid4()}"
        lab.ec2.create_placement_group(GroupName=name, Strategy="cluster", **more)
        return name

    return make


def launch(lab: Laboratory, group_name: str, zone: int = 0, kind: str = LARGE, **more: Any) -> Any:
    """A call of RunInstances that is yet to be made."""
    return partial(
        lab.ec2.run_instances,
        ImageId=lab.facts.image_id,
        InstanceType=kind,
        SubnetId=lab.facts.subnets[zone],
        Placement={"GroupName": group_name},
        MinCount=1,
        MaxCount=1,
        **more,
    )


def id_of(answer: Any) -> str:
    return str(answer["Instances"][0]["InstanceId"])


def end(lab: Laboratory, instance: str) -> None:
    lab.ec2.terminate_instances(InstanceIds=[instance])
    lab.wait_for(instance, "terminated")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"GroupName": "x" * 256}, "InvalidParameterValue"),
        ({"GroupName": "größer"}, "InvalidParameterValue"),
        ({"GroupName": None}, "MissingParameter"),
        ({"Strategy": None}, "MissingParameter"),
        ({"Strategy": "spread"}, "UnsupportedOperation"),
        ({"PartitionCount": 2}, "UnsupportedOperation"),
        (tagged(HUB, "volume"), "InvalidParameterValue"),
    ],
)
def test_a_group_that_cannot_be(lab: Laboratory, asked: dict[str, Any], code: str) -> None:
    possible = {"GroupName": f"g-{uuid4()}", "Strategy": "cluster"}
    parameters = {k: v for k, v in {**possible, **asked}.items() if v is not None}
    client = unchecked(lab)
    assert error(client.create_placement_group, **parameters) == code
    assert error(client.create_placement_group, **parameters, DryRun=True) == code


def test_a_name_is_used_once(lab: Laboratory, group: Any) -> None:
    again = {"GroupName": group(), "Strategy": "cluster"}
    create = lab.ec2.create_placement_group
    assert error(create, **again) == "InvalidPlacementGroup.Duplicate"
    assert error(create, **again, DryRun=True) == "InvalidPlacementGroup.Duplicate"
    assert error(create, GroupName="never", Strategy="cluster", DryRun=True) == "DryRunOperation"
    delete = lab.ec2.delete_placement_group
    assert error(delete, GroupName="never") == "InvalidPlacementGroup.Unknown"
    delete(GroupName=again["GroupName"])
    create(**again)


def test_groups_are_found_by_name_and_tag(lab: Laboratory, group: Any) -> None:
    hub = f"a*b-{uuid4()}"
    ours, _ = group(**tagged(hub, KIND)), group()

    def found(**asked: Any) -> list[str]:
        groups = lab.ec2.describe_placement_groups(**asked)["PlacementGroups"]
        return [each["GroupName"] for each in groups]

    for value, expected in ((hub, [ours]), (hub.replace("*", "\\*"), [ours]), ("a\\*b", [])):
        by_tag = [{"Name": "tag:ec2spawner:hub", "Values": [value]}]
        assert found(Filters=by_tag) == expected
    assert found(GroupNames=[ours]) == [ours]
    assert found(Filters=[{"Name": "group-name", "Values": [f"{ours[:8]}*"]}]) == [ours]
    describe = lab.ec2.describe_placement_groups
    assert error(describe, GroupNames=["never"]) == "InvalidPlacementGroup.Unknown"
    nothing = [{"Name": "colour", "Values": ["red"]}]
    assert error(describe, Filters=nothing) == "InvalidParameterValue"
    [shown] = describe(GroupNames=[ours])["PlacementGroups"]
    assert (shown["Strategy"], shown["State"]) == ("cluster", "available")
    assert shown["GroupArn"].endswith(f":placement-group/{ours}")


def test_its_instances_are_in_one_zone_and_of_types_that_fit(lab: Laboratory, group: Any) -> None:
    name = group()
    assert error(launch(lab, "never")) == "InvalidPlacementGroup.Unknown"
    assert error(launch(lab, name, kind=BURSTABLE)) == "InvalidParameterCombination"
    first = id_of(launch(lab, name)())
    assert lab.instance(first)["Placement"]["GroupName"] == name
    assert error(launch(lab, name, zone=1)) == "InvalidPlacementGroup.InUse"
    second = id_of(launch(lab, name)())
    for each in (first, second):
        end(lab, each)
    moved = id_of(launch(lab, name, zone=1)())
    end(lab, moved)


def test_one_in_use_stays(lab: Laboratory, group: Any) -> None:
    name, delete = group(), lab.ec2.delete_placement_group
    instance = id_of(launch(lab, name)())
    for dry in (False, True):
        code = error(delete, GroupName=name, DryRun=dry)
        assert code == "InvalidPlacementGroup.InUse"
    end(lab, instance)
    delete(GroupName=name)
    assert error(delete, GroupName=name) == "InvalidPlacementGroup.Unknown"


def test_a_fleet_launches_into_it_what_fits(lab: Laboratory, group: Any) -> None:
    name = group()
    template = lab.template(f"t-{uuid4()}", Placement={"GroupName": name})

    def fleet(count: int, *offers: tuple[str, int], **more: Any) -> Any:
        overrides = [
            {"InstanceType": kind, "SubnetId": lab.facts.subnets[zone], "Priority": place, **more}
            for place, (kind, zone) in enumerate(offers)
        ]
        return lab.ec2.create_fleet(
            Type="instant",
            TargetCapacitySpecification={
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": "on-demand",
            },
            OnDemandOptions={"AllocationStrategy": "prioritized"},
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateId": template,
                        "Version": "1",
                    },
                    "Overrides": overrides,
                }
            ],
        )

    lab.control(
        "capacity",
        {
            "market": "on-demand",
            "instance_type": LARGE,
            "zone": lab.facts.zones[0],
            "available": 2,
        },
    )
    answer = fleet(3, (BURSTABLE, 0), (LARGE, 0), (LARGE, 1))
    [launched] = answer["Instances"]
    assert len(launched["InstanceIds"]) == 2
    assert [each["ErrorCode"] for each in answer["Errors"]] == [
        "InvalidParameterCombination",
        "InsufficientInstanceCapacity",
        "InvalidPlacementGroup.InUse",
    ]
    unsupported = partial(fleet, 1, (LARGE, 0), Placement={"GroupName": name})
    assert error(unsupported) == "UnsupportedOperation"
    for each in launched["InstanceIds"]:
        end(lab, each)


# --- what a hub's key may do -----------------------------------------------------------------


@pytest.fixture
def hub(lab: Laboratory) -> Any:
    """With a key that may have clusters."""
    return of_key(lab, cluster_statements(lab.facts.region, lab.facts.account, HUB))


def test_a_hub_makes_and_deletes_only_groups_with_its_tag(
    lab: Laboratory, hub: Any, group: Any
) -> None:
    asked = {"GroupName": f"g-{uuid4()}", "Strategy": "cluster"}
    for tags in ({}, tagged(OTHER, KIND)):
        assert error(hub.create_placement_group, **asked, **tags) == DENIED
    without = of_key(lab, [])
    assert error(without.create_placement_group, **asked, **tagged(HUB, KIND)) == DENIED
    assert error(without.describe_placement_groups) == DENIED
    hub.create_placement_group(**asked, **tagged(HUB, KIND))
    assert error(hub.delete_placement_group, GroupName=group()) == DENIED
    assert error(without.delete_placement_group, GroupName=asked["GroupName"]) == DENIED
    hub.delete_placement_group(GroupName=asked["GroupName"])


def test_a_hub_launches_only_into_groups_with_its_tag(
    lab: Laboratory, hub: Any, group: Any
) -> None:
    ours, theirs = group(**tagged(HUB, KIND)), group()
    kinds = ("instance", "volume", "network-interface")

    def run(client: Any, name: str) -> Any:
        known = launch(lab, name, **tagged(HUB, *kinds)).keywords
        return partial(client.run_instances, **known)

    assert error(run(hub, theirs)) == DENIED
    assert error(run(of_key(lab, []), ours)) == DENIED
    end(lab, id_of(run(hub, ours)()))
