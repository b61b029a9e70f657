"""Full disks; and an agent whose own files have no room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ec2spawner.agent.mounts import full_disks as disks
from ec2spawner.agent.mounts.full_disks import full_disks
from ec2spawner.agent.notebook_server.certificates import NotebookCertificates
from ec2spawner.agent.notebook_server.process import MAX_LOG_BYTES, NotebookProcess
from ec2spawner.agent.settings import NotebookUser, Settings
from ec2spawner.wire import Certificates, sentence


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
    home = settings.user.home
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=11", "tmpfs", str(home)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: mounting needs root: {made.stderr}")
    yield home
    subprocess.run(["umount", str(home)], check=True)


def fill(home: Path) -> None:
    with (home / "big").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65536))


def test_disks_with_free_space_are_not_reported(settings: Settings) -> None:
    assert full_disks(settings, "ebs") == []


def test_a_full_home_is_reported_until_there_is_room(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 1)
    assert full_disks(settings, "ebs") == []
    fill(small_home)
    assert [each.code for each in full_disks(settings, "ebs")] == ["home-full"]
    (small_home / "big").unlink()
    assert full_disks(settings, "ebs") == []


def test_a_home_without_free_inodes_is_reported(settings: Settings, small_home: Path) -> None:
    for number in range(10):
        (small_home / str(number)).touch()
    assert full_disks(settings, "ebs") == [sentence("home-without-inodes")]


def test_a_network_home_is_not_checked(
    settings: Settings, small_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 1)
    fill(small_home)
    assert full_disks(settings, "efs") == []


def test_a_full_root_disk_is_reported_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "FULL_BYTES", 2**63)
    for home_kind in ("ebs", "none"):
        [full] = full_disks(settings, home_kind)
        assert full.code == "system-disk-full"


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
