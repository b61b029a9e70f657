"""What an instance mounts besides a home on EBS: folders in place of disks, and real file systems
where root allows."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.agent.metadata.identity import Identity
from ec2spawner.agent.mounts import efs as efs_module
from ec2spawner.agent.mounts import mount_points as places_module
from ec2spawner.agent.mounts.data_volume import DataVolume
from ec2spawner.agent.mounts.efs import EfsHome
from ec2spawner.agent.mounts.home import HomeError
from ec2spawner.agent.mounts.instance_store import Scratch
from ec2spawner.agent.mounts.mount_points import (
    MountError,
    chown_contents,
    make_mount_point,
    unmount,
)
from ec2spawner.agent.mounts.mounts import Mounts
from ec2spawner.agent.settings import NotebookUser, Settings
from ec2spawner.wire import BucketMount, DataMount, HomeMount, IdlePolicy, LeaseGrant

VOLUME = "vol-0123456789abcdef0"
DEVICE = "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"
DISK = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS0123456789ABCDEF0"
SOMEONE = 54321

IDENTITY = Identity(json.dumps({"region": "eu-west-1"}), "", "i-1", "g5.xlarge", "10.0.0.1")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A simulated machine below `tmp_path`."""
    for name in ("devices", "root", "run", "file-systems/fs-0a1b2c3d"):
        (tmp_path / name).mkdir(parents=True)
    return Settings(
        hub_api_url="",
        metadata_endpoint="",
        metadata_is_amazon=False,
        devices=tmp_path / "devices",
        root=tmp_path / "root",
        file_systems=tmp_path / "file-systems",
        user=NotebookUser("ada", os.getuid(), os.getgid(), (), tmp_path / "home", "/bin/sh"),
        run_dir=tmp_path / "run",
        poweroff=("true",),
        simulated_gpu=None,
    )


def grant(**changes: object) -> LeaseGrant:
    plain = LeaseGrant(
        lease_id="lease-1",
        lease_token="",
        environment={},
        command=[],
        base_url="/",
        port=8888,
        home=HomeMount(kind="none"),
        idle=IdlePolicy(),
    )
    return plain.model_copy(update=changes)


def plug_in(settings: Settings, name: str, *files: str) -> Path:
    """A folder in place of a disk."""
    folder = settings.devices.parent / f"{name}-folder"
    folder.mkdir()
    for file in files:
        (folder / file).write_text(file)
    (settings.devices / name).symlink_to(folder)
    return folder


# --- places -------------------------------------------------------------------------------------


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    place = make_mount_point(tmp_path, "/data/imagenet/2012", tmp_path / "home/ada")
    assert place.is_dir()
    assert make_mount_point(tmp_path, "/data/imagenet/2012", tmp_path / "home/ada") == place


@pytest.mark.parametrize("path", ["/", "", "/home/ada", "/home", "/home/ada/data", "/data/../etc"])
def test_no_mount_covers_the_home_or_leaves_its_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(MountError, match="not a valid mount point"):
        make_mount_point(tmp_path, path, tmp_path / "home/ada")


def test_no_symlink_in_the_path_is_followed(tmp_path: Path) -> None:
    (tmp_path / "home/ada").mkdir(parents=True)
    (tmp_path / "data").symlink_to(tmp_path / "home/ada")
    (tmp_path / "scratch").symlink_to(tmp_path / "home/ada")
    for path in ("/data/imagenet", "/scratch"):
        with pytest.raises(MountError, match="is a link"):
            make_mount_point(tmp_path, path, tmp_path / "home/ada")
    assert not list((tmp_path / "home/ada").iterdir())


