"""What was just created is not known to every call yet, as on EC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2spawner.embedded.api.protocol import EC2Error
from ec2spawner.embedded.read_lag import MAX_SECONDS, NO_LAG_HEADER, ReadLag

from .conftest import Laboratory, until

LONG = 3600.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    with Laboratory(lag_seconds=LONG) as running:
        yield running


@pytest.fixture
def late(lab: Any) -> Any:
    """Nothing created is known for an hour, until the test says otherwise."""
    lab.control("lag", {"seconds": LONG})
    return lab


def error(call: Any, /, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return str(refused.value.response["Error"]["Code"])


def volume_id(lab: Any) -> str:
    zone = lab.facts.zones[0]
    return lab.ec2.create_volume(AvailabilityZone=zone, Size=8, VolumeType="gp3")["VolumeId"]


def test_a_new_instance_is_in_no_listing_and_no_call_knows_it(late: Any) -> None:
    instance_id = late.run()
    volumes = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    interfaces = late.ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert late.ec2.describe_instances()["Reservations"] == []
    assert late.ec2.describe_volumes(Filters=volumes)["Volumes"] == []
    holders = {each.get("Attachment", {}).get("InstanceId") for each in interfaces}
    assert instance_id not in holders
    for call in (
        late.ec2.describe_instances,
        late.ec2.terminate_instances,
        late.ec2.stop_instances,
        late.ec2.start_instances,
    ):
        assert error(call, InstanceIds=[instance_id]) == "InvalidInstanceID.NotFound"
    tags = [{"Key": "name", "Value": "ada"}]
    tag = error(late.ec2.create_tags, Resources=[instance_id], Tags=tags)
    assert tag == "InvalidInstanceID.NotFound"
    console = error(late.ec2.get_console_output, InstanceId=instance_id)
    assert console == "InvalidInstanceID.NotFound"
    assert {each["instance_id"] for each in late.control("instances")} >= {instance_id}


def test_a_new_volume_and_snapshot_are_not_known(late: Any) -> None:
    made = volume_id(late)
    assert made not in [each["VolumeId"] for each in late.ec2.describe_volumes()["Volumes"]]
    for call in (late.ec2.delete_volume, late.ec2.create_snapshot):
        assert error(call, VolumeId=made) == "InvalidVolume.NotFound"
    late.control("lag", {"seconds": 0})
    known = volume_id(late)
    late.control("lag", {"seconds": LONG})
    copy = late.ec2.create_snapshot(VolumeId=known)["SnapshotId"]
    listed = late.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
    assert copy not in [each["SnapshotId"] for each in listed]
    assert error(late.ec2.describe_snapshots, SnapshotIds=[copy]) == "InvalidSnapshot.NotFound"
    zone = late.facts.zones[0]
    again = error(late.ec2.create_volume, AvailabilityZone=zone, SnapshotId=copy)
    assert again == "InvalidSnapshot.NotFound"


def test_a_new_template_is_not_known_by_id_nor_name_and_its_name_is_taken(late: Any) -> None:
    template = late.template("late")
    assert late.ec2.describe_launch_templates()["LaunchTemplates"] == []
    by_id = error(late.ec2.delete_launch_template, LaunchTemplateId=template)
    assert by_id == "InvalidLaunchTemplateId.NotFound"
    assert error(late.fleet, template=template) == "InvalidLaunchTemplateId.NotFound"
    named = {"LaunchTemplateName": "late"}
    launch = error(late.ec2.run_instances, LaunchTemplate=named, MinCount=1, MaxCount=1)
    assert launch == "InvalidLaunchTemplateName.NotFoundException"
    again = error(late.template, name="late")
    assert again == "InvalidLaunchTemplateName.AlreadyExistsException"


def test_new_tags_are_not_shown_yet(late: Any) -> None:
    late.control("lag", {"seconds": 0})
    made = volume_id(late)
    late.control("lag", {"seconds": 1})
    late.ec2.create_tags(Resources=[made], Tags=[{"Key": "name", "Value": "ada"}])

    def named() -> list[Any]:
        filters = [{"Name": "tag:name", "Values": ["ada"]}]
        return list(late.ec2.describe_volumes(Filters=filters)["Volumes"])

    assert named() == []
    assert "Tags" not in late.ec2.describe_volumes(VolumeIds=[made])["Volumes"][0]
    assert until(named)[0]["Tags"] == [{"Key": "name", "Value": "ada"}]


def test_nothing_lags_to_an_observer(late: Any) -> None:
    instance_id, made, template = late.run(), volume_id(late), late.template("observed")
    late.ec2.create_placement_group(GroupName="observed", Strategy="cluster")
    observer = late.client()
    sent = {NO_LAG_HEADER: "1"}
    observer.meta.events.register("before-call", lambda params, **_: params["headers"].update(sent))
    tags = [{"Key": "name", "Value": "ada"}]
    observer.create_tags(Resources=[made], Tags=tags)
    for ec2, is_known in ((late.ec2, False), (observer, True)):
        listed = [
            (instance_id, ec2.describe_instances()),
            (made, ec2.describe_volumes()),
            (made, ec2.describe_volumes(Filters=[{"Name": "tag:name", "Values": ["ada"]}])),
            (template, ec2.describe_launch_templates()),
            ("observed", ec2.describe_placement_groups()),
        ]
        assert [name in repr(answer) for name, answer in listed] == [is_known] * len(listed)
    assert observer.describe_volumes(VolumeIds=[made])["Volumes"][0]["Tags"] == tags


def drawn(lag: ReadLag, seconds: list[float], number: int = 200) -> list[str]:
    """The resources that the first call after their creation does not know."""
    names = [f"vol-{each}" for each in range(number)]
    for name in names:
        lag.created(name)
    return [name for name in names if lag.hides(name)]


def test_lags_are_drawn_by_seed_and_are_over_within_seconds() -> None:
    now = [0.0]
    lags = [ReadLag(seed, clock=lambda: now[0]) for seed in (1, 1, 2)]
    first, same, other = (drawn(lag, now) for lag in lags)
    assert first == same != other
    assert 0 < len(first) < 80, "most are known at once"
    seen = [[lags[0].hides(name) for name in first] for _ in range(9)]
    assert any(True in call and False in call for call in zip(*seen, strict=True)), "replicas"
    now[0] = MAX_SECONDS
    assert not any(lags[0].hides(name) for name in first)


def test_a_repeated_creation_begins_no_new_lag() -> None:
    now = [0.0]
    lag = ReadLag(1, seconds=2.0, clock=lambda: now[0])
    lag.created("i-1")
    now[0] = 2.0
    lag.created("i-1")
    lag.check("TerminateInstances", {"InstanceIds": ["i-1"]})
    lag.template_created("lt-1", "name")
    with pytest.raises(EC2Error, match="template name name"):
        lag.check("DescribeLaunchTemplateVersions", {"LaunchTemplateName": "name"})
