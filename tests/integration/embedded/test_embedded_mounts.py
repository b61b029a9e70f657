"""What a simulated instance can mount: volumes from snapshots, its own fast disks, buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

SERIAL = "$EC2SPAWNER_DEVICES/nvme-Amazon_EC2_NVMe_Instance_Storage_"


def with_data(snapshot: str) -> list[dict[str, Any]]:
    ebs = {"SnapshotId": snapshot, "VolumeType": "gp3", "DeleteOnTermination": True}
    return [{"DeviceName": "/dev/sdp", "Ebs": ebs}]


@pytest.fixture
def snapshot(lab: Any) -> str:
    """A snapshot with one file that only its maker may read."""
    zone = lab.facts.zones[0]
    volume = lab.ec2.create_volume(AvailabilityZone=zone, Size=1, VolumeType="gp3")["VolumeId"]
    file = Path(lab.facts.data_dir) / "volumes" / volume / "cat.txt"
    file.write_text("a cat")
    file.chmod(0o600)
    made: str = lab.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    return made


def test_a_volume_from_a_snapshot_is_attached_at_boot_and_deleted_with_its_instance(
    lab: Any, snapshot: str, wait_until: Any
) -> None:
    script = "cat $EC2SPAWNER_DEVICES/*Elastic_Block_Store*/cat.txt; stat -Lc %a $_; echo; echo end"
    instance_id = lab.run(script, BlockDeviceMappings=with_data(snapshot))
    assert lab.console_says(instance_id, "end").split() == ["a", "cat444", "end"]
    mapped = lab.instance(instance_id)["BlockDeviceMappings"]
    [volume] = [each["Ebs"]["VolumeId"] for each in mapped if each["DeviceName"] == "/dev/sdp"]
    lab.ec2.terminate_instances(InstanceIds=[instance_id])

    def gone() -> bool:
        return volume not in {v["VolumeId"] for v in lab.ec2.describe_volumes()["Volumes"]}

    wait_until(gone)


def test_no_instance_is_launched_with_a_missing_snapshot(lab: Any) -> None:
    with pytest.raises(ClientError) as caught:
        lab.run("true", BlockDeviceMappings=with_data("snap-0123456789abcdef0"))
    assert caught.value.response["Error"]["Code"] == "InvalidSnapshot.NotFound"


def test_instance_store_disks_are_empty_at_each_start(lab: Any, wait_until: Any) -> None:
    script = f"cd {SERIAL}*; echo $(ls | wc -l) files; touch cache; echo end"
    instance_id = lab.run(script, InstanceType="g4dn.xlarge")
    assert "0 files" in lab.console_says(instance_id, "end")
    store = Path(lab.facts.data_dir) / "instances" / instance_id / "instance-store"
    assert len(list(store.glob("*/cache"))) == 1
    lab.ec2.stop_instances(InstanceIds=[instance_id])
    wait_until(lambda: lab.instance(instance_id)["State"]["Name"] == "stopped")
    lab.ec2.start_instances(InstanceIds=[instance_id])
    wait_until(lambda: len(list(store.glob("*"))) == 1 and not list(store.glob("*/cache")))

    without = lab.run(f"ls {SERIAL}* || echo none; echo end", InstanceType="t3.micro")
    assert "none" in lab.console_says(without, "end")


def test_a_bucket_is_mounted_as_mountpoint_would(lab: Any, wait_until: Any) -> None:
    lab.client("iam").create_instance_profile(InstanceProfileName="reader")
    s3 = lab.client("s3")
    s3.create_bucket(Bucket="lab-data")
    for key, body in (("a/one & two.txt", b"1"), ("a/b/three.txt", b"3"), ("other.txt", b"no")):
        s3.put_object(Bucket="lab-data", Key=key, Body=body)
    instance_id = lab.run(
        "mkdir read write\n"
        "mount-s3 --read-only --prefix a/ lab-data read && (cd read && find . -type f | sort)\n"
        "stat -c %a read read/b/three.txt\n"
        "mount-s3 --allow-delete --allow-overwrite lab-data write\n"
        "echo new > write/new.txt; rm write/other.txt\n"
        "mkdir missing; mount-s3 no-such-bucket missing || echo status $?\n"
        "echo end",
        IamInstanceProfile={"Name": "reader"},
    )
    console = lab.console_says(instance_id, "end")
    assert "./b/three.txt\n./one & two.txt\n555\n444\n" in console
    assert "status 1" in console

    def keys() -> set[str]:
        return {each["Key"] for each in s3.list_objects_v2(Bucket="lab-data")["Contents"]}

    wait_until(lambda: keys() == {"a/one & two.txt", "a/b/three.txt", "new.txt"})


def test_a_file_system_has_mount_targets_and_survives_a_stop(make_lab: Any, tmp_path: Path) -> None:
    file_system = "fs-0a1b2c3d4e5f60718"
    described = [
        {"Name": "description", "Values": [f"EFS mount target for {file_system} (fsmt-*)"]}
    ]

    def targets(lab: Any) -> list[str]:
        found = lab.ec2.describe_network_interfaces(Filters=described)["NetworkInterfaces"]
        return sorted(each["AvailabilityZone"] for each in found)

    lab = make_lab(data_dir=tmp_path)
    assert targets(lab) == []
    for _ in range(2):
        lab.control("file-systems", {"file_system": file_system})
        assert targets(lab) == sorted(lab.facts.zones)
    assert lab.ask("file-systems", {"file_system": "../homes"})[0] == 400
    lab.stop()
    assert targets(make_lab(data_dir=tmp_path)) == sorted(lab.facts.zones)