def test_a_world_writable_parent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    with pytest.raises(MountError, match="other users could replace"):
        make_mount_point(tmp_path, "/data/imagenet", tmp_path / "home")


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: giving a folder away needs root")
def test_a_parent_writable_by_a_group_of_users_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o775)
    make_mount_point(tmp_path, "/data/ours", tmp_path / "home")
    os.chown(tmp_path / "data", 0, SOMEONE)
    with pytest.raises(MountError, match="other users could replace"):
        make_mount_point(tmp_path, "/data/imagenet", tmp_path / "home")


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: giving a folder away needs root")
def test_a_folder_replaced_by_a_symlink_during_chown_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, victim = tmp_path / "home", tmp_path / "etc"
    for folder in (home / "work", victim):
        folder.mkdir(parents=True)
        for name in ("passwd", "shadow"):
            (folder / name).touch()
    chown = os.chown

    def swapped(path: str, *owner: int, **how: Any) -> None:
        """Its owner is quick: between one file and the next there is a link in place of both."""
        chown(path, *owner, **how)
        if Path(path).name in {"passwd", "shadow"} and not (home / "work").is_symlink():
            (home / "work").rename(tmp_path / "elsewhere")
            (home / "work").symlink_to(victim)

    monkeypatch.setattr(os, "chown", swapped)
    chown_contents(home, SOMEONE, SOMEONE)
    assert (home / "work").is_symlink()
    assert {file.stat().st_uid for file in victim.iterdir()} == {0}
    assert {file.stat().st_uid for file in (tmp_path / "elsewhere").iterdir()} == {SOMEONE}


def put_in_front(monkeypatch: pytest.MonkeyPatch, folder: Path, **programs: str) -> None:
    """Shell scripts in place of programs of the system."""
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def say_mounted(monkeypatch: pytest.MonkeyPatch, folder: Path, *places: Path) -> None:
    """In place of the kernel's list of mounts."""
    escaped = [str(place).replace(" ", r"\040") for place in places]
    lines = [f"1 2 0:3 / {place} rw - nfs4 server:/ rw" for place in escaped]
    (folder / "mountinfo").write_text("\n".join(lines))
    monkeypatch.setattr(places_module, "MOUNTS", folder / "mountinfo")


async def test_mounts_of_a_dead_process_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system in user space whose program was killed answers ENOTCONN to everything."""
    place = tmp_path / "my data"
    put_in_front(monkeypatch, tmp_path, umount=f'echo "$@" >{tmp_path}/said')
    say_mounted(monkeypatch, tmp_path, place)
    assert await unmount(place) == ""
    assert (tmp_path / "said").read_text() == f"--recursive {place}\n"
    (tmp_path / "said").unlink()
    assert await unmount(tmp_path / "nothing") == ""
    assert not (tmp_path / "said").exists()


async def test_an_unresponsive_file_server_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing touches what hangs: not the look whether it is mounted, and no flush."""
    place = tmp_path / "home"
    hang = f'echo "$0 $@" >>{tmp_path}/said; case "$1" in --lazy) exit 0;; esac; exec sleep 900'
    put_in_front(monkeypatch, tmp_path, umount=hang, sync=hang)
    say_mounted(monkeypatch, tmp_path, place)

    def stuck(path: Path) -> None:
        assert path != place, "reading it may hang"

    monkeypatch.setattr(Path, "lstat", stuck)
    async with asyncio.timeout(120):
        assert "took more than" in await unmount(place, 5.0)
    assert "umount has hung" in caplog.text
    first, last = (tmp_path / "said").read_text().splitlines()
    assert first.endswith(f"umount --recursive {place}")
    assert last.endswith(f"umount --lazy --no-canonicalize {place}")


# --- data ---------------------------------------------------------------------------------------


async def test_data_is_mounted_for_the_next_lease_too(settings: Settings) -> None:
    plug_in(settings, DEVICE, "cats.jpg")
    mount = DataMount(volume_id=VOLUME, path="/data/imagenet")
    for _ in range(2):
        volume = DataVolume(mount, settings)
        await volume.mount()
        assert (settings.root / "data/imagenet/cats.jpg").read_text() == "cats.jpg"
        await volume.release()


