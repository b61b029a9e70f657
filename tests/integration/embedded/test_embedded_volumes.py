"""Volumes: a writer at a time, in one zone, and still there after everything else has gone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

TAGS = [{"ResourceType": "volume", "Tags": [{"Key": "ec2spawner:user", "Value": "ada"}]}]


def code(call: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


def create(lab: Any, zone: int = 0, **more: Any) -> str:
    return lab.ec2.create_volume(
        AvailabilityZone=lab.facts.zones[zone],
        Size=20,
        VolumeType="gp3",
        Encrypted=True,
        TagSpecifications=TAGS,
        **more,
    )["VolumeId"]


def attach(lab: Any, volume_id: str, instance_id: str, device: str = "/dev/sdf") -> Any:
    return lab.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)


def running(lab: Any, script: str = "exec sleep 1000", **more: Any) -> str:
    instance_id = lab.run(script, **more)
    lab.wait_for(instance_id, "running")
    return instance_id


def volume(lab: Any, volume_id: str) -> Any:
    return lab.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]


def folder(lab: Any, volume_id: str) -> Path:
    return Path(lab.facts.data_dir) / "volumes" / volume_id


def link_name(volume_id: str) -> str:
    return f"nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"


def test_a_volume_appears_on_its_instance_and_disappears_when_detached(
    lab: Any, wait_until: Any
) -> None:
    volume_id = create(lab)
    device = f"$EC2SPAWNER_DEVICES/{link_name(volume_id)}"
    instance_id = running(
        lab, f"until [ -d {device} ]; do sleep 0.05; done; echo mine > {device}/file; echo written"
    )

    attach(lab, volume_id, instance_id)
    lab.console_says(instance_id, "written")
    shown = volume(lab, volume_id)
    assert shown["State"] == "in-use"
    assert shown["Attachments"][0]["InstanceId"] == instance_id
    lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)

    assert volume(lab, volume_id)["State"] == "available"
    assert (folder(lab, volume_id) / "file").read_text() == "mine\n"
    devices = Path(lab.facts.data_dir) / "instances" / instance_id / "devices"
    assert list(devices.iterdir()) == []


def test_a_volume_attaches_to_one_instance_of_its_zone(lab: Any) -> None:
    volume_id, elsewhere = create(lab), create(lab, zone=1)
    first, second = running(lab), running(lab)
    attach(lab, volume_id, first)

    assert code(lambda: attach(lab, volume_id, second)) == "VolumeInUse"
    assert code(lambda: attach(lab, volume_id, first, "/dev/sdg")) == "VolumeInUse"
    assert code(lambda: attach(lab, elsewhere, first, "/dev/sdg")) == "InvalidVolume.ZoneMismatch"
    assert code(lambda: attach(lab, create(lab), first)) == "InvalidParameterValue"
    assert code(lambda: lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=second)) == (
        "InvalidAttachment.NotFound"
    )
    assert code(lambda: lab.ec2.delete_volume(VolumeId=volume_id)) == "VolumeInUse"
    lab.ec2.detach_volume(VolumeId=volume_id)
    assert code(lambda: lab.ec2.detach_volume(VolumeId=volume_id)) == "IncorrectState"
    attach(lab, volume_id, second)


def test_an_instance_takes_as_many_volumes_as_its_type(lab: Any) -> None:
    """Nine, its own disk included: its eight GPUs and two local disks take the other places."""
    volumes = [create(lab) for _ in range(9)]
    instance_id = running(lab, InstanceType="g5.48xlarge")
    devices = [f"/dev/sd{letter}" for letter in "fghijklmn"]
    for volume_id, device in zip(volumes[:8], devices, strict=False):
        attach(lab, volume_id, instance_id, device)
    assert code(partial(attach, lab, volumes[8], instance_id, devices[8])) == (
        "AttachmentLimitExceeded"
    )


def test_a_launch_with_more_volumes_than_its_type_takes_is_refused(lab: Any) -> None:
    ebs = {"VolumeSize": 1, "VolumeType": "gp3", "DeleteOnTermination": True}
    mappings = [{"DeviceName": f"/dev/sd{letter}", "Ebs": ebs} for letter in "hijklmnop"]
    launch = partial(lab.run, "true", InstanceType="g5.48xlarge")
    assert code(partial(launch, BlockDeviceMappings=mappings)) == "AttachmentLimitExceeded"
    launch(BlockDeviceMappings=mappings[1:])


def test_a_type_on_xen_shows_no_volume_by_its_serial(lab: Any, wait_until: Any) -> None:
    volume_id = create(lab)
    script = "until [ -e ~/go ]; do sleep 0.1; done; ls $EC2SPAWNER_DEVICES >seen; mv seen ~/all"
    instance_id = running(lab, script, InstanceType="t2.micro")
    attach(lab, volume_id, instance_id)
    root = Path(lab.facts.data_dir) / "instances" / instance_id / "root"
    (root / "go").touch()
    wait_until((root / "all").exists)
    assert "Elastic_Block_Store" not in (root / "all").read_text()
    assert volume(lab, volume_id)["Attachments"][0]["State"] == "attached"
    lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)


def test_a_pending_instance_accepts_no_volume(lab: Any) -> None:
    lab.control("boot", {"seconds": 600})
    instance_id = lab.run()

    assert code(lambda: attach(lab, create(lab), instance_id)) == "IncorrectState"


def test_a_process_that_writes_to_a_detached_volume_is_ended(lab: Any, wait_until: Any) -> None:
    volume_id = create(lab)
    device = f"$EC2SPAWNER_DEVICES/{link_name(volume_id)}"
    instance_id = running(
        lab,
        f"until [ -d {device} ]; do sleep 0.05; done\n"
        f"setsid bash -c 'cd {device}; echo writing; while sleep 0.05; do date >> log; done' &\n"
        "exec sleep 1000",
    )
    attach(lab, volume_id, instance_id)
    wait_until((folder(lab, volume_id) / "log").exists)

    lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)

    written = (folder(lab, volume_id) / "log").read_text()
    names = [process["command"] for process in lab.processes(instance_id)]
    assert "bash" not in names
    assert "sleep" in names
    assert (folder(lab, volume_id) / "log").read_text() == written


def test_a_volume_outlives_its_instance(lab: Any) -> None:
    volume_id = create(lab)
    instance_id = running(lab)
    attach(lab, volume_id, instance_id)
    (folder(lab, volume_id) / "notebook").write_text("kept")

    lab.ec2.terminate_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "terminated")

    assert volume(lab, volume_id)["State"] == "available"
    assert (folder(lab, volume_id) / "notebook").read_text() == "kept"
    assert not (Path(lab.facts.data_dir) / "instances" / instance_id).exists()
    attach(lab, volume_id, running(lab))


def test_only_delete_volume_deletes(lab: Any) -> None:
    volume_id = create(lab)

    lab.ec2.delete_volume(VolumeId=volume_id)

    assert not folder(lab, volume_id).exists()
    assert code(lambda: volume(lab, volume_id)) == "InvalidVolume.NotFound"


def test_the_same_token_is_the_same_volume(lab: Any) -> None:
    first = create(lab, ClientToken="home-of-ada")

    assert create(lab, ClientToken="home-of-ada") == first
    assert code(lambda: create(lab, zone=1, ClientToken="home-of-ada")) == (
        "IdempotentParameterMismatch"
    )


def test_volumes_are_found_again_after_a_restart(make_lab: Any, tmp_path: Path) -> None:
    before = make_lab(data_dir=tmp_path)
    volume_id, deleted = create(before), create(before)
    instance_id = running(before)
    attach(before, volume_id, instance_id)
    (folder(before, volume_id) / "notebook").write_text("kept")
    before.ec2.create_tags(Resources=[volume_id], Tags=[{"Key": "Name", "Value": "home"}])
    before.ec2.delete_volume(VolumeId=deleted)
    account, certificate = before.facts.account, Path(before.facts.certificate).read_text()
    before.stop()

    after = make_lab(data_dir=tmp_path)

    (found,) = after.ec2.describe_volumes(
        Filters=[{"Name": "tag:ec2spawner:user", "Values": ["ada"]}]
    )["Volumes"]
    assert found["VolumeId"] == volume_id
    assert found["Size"] == 20
    assert found["State"] == "available"
    assert found["Encrypted"] is True
    assert found["AvailabilityZone"] == after.facts.zones[0]
    assert {"Key": "Name", "Value": "home"} in found["Tags"]
    assert (folder(after, volume_id) / "notebook").read_text() == "kept"
    attach(after, volume_id, running(after))
    assert after.facts.account == account
    assert Path(after.facts.certificate).read_text() == certificate


def test_a_data_directory_is_locked_by_one_process(make_lab: Any, tmp_path: Path) -> None:
    make_lab(data_dir=tmp_path)

    with pytest.raises(OSError, match="in use by another embedded EC2"):
        make_lab(data_dir=tmp_path)


# --- copies ----------------------------------------------------------------------------------


def copy_of(lab: Any, volume_id: str, **more: Any) -> Any:
    asked = {"VolumeType": "gp3", "Encrypted": True, "TagSpecifications": TAGS, **more}
    return lab.ec2.copy_volumes(SourceVolumeId=volume_id, **asked)["Volumes"][0]


def test_a_copy_has_the_files_of_a_volume_that_is_in_use(lab: Any) -> None:
    volume_id = create(lab, zone=1)
    (folder(lab, volume_id) / "notebook").write_text("as it was")
    instance_id = running(lab, SubnetId=lab.facts.subnets[1])
    attach(lab, volume_id, instance_id)

    made = copy_of(lab, volume_id, Size=30)
    (folder(lab, volume_id) / "notebook").write_text("as it is")
    assert (made["State"], made["SourceVolumeId"]) == ("creating", volume_id)
    copied = volume(lab, made["VolumeId"])
    assert (copied["AvailabilityZone"], copied["Size"]) == (lab.facts.zones[1], 30)
    assert (copied["VolumeType"], copied["Encrypted"], copied["Tags"]) == (
        *("gp3", True),
        TAGS[0]["Tags"],
    )
    assert copied["Attachments"] == []
    assert (folder(lab, made["VolumeId"]) / "notebook").read_text() == "as it was"
    lab.ec2.detach_volume(VolumeId=volume_id)
    lab.ec2.delete_volume(VolumeId=volume_id)
    assert (folder(lab, made["VolumeId"]) / "notebook").read_text() == "as it was"


def test_a_copy_is_made_once_for_a_token(lab: Any) -> None:
    volume_id = create(lab)
    before = len(lab.ec2.describe_volumes()["Volumes"])
    made = copy_of(lab, volume_id, ClientToken="copy-1")
    assert copy_of(lab, volume_id, ClientToken="copy-1")["VolumeId"] == made["VolumeId"]
    other = partial(copy_of, lab, volume_id, ClientToken="copy-1", Size=40)
    assert code(other) == "IdempotentParameterMismatch"
    assert len(lab.ec2.describe_volumes()["Volumes"]) == before + 1


def test_a_volume_has_one_copy_in_progress(lab: Any, wait_until: Any) -> None:
    volume_id = create(lab)
    copy_of(lab, volume_id)
    assert code(partial(copy_of, lab, volume_id)) == "ConcurrentCopyVolumeLimitExceeded"

    def is_copied() -> bool:
        try:
            return bool(copy_of(lab, volume_id))
        except ClientError:
            return False

    wait_until(is_copied)


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"Size": 19}, "InvalidParameterValue"),
        ({"VolumeType": "gp9"}, "UnknownVolumeType"),
        ({"MultiAttachEnabled": True}, "UnsupportedOperation"),
        ({"DryRun": True}, "DryRunOperation"),
        ({"DryRun": True, "Size": 19}, "InvalidParameterValue"),
    ],
)
def test_an_invalid_copy_is_refused(lab: Any, more: dict[str, Any], refused: str) -> None:
    volume_id = create(lab)
    before = len(lab.ec2.describe_volumes()["Volumes"])
    assert code(partial(copy_of, lab, volume_id, **more)) == refused
    assert len(lab.ec2.describe_volumes()["Volumes"]) == before


def test_what_is_not_there_or_not_encrypted_is_not_copied(lab: Any) -> None:
    assert code(partial(copy_of, lab, "vol-0123456789abcdef0")) == "InvalidVolume.NotFound"
    assert code(partial(copy_of, lab, "volume")) == "InvalidParameterValue"
    plain = lab.ec2.create_volume(AvailabilityZone=lab.facts.zones[0], Size=20)["VolumeId"]
    assert code(partial(copy_of, lab, plain, Encrypted=False)) == "UnsupportedOperation"
    assert volume(lab, copy_of(lab, plain)["VolumeId"])["Encrypted"]


# --- snapshots -------------------------------------------------------------------------------


def snapshot(lab: Any, volume_id: str) -> str:
    return lab.ec2.create_snapshot(
        VolumeId=volume_id, TagSpecifications=[{**TAGS[0], "ResourceType": "snapshot"}]
    )["SnapshotId"]


def shown_snapshot(lab: Any, snapshot_id: str) -> Any:
    return lab.ec2.describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"][0]


def test_a_volume_from_a_snapshot_has_its_files_in_any_zone(lab: Any, wait_until: Any) -> None:
    volume_id = create(lab)
    (folder(lab, volume_id) / "notebook").write_text("as it was")
    (folder(lab, volume_id) / "link").symlink_to("notebook")
    snapshot_id = snapshot(lab, volume_id)
    (folder(lab, volume_id) / "notebook").write_text("as it is")

    begun = shown_snapshot(lab, snapshot_id)
    assert (begun["State"], begun["VolumeSize"]) == ("pending", 20)
    assert begun["Progress"] != "100%"
    assert code(lambda: create(lab, zone=1, SnapshotId=snapshot_id)) == "IncorrectState"
    wait_until(lambda: shown_snapshot(lab, snapshot_id)["State"] == "completed")
    done = shown_snapshot(lab, snapshot_id)
    assert done["Progress"] == "100%"
    assert done["FullSnapshotSizeInBytes"] >= len("as it was")
    found = lab.ec2.describe_snapshots(
        OwnerIds=["self"], Filters=[{"Name": "tag:ec2spawner:user", "Values": ["ada"]}]
    )["Snapshots"]
    assert snapshot_id in {each["SnapshotId"] for each in found}

    copied = create(lab, zone=1, SnapshotId=snapshot_id)
    assert (folder(lab, copied) / "notebook").read_text() == "as it was"
    assert (folder(lab, copied) / "link").readlink() == Path("notebook")
    assert volume(lab, copied)["SnapshotId"] == snapshot_id
    assert code(
        lambda: lab.ec2.create_volume(
            AvailabilityZone=lab.facts.zones[0], Size=19, SnapshotId=snapshot_id
        )
    ) == ("InvalidParameterValue")
    lab.ec2.delete_volume(VolumeId=volume_id)
    lab.ec2.delete_snapshot(SnapshotId=snapshot_id)
    assert code(lambda: shown_snapshot(lab, snapshot_id)) == "InvalidSnapshot.NotFound"
    assert not (Path(lab.facts.data_dir) / "snapshots" / snapshot_id).exists()
    assert (folder(lab, copied) / "notebook").read_text() == "as it was"


def test_pending_snapshots_of_a_volume_are_limited(lab: Any) -> None:
    volume_id = create(lab)
    made = [snapshot(lab, volume_id) for _ in range(5)]
    assert code(lambda: snapshot(lab, volume_id)) == "ConcurrentSnapshotLimitExceeded"
    for snapshot_id in made:
        lab.ec2.delete_snapshot(SnapshotId=snapshot_id)


def test_a_volume_can_be_modified_once_in_six_hours(lab: Any, wait_until: Any) -> None:
    volume_id = create(lab)
    snapshot_id = snapshot(lab, volume_id)

    def grow(size: int) -> Any:
        return lab.ec2.modify_volume(VolumeId=volume_id, Size=size)["VolumeModification"]

    assert code(lambda: grow(19)) == "InvalidParameterValue"
    assert grow(40)["ModificationState"] == "modifying"
    assert code(lambda: grow(50)) == "IncorrectModificationState"
    wait_until(lambda: volume(lab, volume_id)["Size"] == 40)
    assert code(lambda: grow(50)) == "VolumeModificationRateExceeded"
    assert shown_snapshot(lab, snapshot_id)["VolumeSize"] == 20


def test_snapshots_are_found_again_after_a_restart(make_lab: Any, tmp_path: Path) -> None:
    before = make_lab(data_dir=tmp_path)
    volume_id = create(before)
    (folder(before, volume_id) / "notebook").write_text("kept")
    snapshot_id = snapshot(before, volume_id)
    before.ec2.delete_volume(VolumeId=volume_id)
    before.stop()

    after = make_lab(data_dir=tmp_path)

    shown = shown_snapshot(after, snapshot_id)
    assert (shown["State"], shown["VolumeId"], shown["VolumeSize"]) == ("completed", volume_id, 20)
    assert shown["Tags"] == TAGS[0]["Tags"]
    restored = create(after, SnapshotId=snapshot_id)
    assert (folder(after, restored) / "notebook").read_text() == "kept"


WRITER = """
device=$EC2SPAWNER_DEVICES/{link}
until [ -d "$device" ]; do sleep 0.05; done
home=$EC2SPAWNER_NOTEBOOK_HOME
mount() {{ rm -df "$home"; ln -s "$(readlink -f "$device")" "$home"; }}
unmount() {{ sync; rm "$home"; }}
write() {{ echo "$1" > "$home/file"; }}
{script}
echo written
exec sleep 1000
"""
"""A home is mounted by a link, as the agent does it."""


def written(lab: Any, script: str) -> tuple[str, str]:
    """Ids of a volume and of the instance on which the script has run."""
    volume_id = create(lab)
    instance_id = running(lab, WRITER.format(link=link_name(volume_id), script=script))
    attach(lab, volume_id, instance_id)
    lab.console_says(instance_id, "written")
    return volume_id, instance_id


@pytest.mark.parametrize(
    ("script", "left"),
    [
        ("mount; write first", None),
        ("mount; write first; sync; write second", "first"),
        ("mount; write first; unmount; mount; write second", "first"),
        ("mount; write first; sync; rm $home/file", "first"),
    ],
)
def test_what_was_not_flushed_is_lost_with_a_mounted_device(
    lab: Any, script: str, left: str | None
) -> None:
    volume_id, instance_id = written(lab, script)
    lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)
    file = folder(lab, volume_id) / "file"
    assert (file.read_text().strip() if file.exists() else None) == left
    lost = {"instance_id": instance_id, "volume_id": volume_id}
    assert lost in lab.control("detached-while-mounted")


def test_an_unmounted_volume_loses_nothing(lab: Any) -> None:
    volume_id, instance_id = written(lab, "mount; write first; unmount")
    lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)
    assert (folder(lab, volume_id) / "file").read_text() == "first\n"
    lost = lab.control("detached-while-mounted")
    assert volume_id not in {each["volume_id"] for each in lost}


@pytest.mark.parametrize("action", ["stop_instances", "terminate_instances"])
def test_an_instance_that_shuts_down_flushes_first(lab: Any, wait_until: Any, action: str) -> None:
    volume_id, instance_id = written(lab, "mount; write first")
    getattr(lab.ec2, action)(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "stopped" if action == "stop_instances" else "terminated")
    if action == "stop_instances":
        lab.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)
    wait_until(lambda: volume(lab, volume_id)["State"] == "available")
    assert (folder(lab, volume_id) / "file").read_text() == "first\n"
    lost = lab.control("detached-while-mounted")
    assert volume_id not in {each["volume_id"] for each in lost}
