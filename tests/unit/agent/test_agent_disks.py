"""Full disks; and an agent whose own files have no room."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.agent.mounts import disk_watch, largest_folders
from ec2spawner.agent.mounts import full_disks as disks
from ec2spawner.agent.mounts.disk_watch import DiskWatch, start_notes
from ec2spawner.agent.mounts.full_disks import disk_uses, full_disks
from ec2spawner.agent.notebook_server.certificates import NotebookCertificates
from ec2spawner.agent.notebook_server.process import MAX_LOG_BYTES, NotebookProcess
from ec2spawner.agent.notebook_server.runtime_dir import make_runtime_dir, remove_runtime_dir
from ec2spawner.agent.settings import NotebookUser, Settings
from ec2spawner.wire import Certificates, DataMount, HomeMount, IdlePolicy, LeaseGrant, sentence
from tests.small_disk import mounted, use_up_bytes, use_up_inodes


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(disks, "FULL_BYTES", 0)  # whatever the disk of this machine has
    (tmp_path / "home").mkdir()
    return Settings(
        hub_api_url="",
        metadata_endpoint="",
        metadata_is_amazon=False,
        devices=tmp_path,
        root=tmp_path,
        file_systems=None,
        user=NotebookUser("ada", os.getuid(), os.getgid(), (), tmp_path / "home", "/bin/sh"),
        run_dir=tmp_path / "run",
        poweroff=("true",),
        simulated_gpu=None,
    )


@pytest.fixture
def small_home(settings: Settings) -> Iterator[Path]:
    """A home on a small disk of its own: 1 MiB, and ten files."""
    with mounted(settings.user.home, inodes=11) as home:
        yield home


def grant(home: str = "ebs", **changes: Any) -> LeaseGrant:
    given = {
        "lease_id": "lease-1",
        "lease_token": "x",
        "environment": {},
        "command": ["x"],
        "base_url": "/",
        "port": 8888,
        "home": HomeMount(kind=home, volume_id="vol-1", file_system_id="fs-1", access_point_id="f"),
        "idle": IdlePolicy(),
    }
    return LeaseGrant(**(given | changes))


def test_disks_with_free_space_are_not_reported(settings: Settings) -> None:
    assert full_disks(settings, "ebs") == []


def test_a_full_home_is_reported_until_there_is_room(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 1)
    assert full_disks(settings, "ebs") == []
    use_up_bytes(small_home)
    assert [each.code for each in full_disks(settings, "ebs")] == ["home-full"]
    (small_home / "big").unlink()
    assert full_disks(settings, "ebs") == []


def test_a_home_without_free_inodes_is_reported(settings: Settings, small_home: Path) -> None:
    use_up_inodes(small_home)
    assert full_disks(settings, "ebs") == [sentence("home-without-inodes")]


def test_a_network_home_is_not_checked(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 1)
    use_up_bytes(small_home)
    assert full_disks(settings, "efs") == []


def test_a_full_root_disk_is_reported_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 2**63)
    for home_kind in ("ebs", "none"):
        [full] = full_disks(settings, home_kind)
        assert full.code == "system-disk-full"


# --- how full they are --------------------------------------------------------------------------


def test_space_and_inodes_of_each_disk_are_measured(
    settings: Settings, small_home: Path, tmp_path: Path
) -> None:
    """What could not be mounted is not the system disk once more."""
    settings = replace(settings, metadata_is_amazon=True)
    data = [DataMount(volume_id="vol-2", path="/data/x"), DataMount(volume_id="vol-3", path="/y")]
    for each in ("data/x", "y", "scratch"):
        (tmp_path / each).mkdir(parents=True)
    (small_home / "half").write_bytes(bytes(2**19))
    with mounted(tmp_path / "data" / "x"), mounted(tmp_path / "scratch", inodes=4):
        (tmp_path / "scratch" / "a").touch()
        found = disk_uses(settings, grant(data=data, scratch="/scratch"))
    system, home, of_data, scratch = found
    assert (system.kind, system.path, system.is_writable) == ("system", "/", True)
    assert home.kind == "home"
    assert (home.used_percent, home.inodes_percent) == (50.0, round(100 * 2 / 11, 1))
    assert (of_data.kind, of_data.path, of_data.is_writable) == ("data", "/data/x", False)
    assert of_data.used_percent == 0.0
    assert (scratch.kind, scratch.inodes_percent) == ("scratch", 50.0)


def test_a_home_without_a_size_or_a_disk_of_its_own_is_not_listed(settings: Settings) -> None:
    real = replace(settings, metadata_is_amazon=True)
    for kind in ("none", "efs", "ebs"):
        assert [each.kind for each in disk_uses(real, grant(kind))] == ["system"]
        assert disk_uses(settings, grant(kind)) == [], "the disk of the host of a simulation"


# --- the largest folders of a full home ---------------------------------------------------------


async def test_a_full_home_is_shown_with_its_largest_folders(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 1)
    watch = DiskWatch(settings, grant())
    assert await watch.before_start() == []
    (small_home / "data").mkdir()
    use_up_bytes(small_home / "data")
    full = [
        sentence("home-full", gib=0),
        sentence("folder-bytes", folder="~/data", bytes=2**20),
    ]
    assert await watch.before_start() == full
    assert start_notes(full) == [
        "Your home is full (0 GiB): nothing can be saved there until you delete something",
        "~/data takes 1 MB",
    ]
    (small_home / "data").rename(small_home / "other")
    assert await watch.check() == full, "they are measured once"
    (small_home / "other" / "big").unlink()
    assert await watch.check() == []
    use_up_bytes(small_home / "other")
    assert await watch.check() == full[:1], "it gets full every other moment"
    monkeypatch.setattr(disk_watch, "MEASURED_EVERY", 0.0)
    assert (await watch.check())[1].params["folder"] == "~/other"


async def test_a_measurement_ends_with_the_lease(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps folders of the home open, which cannot be unmounted meanwhile."""
    use_up_inodes(small_home)
    begun, entry = threading.Event(), largest_folders._entries

    def endless(folder: str) -> Iterator[tuple[str, os.stat_result]]:
        while True:
            begun.set()
            yield from entry(folder)

    monkeypatch.setattr(largest_folders, "_entries", endless)
    watch = DiskWatch(settings, grant())
    checked = asyncio.create_task(watch.check(seconds=600.0))
    await asyncio.to_thread(begun.wait, 60)
    checked.cancel()
    await watch.close()
    assert watch._checking is not None
    assert watch._checking.done()