async def test_a_server_starts_without_unmountable_data_and_shows_a_notice(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    bucket = BucketMount(bucket="my-data", path="/data/my-data")
    mounts = Mounts(
        grant(data=[DataMount(volume_id="vol-../x", path="/data/a")], buckets=[bucket]),
        settings,
        IDENTITY,
    )
    await mounts.mount()
    assert settings.user.home.is_dir()
    data, of_bucket = sorted(mounts.missing, key=len)
    assert "/data/a is missing" in data
    assert "the bucket my-data at /data/my-data is missing" in of_bucket
    assert "install Mountpoint" in of_bucket
    await mounts.release()


async def test_a_server_does_not_start_without_its_home(settings: Settings) -> None:
    plug_in(settings, DEVICE)
    home = HomeMount(kind="efs", file_system="fs-0a1b2c3d", directory="../../etc")
    data = [DataMount(volume_id=VOLUME, path="/data/a")]
    with pytest.raises(HomeError, match="names no folder"):
        await Mounts(grant(home=home, data=data), settings, IDENTITY).mount()


# --- scratch ------------------------------------------------------------------------------------


async def test_a_mounted_home_is_recorded_and_not_released_meanwhile(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    sync = tmp_path / "bin" / "sync"
    sync.parent.mkdir()
    waits = f"while [ ! -e {gate} ]; do sleep 0.01; done"
    sync.write_text(f'#!/bin/sh\necho "$@" >> {log}\n{waits}\necho written >> {log}\n')
    sync.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sync.parent}:{os.environ['PATH']}")
    plug_in(settings, DEVICE)
    mounts = Mounts(grant(home=HomeMount(kind="ebs", volume_id=VOLUME)), settings, IDENTITY)
    await mounts.flush()
    assert not log.exists(), "there is no home yet"
    await mounts.mount()
    flushing = asyncio.create_task(mounts.flush())
    async with asyncio.timeout(90):
        while not log.exists():
            await asyncio.sleep(0.01)
        releasing = asyncio.create_task(mounts.release())
        await asyncio.sleep(0.1)
        assert not releasing.done()
        gate.touch()
        await asyncio.gather(flushing, releasing)
    await mounts.flush()
    said = [f"--file-system {settings.user.home}", "written"] * 2
    assert log.read_text().splitlines() == said, "while it was there, and for its end"
    nothing_lasts = Mounts(grant(), settings, IDENTITY)
    await nothing_lasts.mount()
    await nothing_lasts.flush()
    assert log.read_text().splitlines() == said


async def test_scratch_belongs_to_the_user_and_has_a_warning(settings: Settings) -> None:
    plug_in(settings, DISK)
    (settings.devices / f"{DISK}_1").symlink_to(settings.devices / DISK)
    mounts = Mounts(grant(scratch="/scratch"), settings, IDENTITY)
    await mounts.mount()
    place = settings.root / "scratch"
    assert mounts.environment == {"SCRATCH": str(place)}
    assert "do not last" in (place / "README.txt").read_text()
    assert not (settings.root / "scratch-2").exists()
    (place / "README.txt").unlink()
    (place / "cache").touch()
    again = Mounts(grant(scratch="/scratch"), settings, IDENTITY)
    await again.mount()
    assert [each.name for each in place.iterdir()] == ["cache"]


async def test_an_instance_without_instance_store_has_no_scratch(settings: Settings) -> None:
    mounts = Mounts(grant(scratch="/scratch"), settings, IDENTITY)
    await mounts.mount()
    assert (mounts.environment, mounts.missing) == ({}, [])
    assert not (settings.root / "scratch").exists()


# --- EFS ----------------------------------------------------------------------------------------


def efs(
    settings: Settings,
    directory: str = "homes/ada",
    region: str = "eu-west-1",
    **changes: object,
) -> EfsHome:
    mount = HomeMount(kind="efs", file_system="fs-0a1b2c3d", directory=directory)
    return EfsHome(mount.model_copy(update=changes), settings, region)


async def test_a_missing_file_system_is_not_created(settings: Settings) -> None:
    with pytest.raises(HomeError, match="fs-missing has no mount target"):
        await efs(settings, file_system="fs-missing").mount()
    assert settings.file_systems is not None
    assert not (settings.file_systems / "fs-missing").exists()


async def test_a_home_on_efs_is_found_again_from_another_instance(settings: Settings) -> None:
    home = efs(settings)
    await home.mount()
    (settings.user.home / "notes.txt").write_text("kept")
    await home.release()
    other = settings.user.home.with_name("home-elsewhere")
    there = replace(settings, user=replace(settings.user, home=other))
    await efs(there).mount()
    assert (other / "notes.txt").read_text() == "kept"
    assert other.resolve().stat().st_mode & 0o777 == 0o700


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs that an image has before this machine's own: its firewall stays."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    add_program(folder, "iptables", f'echo "$@" >>{tmp_path}/firewall')
    add_program(folder, "ip6tables")
    add_program(folder, "sudo", "echo User ada is not allowed to run sudo on here.")
    return folder


def add_program(folder: Path, name: str, script: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def with_efs(settings: Settings) -> Settings:
    user = replace(settings.user, uid=SOMEONE, gid=SOMEONE)
    return replace(settings, file_systems=None, user=user)


async def test_nothing_is_mounted_for_a_user_who_can_become_root(
    settings: Settings, programs: Path
) -> None:
    add_program(programs, "sudo", "echo User ada may run the following commands: ALL")
    add_program(programs, "mount", "echo mounted; exit 32")
    with pytest.raises(HomeError, match=r'user ada can become root here: sudo\. .*"ebs"'):
        await efs(with_efs(settings)).mount()
    assert not (settings.run_dir / "efs").exists()


async def test_nothing_is_mounted_that_users_could_reach_without_the_mount(
    settings: Settings, programs: Path
) -> None:
    add_program(programs, "iptables", "echo no such table; exit 3")
    with pytest.raises(HomeError, match=r"iptables does not keep users from .* no such table"):
        await efs(with_efs(settings)).mount()
    assert not (settings.run_dir / "efs").exists()


async def test_without_tls_it_is_not_mounted_unless_the_admin_allows_it(
    settings: Settings, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(efs_module, "SYSTEM_PATH", "/nonexistent")
    real = with_efs(settings)
    with pytest.raises(HomeError, match=r'amazon-efs-utils.*aws/efs-utils.*"tls": False'):
        await efs(real).mount()


@pytest.mark.parametrize("tls", [True, False])
async def test_an_image_without_an_nfs_client_says_which_package_it_needs(
    settings: Settings, programs: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    """Ubuntu's image has none, and `mount` would speak of a bad superblock."""
    add_program(programs, "mount.efs")
    monkeypatch.setattr(efs_module, "SYSTEM_PATH", str(programs))
    with pytest.raises(HomeError, match=r"nfs-common of Ubuntu.*nfs-utils of Amazon Linux"):
        await efs(with_efs(settings), tls=tls).mount()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "-t efs -o tls,nodev,nosuid,noatime fs-0a1b2c3d:/"),
        ({"iam": True}, "-o tls,nodev,nosuid,noatime,iam fs-"),
        ({"access_point": "fsap-0a1b2c3d"}, ",accesspoint=fsap-0a1b2c3d fs-"),
        ({"tls": False}, "nodev,nosuid,noatime fs-0a1b2c3d.efs.eu-west-1.amazonaws.com:/"),
        ({"tls": False, "region": "cn-north-1"}, ".efs.cn-north-1.amazonaws.com.cn:/"),
        ({"tls": False}, "-t nfs4 -o nfsvers=4.1,"),
    ],
)
async def test_mount_options_of_the_file_system(
    settings: Settings,
    tmp_path: Path,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    said: str,
) -> None:
    """By a `mount` that prints its arguments, and fails."""
    for name in ("mount", "mount.efs", "mount.nfs4"):
        add_program(programs, name, 'echo "$@"\nexit 32')
    monkeypatch.setattr(efs_module, "SYSTEM_PATH", str(programs))
    with pytest.raises(HomeError, match="cannot be mounted") as caught:
        await efs(with_efs(settings), **changes).mount()
    assert said in str(caught.value)
    assert "--uid-owner 1-4294967294 --jump REJECT" in (tmp_path / "firewall").read_text()
    assert (settings.run_dir / "efs").stat().st_mode & 0o777 == 0o700


# --- with root's rights -------------------------------------------------------------------------


async def command(*argv: str | Path) -> None:
    await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True)


