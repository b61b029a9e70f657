"""Homes: a directory in place of a volume, scratch, and a real file system where root allows."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.agent.mounts.home import Home, HomeError
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.wire import HomeMount

VOLUME = "vol-0123456789abcdef0"
DEVICE = "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"


@pytest.fixture
def user(tmp_path: Path) -> NotebookUser:
    return NotebookUser("ada", os.getuid(), os.getgid(), (), tmp_path / "home", "/bin/sh")


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / "devices"
    folder.mkdir()
    return folder


def ebs(devices: Path, user: NotebookUser, volume_id: str = VOLUME) -> Home:
    return Home(HomeMount(kind="ebs", volume_id=volume_id), devices, user)


async def test_a_directory_becomes_the_home(
    tmp_path: Path, devices: Path, user: NotebookUser
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "notes.txt").write_text("kept")
    (devices / DEVICE).symlink_to(volume)
    home = ebs(devices, user)
    await home.mount()
    assert (user.home / "notes.txt").read_text() == "kept"
    assert [each.name for each in volume.iterdir()] == ["notes.txt"]
    await home.release()
    await ebs(devices, user).mount()
    assert (user.home / "notes.txt").read_text() == "kept"


async def test_files_of_the_image_are_hidden_and_not_lost(
    tmp_path: Path, devices: Path, user: NotebookUser
) -> None:
    user.home.mkdir()
    (user.home / "of-the-image").touch()
    (tmp_path / "volume").mkdir()
    (devices / DEVICE).symlink_to(tmp_path / "volume")
    home = ebs(devices, user)
    await home.mount()
    assert not (user.home / "of-the-image").exists()
    assert (tmp_path / "home.image" / "of-the-image").exists()
    await home.release()
    assert [each.name for each in user.home.iterdir()] == ["of-the-image"]
    assert not user.home.is_symlink()


@pytest.mark.parametrize("kind", ["ebs", "none"])
async def test_a_new_home_is_private_and_a_mode_set_by_the_user_stays(
    tmp_path: Path, devices: Path, user: NotebookUser, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    skeleton, volume = tmp_path / "skel", tmp_path / "volume"
    skeleton.mkdir(mode=0o755)
    (skeleton / ".profile").write_text("umask 022")
    volume.mkdir(mode=0o755)
    (devices / DEVICE).symlink_to(volume)
    monkeypatch.setattr("ec2spawner.agent.mounts.home.SKELETON", skeleton)

    def home() -> Home:
        if kind == "ebs":
            return ebs(devices, user)
        return Home(HomeMount(kind="none"), devices, user)

    await home().mount()
    assert (user.home / ".profile").is_file()
    assert stat.S_IMODE(user.home.stat().st_mode) == 0o700
    user.home.chmod(0o750)
    await home().mount()
    assert stat.S_IMODE(user.home.stat().st_mode) == 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root gives files away")
async def test_what_is_in_a_new_home_belongs_to_its_user(
    tmp_path: Path, devices: Path, user: NotebookUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    skeleton, ada = tmp_path / "skel", replace(user, uid=4711, gid=4712)
    skeleton.mkdir()
    (skeleton / ".profile").touch()
    monkeypatch.setattr("ec2spawner.agent.mounts.home.SKELETON", skeleton)
    (tmp_path / "volume").mkdir()
    (devices / DEVICE).symlink_to(tmp_path / "volume")
    await ebs(devices, ada).mount()
    for path in (ada.home, ada.home / ".profile"):
        assert (path.stat().st_uid, path.stat().st_gid) == (4711, 4712)


async def test_scratch_is_the_images_own_directory(devices: Path, user: NotebookUser) -> None:
    home = Home(HomeMount(kind="none"), devices, user)
    await home.mount()
    (user.home / "model.pt").touch()
    await home.mount()
    assert (user.home / "model.pt").exists()
    await home.release()
    assert (user.home / "model.pt").exists()


@pytest.mark.parametrize("name", ["", "vol-", "../../etc/passwd", "vol-../x", "snap-1"])
async def test_only_a_volume_id_is_searched(devices: Path, user: NotebookUser, name: str) -> None:
    with pytest.raises(HomeError, match="names no volume"):
        await ebs(devices, user, name).mount()


async def test_a_regular_file_is_no_volume(
    tmp_path: Path, devices: Path, user: NotebookUser
) -> None:
    (tmp_path / "file").write_bytes(bytes(2**21))
    (devices / DEVICE).symlink_to(tmp_path / "file")
    with pytest.raises(HomeError):
        await ebs(devices, user).mount()


@pytest.fixture
def volume(disk: Path, devices: Path) -> Path:
    """A blank block device, found by its serial."""
    (devices / DEVICE).symlink_to(disk)
    return disk


async def test_a_blank_disk_is_formatted_once_and_kept(
    volume: Path, devices: Path, user: NotebookUser
) -> None:
    home = ebs(devices, user)
    await home.mount()
    assert os.path.ismount(user.home)
    assert not (user.home / "lost+found").exists()
    (user.home / "notes.txt").write_text("kept")
    await home.release()
    assert not os.path.ismount(user.home)

    again = ebs(devices, user)
    await again.mount()
    assert (user.home / "notes.txt").read_text() == "kept"
    with (user.home / "open").open("w") as file:
        file.write("in use")
        for _ in range(2):  # the second finds no mount, and the file system is there still
            with pytest.raises(HomeError, match="still in use"):
                await again.release()
    assert not os.path.ismount(user.home)
    await again.release()


async def test_a_home_that_a_container_has_mounted_is_in_use(
    volume: Path, devices: Path, user: NotebookUser
) -> None:
    """It has mounts of its own, which outlive the user's processes and are in no list of ours."""
    home = ebs(devices, user)
    await home.mount()
    own = Path("/proc/self/ns/mnt").readlink()
    container = await asyncio.create_subprocess_exec("unshare", "--mount", "sleep", "1000")
    try:
        while Path(f"/proc/{container.pid}/ns/mnt").readlink() == own:
            await asyncio.sleep(0.01)
        with pytest.raises(HomeError, match="container"):
            await home.release()
        assert not os.path.ismount(user.home)
    finally:
        container.kill()
        await container.wait()
    await home.release()


async def test_mounts_of_the_user_in_the_home_do_not_block_unmounting(
    volume: Path, devices: Path, user: NotebookUser
) -> None:
    home = ebs(devices, user)
    await home.mount()
    (user.home / "scratch").mkdir()
    mount = ["mount", "-t", "tmpfs", "none", str(user.home / "scratch")]
    await asyncio.to_thread(subprocess.run, mount, check=True)
    await home.release()
    assert not os.path.ismount(user.home)


async def test_a_disk_with_contents_is_never_formatted(
    volume: Path, devices: Path, user: NotebookUser
) -> None:
    with volume.open("r+b") as file:
        file.seek(4096)
        file.write(b"something of somebody's")
    with pytest.raises(HomeError, match="not formatted"):
        await ebs(devices, user).mount()
    with volume.open("rb") as file:
        file.seek(4096)
        assert file.read(9) == b"something"
