"""What an admin may mount, and what is refused before it costs anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.config import ConfigError, Options, validate_options
from ec2spawner.core.names import home_folder
from ec2spawner.hub.spawn.lease_request import Server, mounts_of
from ec2spawner.provisioner.model.cloud.launch import DATA_DEVICES, DataVolume, LaunchSpec
from ec2spawner.provisioner.model.launch_key import base_key_of
from ec2spawner.provisioner.model.leases.mounts import data_mounts
from ec2spawner.wire import DataMount, Market

DATA = {"snapshot": "snap-0a1b2c3d", "path": "/data/imagenet"}
BUCKET = {"bucket": "my-data", "path": "/data/my-data"}
EFS = {"kind": "efs", "file_system": "fs-0a1b2c3d"}


def options(**changes: Any) -> Options:
    base = {
        "region": "us-east-1",
        "subnets": ["subnet-1a"],
        "image": "ami-0a1b2c3d",
        "instance_profile": "notebooks",
    }
    return validate_options(base | changes, cleanup_servers=False, environ={})


def problems(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        options(**changes)
    return str(caught.value)


@pytest.mark.parametrize("name", ["t2.micro", "p3.2xlarge"])
def test_a_named_type_that_cannot_show_a_home_is_refused(name: str) -> None:
    """On Xen no volume has a serial: a start would wait for its home until it fails."""
    old = {"display_name": "Old", "instance_types": ["g4dn.xlarge", name]}
    said = problems(profile_list=[old])
    assert f'profile_list[0].instance_types ("Old"): {name} is not on AWS\'s Nitro System' in said
    options(profile_list=[old], home={"kind": "none"})


def test_scratch_is_on_and_can_be_moved_and_turned_off() -> None:
    assert options().scratch == "/scratch"
    assert options(scratch="/mnt/fast").scratch == "/mnt/fast"
    assert not options(scratch=False).scratch


@pytest.mark.parametrize(
    "path",
    [
        *("data", "/", "/data/", "/data//x", "/data/../etc", "/data/.hidden", "/data/a b"),
        *("/home/ada/data", "/tmp/x", "/etc", "/usr/data", "/data/ä"),
    ],
)
def test_an_invalid_or_shared_mount_path_is_refused(path: str) -> None:
    for changes in (
        {"data_volumes": [DATA | {"path": path}]},
        {"buckets": [BUCKET | {"path": path}]},
        {"scratch": path},
    ):
        said = problems(**changes)
        assert f'"{path}" is' in said
        assert "/data/imagenet" in said


@pytest.mark.parametrize("name", ["My-Data", "a", "a..b", "192.168.1.1", "-a-", "s3://my-data"])
def test_an_invalid_bucket_name_is_refused(name: str) -> None:
    assert "is no name of an S3 bucket" in problems(buckets=[BUCKET | {"bucket": name}])


@pytest.mark.parametrize(("prefix", "fix"), [("/a/", '"a/"'), ("a", '"a/"')])
def test_a_prefix_is_a_folder(prefix: str, fix: str) -> None:
    assert f"Fix: write {fix}" in problems(buckets=[BUCKET | {"prefix": prefix}])


@pytest.mark.parametrize("snapshot", ["", "snap", "vol-0a1b2c3d", "snap-XYZ"])
def test_only_snapshot_ids_are_accepted(snapshot: str) -> None:
    assert "data_volumes[0].snapshot" in problems(data_volumes=[DATA | {"snapshot": snapshot}])


def test_overlapping_mounts_of_hub_and_profile_are_refused() -> None:
    over = BUCKET | {"path": "/data/imagenet/more"}
    assert "mounted over each other" in problems(data_volumes=[DATA], buckets=[over])
    assert "mounted over each other" in problems(data_volumes=[DATA, DATA])
    assert "mounted over each other" in problems(scratch="/data", buckets=[BUCKET])
    profile = {"display_name": "T4", "gpu": "T4", "buckets": [over]}
    said = problems(data_volumes=[DATA], profile_list=[profile])
    assert 'c.EC2Spawner.profile_list[0] ("T4")' in said
    # A name that begins alike is another folder.
    options(data_volumes=[DATA], buckets=[BUCKET | {"path": "/data/imagenet2"}])


def test_too_many_volumes_for_an_instance_are_refused() -> None:
    many = [DATA | {"path": f"/data/{n}"} for n in range(len(DATA_DEVICES) + 1)]
    options(data_volumes=many[:-1])
    assert f"{len(DATA_DEVICES)} at most" in problems(data_volumes=many)


def test_buckets_need_a_role() -> None:
    assert "c.EC2Spawner.instance_profile" in problems(buckets=[BUCKET], instance_profile="")


def test_a_home_on_efs_needs_all_its_options() -> None:
    assert options(home=EFS).home.tls
    assert '"file_system": "fs-..."' in problems(home={"kind": "efs"})
    assert "is no id" in problems(home=EFS | {"file_system": "vol-1"})
    assert "its kind is ebs" in problems(home=EFS | {"kind": "ebs"})
    access_point = {"access_point": "fsap-0a1b2c3d"}
    options(home=EFS | access_point)
    assert "only over TLS" in problems(home=EFS | access_point | {"tls": False})
    assert "no folder" in problems(home=EFS | {"root": "/../x"})


def test_a_lease_keeps_the_mounts_of_its_request() -> None:
    profile = {"display_name": "T4", "gpu": "T4", "buckets": [BUCKET | {"prefix": "a/"}]}
    given_ = options(home=EFS, profile_list=[profile])
    mounts = mounts_of(Server("Ada L.", ""), given_, given_.profiles[0])
    assert mounts.efs is not None
    assert mounts.efs.directory == f"homes/{home_folder('Ada L.', '')}"
    assert mounts.efs.iam
    assert [(each.bucket, each.prefix, each.read_only) for each in mounts.buckets] == [
        ("my-data", "a/", True)
    ]
    at_the_top = options(home=EFS | {"root": "/"}, instance_profile="")
    mounts = mounts_of(Server("ada", "two"), at_the_top, at_the_top.profiles[0])
    assert mounts.efs is not None
    assert (mounts.efs.directory, mounts.efs.iam) == ("ada,two", False)


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_each_server_has_a_folder_of_its_own(one: tuple[str, str], other: tuple[str, str]) -> None:
    folders = {home_folder(*one), home_folder(*other)}
    assert len(folders) == len({one, other})
    for folder in folders:
        assert "/" not in folder
        assert folder not in {"", ".", ".."}
        assert len(folder.encode()) <= 255


def spec(*volumes: DataVolume) -> LaunchSpec:
    return LaunchSpec(
        instance_types=("g5.xlarge",),
        subnets=("subnet-1a",),
        image_id="ami-1",
        markets=(Market.SPOT,),
        disk_gib=100,
        data_volumes=volumes,
    )


def test_instances_with_other_data_are_not_interchangeable() -> None:
    cats, dogs = DataVolume("snap-1", "/data/cats"), DataVolume("snap-2", "/data/dogs")
    assert len({base_key_of(spec(*each)) for each in ([], [cats], [dogs], [cats, dogs])}) == 4


def test_data_is_found_by_its_requested_device_name() -> None:
    both = spec(DataVolume("snap-1", "/data/cats"), DataVolume("snap-2", "/data/dogs"))
    root = {"/dev/sda1": "vol-root", "/dev/sdf": "vol-home"}
    assert data_mounts(both, root | {DATA_DEVICES[0]: "vol-1"}) is None
    found = data_mounts(both, root | {DATA_DEVICES[1]: "vol-2", DATA_DEVICES[0]: "vol-1"})
    assert found == (
        DataMount(volume_id="vol-1", path="/data/cats"),
        DataMount(volume_id="vol-2", path="/data/dogs"),
    )
    assert data_mounts(spec(), root) == ()