async def test_data_is_read_and_never_written(settings: Settings, disk: Path) -> None:
    await command("mkfs.ext4", "-q", disk)
    (settings.devices / DEVICE).symlink_to(disk)
    volume = DataVolume(DataMount(volume_id=VOLUME, path="/data/a"), settings)
    await volume.mount()
    place = settings.root / "data/a"
    assert os.path.ismount(place)
    with pytest.raises(OSError, match="Read-only"):
        (place / "mine").touch()
    await volume.release()
    assert not os.path.ismount(place)


async def test_a_snapshot_without_a_file_system_is_an_error(settings: Settings, disk: Path) -> None:
    (settings.devices / DEVICE).symlink_to(disk)
    with pytest.raises(MountError, match="holds no file system"):
        await DataVolume(DataMount(volume_id=VOLUME, path="/data/a"), settings).mount()


async def test_a_fast_disk_is_formatted_once_for_each_start(settings: Settings, disk: Path) -> None:
    (settings.devices / DISK).symlink_to(disk)
    machine = replace(settings, user=replace(settings.user, uid=SOMEONE, gid=SOMEONE))
    for expected in (["README.txt", "lost+found"], ["README.txt", "cache", "lost+found"]):
        scratch = Scratch("/scratch", machine)
        await scratch.mount()
        place = settings.root / "scratch"
        assert os.path.ismount(place)
        assert place.stat().st_uid == SOMEONE
        assert sorted(each.name for each in place.iterdir()) == expected
        (place / "cache").touch()
        await scratch.release()
        assert not os.path.ismount(place)


