"""What EC2 refuses for its form alone, the embedded EC2 refuses in the same way."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2spawner.embedded.gateway import filters
from tests.aws_actions import called_actions

NOBODYS = "0123456789abcdef0"

IN_USE = {
    "DescribeAvailabilityZones": {"state", "zone-type"},
    "DescribeCapacityReservations": {"instance-match-criteria", "state"},
    "DescribeImages": {"architecture", "name", "state"},
    "DescribeInstanceTypeOfferings": {"instance-type", "location"},
    "DescribeInstanceTypes": {"instance-type"},
    "DescribeInstances": {"client-token", "instance-lifecycle", "instance-state-name", "tag:<key>"},
    "DescribeLaunchTemplates": {"launch-template-name", "tag:<key>"},
    "DescribeNetworkInterfaces": {"description", "status", "tag:<key>"},
    "DescribeReservedInstances": {"state"},
    "DescribeSecurityGroups": {"group-name", "tag:<key>", "vpc-id"},
    "DescribeSnapshots": {"tag:<key>"},
    "DescribeSpotPriceHistory": {"availability-zone", "instance-type", "product-description"},
    "DescribeVolumes": {"status", "tag-key", "tag:<key>", "volume-id"},
}
"""Filters that the project and its tests use."""


def error(call: Any, /, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return str(refused.value.response["Error"]["Code"])


def tags(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in pairs]


@pytest.fixture
def volume(lab: Any) -> Any:
    """Asks for a volume that can be, except for what is given."""

    def create(**more: Any) -> Any:
        possible = {"AvailabilityZone": lab.facts.zones[0], "Size": 8, "VolumeType": "gp3"}
        asked = {**possible, **more}
        return lab.ec2.create_volume(**{k: v for k, v in asked.items() if v is not None})

    return create


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"Size": 0}, "InvalidParameterValue"),
        ({"Size": 65_537}, "InvalidParameterValue"),
        ({"Size": None}, "MissingParameter"),
        ({"VolumeType": "gp2", "Size": 16_385}, "InvalidParameterValue"),
        ({"VolumeType": "st1", "Size": 124}, "InvalidParameterValue"),
        ({"VolumeType": "gold"}, "UnknownVolumeType"),
        ({"VolumeType": "io2"}, "MissingParameter"),
        ({"VolumeType": "gp2", "Iops": 3000}, "InvalidParameterCombination"),
        ({"VolumeType": "io1", "Iops": 100, "Throughput": 125}, "InvalidParameterCombination"),
        ({"Iops": 2999}, "InvalidParameterValue"),
        ({"Throughput": 124}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-east-1z"}, "InvalidZone.NotFound"),
        ({"AvailabilityZone": "eu-west-1a"}, "InvalidZone.NotFound"),
        ({"AvailabilityZone": None}, "InvalidZone.NotFound"),
        ({"SnapshotId": "snap-home"}, "InvalidParameterValue"),
        ({"SnapshotId": f"snap-{NOBODYS}"}, "InvalidSnapshot.NotFound"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_an_invalid_volume_is_not_created(
    volume: Any, asked: dict[str, Any], code: str, dry_run: bool
) -> None:
    assert error(volume, **asked, DryRun=dry_run) == code


def test_volumes_at_the_bounds_of_their_types_are_created(volume: Any) -> None:
    assert volume(Size=65_536, Iops=80_000, Throughput=2_000)["Size"] == 65_536
    assert volume(VolumeType="standard", Size=1)["Size"] == 1
    assert volume(VolumeType="io1", Size=4, Iops=100)["Iops"] == 100


def test_a_volume_does_not_grow_beyond_the_limit_of_its_type(lab: Any, volume: Any) -> None:
    volume_id = volume()["VolumeId"]

    assert error(lab.ec2.modify_volume, VolumeId=volume_id, Size=65_537) == "InvalidParameterValue"


def root(gib: int) -> list[dict[str, Any]]:
    return [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": gib}}]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_root_disk_smaller_than_its_snapshot_is_not_launched(lab: Any, dry_run: bool) -> None:
    with pytest.raises(ClientError) as refused:
        lab.run(BlockDeviceMappings=root(74), DryRun=dry_run)
    said = refused.value.response["Error"]
    assert said["Code"] == "InvalidBlockDeviceMapping"
    assert "expect size >= 75GB" in said["Message"]


def test_a_fleet_lists_a_root_disk_that_is_too_small_as_an_error(lab: Any) -> None:
    small = lab.template("small-disk", BlockDeviceMappings=root(50))
    answer = lab.fleet(small)
    assert answer["Instances"] == []
    assert {entry["ErrorCode"] for entry in answer["Errors"]} == {"InvalidBlockDeviceMapping"}
    large = lab.template("large-disk", BlockDeviceMappings=root(75))
    assert lab.fleet(large)["Errors"] == []


def test_a_registered_image_has_the_root_disk_that_it_was_registered_with(lab: Any) -> None:
    image_id = lab.ec2.register_image(
        Name="large",
        RootDeviceName="/dev/xvda",
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 120}}],
    )["ImageId"]
    [image] = lab.ec2.describe_images(ImageIds=[image_id])["Images"]
    assert image["RootDeviceName"] == "/dev/xvda"
    assert image["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 120
    mapping = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 119}}]
    assert error(lab.run, ImageId=image_id, BlockDeviceMappings=mapping) == (
        "InvalidBlockDeviceMapping"
    )


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (tags(("aws:name", "ada")), "InvalidParameterValue"),
        (tags(("AWS:name", "ada")), "InvalidParameterValue"),
        (tags(("", "ada")), "InvalidParameterValue"),
        (tags(("k" * 129, "ada")), "InvalidParameterValue"),
        (tags(("name", "\x1b[31mred")), "InvalidParameterValue"),
        (tags(("name", "v" * 257)), "InvalidParameterValue"),
        (tags(("name", "ada"), ("name", "bob")), "InvalidParameterValue"),
        (tags(*((f"key-{n}", "") for n in range(51))), "TagLimitExceeded"),
    ],
)
def test_an_invalid_tag_is_refused_by_every_call(
    lab: Any, volume: Any, given: list[dict[str, str]], code: str
) -> None:
    volume_id = volume()["VolumeId"]
    of_volume = [{"ResourceType": "volume", "Tags": given}]
    of_instance = [{"ResourceType": "instance", "Tags": given}]

    assert error(lab.ec2.create_tags, Resources=[volume_id], Tags=given) == code
    assert error(volume, TagSpecifications=of_volume) == code
    assert error(lab.run, TagSpecifications=of_instance) == code
    assert error(lab.template, name="tags", TagSpecifications=of_instance) == code
    assert "Tags" not in lab.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]


def test_fifty_tags_of_maximum_length_are_accepted(lab: Any, volume: Any) -> None:
    volume_id = volume()["VolumeId"]
    given = tags(("k" * 128, "v" * 256), *((f"key-{n}", "") for n in range(49)))

    lab.ec2.create_tags(Resources=[volume_id], Tags=given)

    assert len(lab.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]["Tags"]) == 50
    one_more = tags(("one-more", ""))
    assert error(lab.ec2.create_tags, Resources=[volume_id], Tags=one_more) == "TagLimitExceeded"


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("home", "InvalidID"),
        (f"i-{NOBODYS}", "InvalidInstanceID.NotFound"),
        (f"vol-{NOBODYS}", "InvalidVolume.NotFound"),
        (f"snap-{NOBODYS}", "InvalidSnapshot.NotFound"),
        (f"eni-{NOBODYS}", "InvalidNetworkInterfaceID.NotFound"),
        (f"lt-{NOBODYS}", "InvalidLaunchTemplateId.NotFound"),
        (f"ami-{NOBODYS}", "InvalidAMIID.NotFound"),
    ],
)
def test_tagging_a_missing_resource_is_refused(lab: Any, resource: str, code: str) -> None:
    for dry_run in (False, True):
        tagged = error(
            lab.ec2.create_tags, Resources=[resource], Tags=tags(("a", "b")), DryRun=dry_run
        )
        assert tagged == code


@pytest.mark.parametrize(
    "action",
    [
        "describe_availability_zones",
        "describe_images",
        "describe_instance_status",
        "describe_instance_type_offerings",
        "describe_instance_types",
        "describe_instances",
        "describe_key_pairs",
        "describe_launch_templates",
        "describe_network_interfaces",
        "describe_regions",
        "describe_reserved_instances",
        "describe_security_groups",
        "describe_snapshots",
        "describe_spot_price_history",
        "describe_subnets",
        "describe_tags",
        "describe_volumes",
        "describe_volumes_modifications",
        "describe_vpcs",
    ],
)
def test_an_unknown_filter_is_refused(lab: Any, action: str) -> None:
    for name in ("colour", "tag:", ""):
        unknown = [{"Name": name, "Values": ["red"]}]
        assert error(getattr(lab.ec2, action), Filters=unknown) == "InvalidParameterValue"


def test_a_filter_has_limits(lab: Any) -> None:
    many = [{"Name": "tag:a", "Values": [str(n) for n in range(201)]}]
    long = [{"Name": "tag:a", "Values": ["x" * 256]}]

    assert error(lab.ec2.describe_volumes, Filters=many) == "FilterLimitExceeded"
    assert error(lab.ec2.describe_volumes, Filters=long) == "FilterLimitExceeded"


def test_filters_that_are_in_use_are_documented() -> None:
    """Held against botocore: its documentation is where the names come from."""
    for action, names in IN_USE.items():
        assert names <= filters.documented(action), action
        assert "colour" not in filters.documented(action)


def test_every_listing_of_the_project_has_known_filters() -> None:
    asked = {each.name for each in called_actions() if each.service == "ec2"}
    listings = {name for name in asked if name.startswith("Describe")}

    assert {name for name in listings if not filters.documented(name)} == set()


@pytest.mark.parametrize(
    ("action", "parameters", "code"),
    [
        ("describe_instances", {"InstanceIds": ["i-one"]}, "InvalidInstanceID.Malformed"),
        ("terminate_instances", {"InstanceIds": ["one"]}, "InvalidInstanceID.Malformed"),
        ("get_console_output", {"InstanceId": "i-0123456789"}, "InvalidInstanceID.Malformed"),
        ("describe_volumes", {"VolumeIds": ["home"]}, "InvalidParameterValue"),
        ("delete_volume", {"VolumeId": "vol-home"}, "InvalidParameterValue"),
        ("describe_snapshots", {"SnapshotIds": ["snap-home"]}, "InvalidParameterValue"),
        ("describe_images", {"ImageIds": ["ami-ubuntu"]}, "InvalidAMIID.Malformed"),
        ("describe_security_groups", {"GroupIds": ["web"]}, "InvalidGroupId.Malformed"),
        (
            "delete_network_interface",
            {"NetworkInterfaceId": "eni-one"},
            "InvalidNetworkInterfaceId.Malformed",
        ),
        (
            "delete_launch_template",
            {"LaunchTemplateId": "lt-one"},
            "InvalidLaunchTemplateId.Malformed",
        ),
        (
            "delete_launch_template",
            {"LaunchTemplateId": f"lt-{NOBODYS}"},
            "InvalidLaunchTemplateId.NotFound",
        ),
        (
            "describe_launch_templates",
            {"LaunchTemplateIds": [f"lt-{NOBODYS}"]},
            "InvalidLaunchTemplateId.NotFound",
        ),
        ("describe_instance_types", {"InstanceTypes": ["g4nd.xlarge"]}, "InvalidInstanceType"),
    ],
)
def test_a_malformed_id_has_its_own_error(
    lab: Any, action: str, parameters: dict[str, Any], code: str
) -> None:
    assert error(getattr(lab.ec2, action), **parameters) == code


@pytest.mark.parametrize(
    ("action", "listed", "smallest", "largest"),
    [
        ("describe_instance_types", "InstanceTypes", 5, 100),
        ("describe_instance_type_offerings", "InstanceTypeOfferings", 5, 1000),
        ("describe_launch_templates", "LaunchTemplates", 1, 200),
        ("describe_snapshots", "Snapshots", 5, 1000),
        ("describe_subnets", "Subnets", 5, 1000),
        ("describe_volumes", "Volumes", 5, 1000),
    ],
)
def test_listings_come_in_pages(
    lab: Any, wait_until: Any, volume: Any, action: str, listed: str, smallest: int, largest: int
) -> None:
    describe = getattr(lab.ec2, action)
    if listed in ("Volumes", "Snapshots"):
        for volume_id in [volume()["VolumeId"] for _ in range(6)]:
            if listed == "Snapshots":
                lab.ec2.create_snapshot(VolumeId=volume_id)
    if listed == "LaunchTemplates":
        for n in range(17):
            lab.template(f"page-{n}")

    if listed == "Snapshots":  # one that is not complete changes between two looks
        wait_until(lambda: {s["State"] for s in describe()["Snapshots"]} == {"completed"})
    everything = describe()[listed]
    first = describe(MaxResults=smallest)
    page, token = list(first[listed]), first.get("NextToken")
    while token and len(page) < 30:
        following = describe(MaxResults=smallest, NextToken=token)
        page += following[listed]
        token = following.get("NextToken")

    assert len(first[listed]) == min(smallest, len(everything))
    assert page == everything[: len(page)]
    assert len(page) == len(everything) or len(page) >= 30
    assert error(describe, MaxResults=largest + 1) == "InvalidParameterValue"
    assert error(describe, MaxResults=smallest, NextToken="next") == "InvalidParameterValue"


def test_ids_cannot_be_combined_with_pagination(lab: Any, volume: Any) -> None:
    ids = [volume()["VolumeId"]]

    assert error(lab.ec2.describe_volumes, VolumeIds=ids, MaxResults=5) == (
        "InvalidParameterCombination"
    )