async def test_a_home_without_inodes_is_shown_with_the_folders_of_most_files(
    settings: Settings, small_home: Path
) -> None:
    (small_home / "many").mkdir()
    use_up_inodes(small_home / "many")
    full = await DiskWatch(settings, grant()).check()
    assert full == [
        sentence("home-without-inodes"),
        sentence("folder-files", folder="~/many", files=10),
    ]
    assert start_notes(full)[1] == "~/many has 10 files"


async def test_folders_of_a_home_on_a_full_system_disk_are_measured(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 2**63)
    (settings.user.home / "big").write_bytes(bytes(2 * 10**6))
    found = await DiskWatch(settings, grant("none")).check()
    assert [each.code for each in found] == ["system-disk-full", "folder-bytes"]
    assert found[1].params["folder"] == "~/big"


async def test_only_the_system_disk_is_full(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_home / "big").write_bytes(bytes(10**5))
    monkeypatch.setattr(disks, "FULL_BYTES", 2**21)  # more than the home has
    monkeypatch.setattr(disks, "_why_full", lambda place, full, _: sentence(full, gib=8))
    codes = [each.code for each in await DiskWatch(settings, grant("efs")).check()]
    assert codes == ["system-disk-full"], "nothing in the home would help"


async def test_what_could_not_be_measured_before_a_start_is_measured_after_it(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_home / "data").mkdir()
    use_up_inodes(small_home / "data")
    monkeypatch.setattr(disk_watch, "START_SECONDS", 0.0)
    watch = DiskWatch(settings, grant())
    assert await watch.before_start() == [sentence("home-without-inodes")]
    assert (await watch.check())[1] == sentence("folder-files", folder="~/data", files=10)


async def test_a_start_does_not_wait_for_a_disk_that_does_not_respond(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    responds = threading.Event()
    monkeypatch.setattr(disk_watch, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(disk_watch, "full_disks", lambda *_: responds.wait(60) and [])
    try:
        assert await DiskWatch(settings, grant()).before_start() == []
    finally:
        responds.set()


# --- the agent's own files ----------------------------------------------------------------------


def test_no_key_remains_when_its_certificate_could_not_be_written(
    settings: Settings, small_home: Path
) -> None:
    for number in range(8):
        (small_home / str(number)).touch()
    granted = Certificates(key="secret", certificate="", ca="")
    with pytest.raises(OSError, match="No space"):
        NotebookCertificates.write(granted, small_home, settings.user)
    assert not (small_home / "certificates").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: giving a folder away needs root")
def test_jupyters_runtime_directory_is_empty_and_of_its_user(
    settings: Settings, tmp_path: Path
) -> None:
    user = replace(settings.user, uid=1234, gid=1235)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    folder = make_runtime_dir(run_dir, user)
    assert folder == run_dir / "jupyter"
    (folder / "kernel-1.json").write_text("an earlier lease's key")
    assert make_runtime_dir(run_dir, user) == folder
    assert list(folder.iterdir()) == []
    found = folder.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 1235, 0o700)
    remove_runtime_dir(folder)
    assert list(run_dir.iterdir()) == []


def test_a_full_run_directory_has_jupyters_elsewhere_outside_the_home(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_up_inodes(small_home)
    folder = make_runtime_dir(small_home, settings.user)
    assert folder is not None
    assert folder.parent == Path(tempfile.gettempdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    remove_runtime_dir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(small_home))
    assert make_runtime_dir(small_home, settings.user) is None, "then it is in the home"


def test_the_notebook_log_is_bounded(settings: Settings, tmp_path: Path) -> None:
    log = tmp_path / "notebook.log"
    notebook = NotebookProcess(settings.user, log, {})
    notebook.bound_log()  # there is none yet
    log.write_bytes(b"x" * (MAX_LOG_BYTES + 1))
    notebook.bound_log()
    assert log.stat().st_size == 0
    log.write_text("its last words")
    notebook.bound_log()
    assert notebook.last_words() == "its last words"