async def test_a_disk_in_use_by_the_image_is_not_formatted(settings: Settings, disk: Path) -> None:
    await command("mkfs.ext4", "-q", "-L", "somebodys", disk)
    (settings.devices / DISK).symlink_to(disk)
    with pytest.raises(MountError, match="in use by the image"):
        await Scratch("/scratch", settings).mount()


async def test_a_file_system_that_the_image_made_of_its_disks_is_shared(
    settings: Settings, disk: Path, tmp_path: Path
) -> None:
    own = tmp_path / "opt"
    own.mkdir()
    await command("mkfs.ext4", "-q", "-L", "images", disk)
    await command("mount", disk, own)
    (settings.devices / DISK).symlink_to(disk)
    scratch = Scratch("/scratch", settings, images_own=own)
    await scratch.mount()
    (settings.root / "scratch" / "cache").touch()
    assert (own / "scratch" / "cache").exists()
    await scratch.release()


async def test_scratch_follows_no_symlink_of_its_user(
    settings: Settings, disk: Path, tmp_path: Path
) -> None:
    """Some images let everybody write to where they mount their disks."""
    own, target = tmp_path / "opt", tmp_path / "etc"
    own.mkdir()
    target.mkdir()
    await command("mkfs.ext4", "-q", "-L", "images", disk)
    await command("mount", disk, own)
    (own / "scratch").symlink_to(target)
    (settings.devices / DISK).symlink_to(disk)
    user = replace(settings.user, uid=SOMEONE, gid=SOMEONE)
    with pytest.raises(MountError, match="is a link"):
        await Scratch("/scratch", replace(settings, user=user), images_own=own).mount()
    assert target.stat().st_uid == os.getuid()
    assert not list(target.iterdir())


async def test_scratch_recovers_from_an_interrupted_setup(settings: Settings) -> None:
    disk = plug_in(settings, DISK, "README.txt")
    user = replace(settings.user, uid=SOMEONE, gid=SOMEONE)
    mounts = Mounts(grant(scratch="/scratch"), replace(settings, user=user), IDENTITY)
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: giving a folder away needs root")
    await mounts.mount()
    assert mounts.missing == []
    assert disk.stat().st_uid == SOMEONE


@pytest.fixture
def shared(
    settings: Settings,
    disk: Path,
    tmp_path: Path,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Settings]:
    """A disk that `mount -t efs` mounts in place of a file system of EFS."""
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    add_program(
        programs,
        "mount",
        'for last; do :; done\n[ "$2" = efs ] || exec /bin/mount "$@"\n'
        f'exec /bin/mount -o nodev,nosuid {disk} "$last"',
    )
    for name in ("mount.efs", "mount.nfs4"):
        add_program(programs, name)
    monkeypatch.setattr(efs_module, "SYSTEM_PATH", str(programs))
    tmp_path.chmod(0o755)
    yield with_efs(settings)
    subprocess.run(["umount", "--recursive", settings.user.home], check=False, capture_output=True)
    subprocess.run(["umount", settings.run_dir / "efs"], check=False, capture_output=True)


async def test_the_users_folder_is_shown_as_the_home_and_no_other(shared: Settings) -> None:
    home = efs(shared)
    await home.mount()
    assert os.path.ismount(shared.user.home)
    facts = shared.user.home.stat()
    assert (facts.st_uid, facts.st_mode & 0o777) == (SOMEONE, 0o700)
    (shared.user.home / "notes.txt").write_text("kept")
    await home.release()
    assert not os.path.ismount(shared.user.home)
    assert not os.path.ismount(shared.run_dir / "efs")

    await efs(shared, "homes/bob").mount()
    assert not (shared.user.home / "notes.txt").exists()
    await efs(shared, "homes/bob").release()
    again = efs(shared)
    await again.mount()
    assert (shared.user.home / "notes.txt").read_text() == "kept"
    await again.release()


async def test_a_worker_reads_the_home_and_does_not_write_to_it(shared: Settings) -> None:
    server = efs(shared)
    await server.mount()
    (shared.user.home / "train.py").write_text("print('epoch 1')")
    await server.release()

    worker = efs(shared, read_only=True)
    await worker.mount()
    assert (shared.user.home / "train.py").read_text() == "print('epoch 1')"
    with pytest.raises(OSError, match="Read-only file system"):
        (shared.user.home / "train.py").write_text("changed")
    await worker.release()
    assert not os.path.ismount(shared.user.home)


async def test_a_symlink_left_in_the_file_system_is_not_followed(
    shared: Settings, disk: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "etc"
    victim.mkdir()
    (tmp_path / "look").mkdir()
    await command("mount", disk, tmp_path / "look")
    (tmp_path / "look" / "homes").mkdir()
    (tmp_path / "look" / "homes" / "ada").symlink_to(victim)
    await command("umount", tmp_path / "look")
    with pytest.raises(HomeError, match="is a link"):
        await efs(shared).mount()
    await efs(shared).release()
    assert victim.stat().st_uid == os.getuid()
    assert not os.path.ismount(shared.run_dir / "efs")


async def test_the_folder_of_another_user_is_refused(shared: Settings) -> None:
    await efs(shared).mount()
    await efs(shared).release()
    other = replace(shared, user=replace(shared.user, uid=SOMEONE + 1))
    with pytest.raises(HomeError, match=f"belongs to user {SOMEONE}"):
        await efs(other).mount()
    await efs(other).release()
