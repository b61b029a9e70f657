"""The key pair of an instance still logs in when a home is mounted over the image's."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import aiohttp
import pytest

from ec2spawner.agent.admin_key import keep_admin_key
from ec2spawner.agent.metadata.imds import Metadata
from ec2spawner.agent.settings import Settings
from ec2spawner.wire import HomeMount
from tests.integration.agent.lease_on_instance import PYTHON, Machine, StubHub, until

VOLUME = "vol-0123456789abcdef0"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB ops"

SSHD = """#!/bin/bash
# sshd -T -f FILE: as sshd, which takes the first of a keyword, and Include where it is written.
[[ $1 == -T && -d "${3%/etc/ssh/*}/run/sshd" ]] || exit 255
while read -r keyword rest; do
    if [[ $keyword == Include ]]; then cat "${3%/*}"/sshd_config.d/*.conf 2>/dev/null
    else echo "$keyword $rest"; fi
done <"$3" | grep -m 1 AuthorizedKeysFile | sed 's/^A/a/'
"""


@pytest.fixture
def ssh(machine: Machine) -> Path:
    """An image with sshd, and the key where cloud-init has written it."""
    machine.public_key = KEY
    programs, folder = machine.root / "programs", machine.root / "disk" / "etc" / "ssh"
    (folder / "sshd_config.d").mkdir(parents=True)
    (folder / "sshd_config").write_text(
        "Include /etc/ssh/sshd_config.d/*.conf\nAuthorizedKeysFile .ssh/authorized_keys\n"
    )
    programs.mkdir()
    for name, text in (
        ("sshd", SSHD),
        ("systemctl", f'#!/bin/sh\necho "$*" >>{machine.root}/calls\n'),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (machine.home / ".ssh").mkdir(parents=True)
    (machine.home / ".ssh" / "authorized_keys").write_text(f"{KEY}\n")
    machine.environment = {
        "EC2SPAWNER_ROOT": str(machine.root / "disk"),
        "PATH": f"{programs}:{PYTHON.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    return folder


def key_file(ssh: Path) -> Path:
    [file] = (ssh / "ec2spawner_keys").iterdir()
    return file


async def test_the_key_is_kept_outside_the_home(machine: Machine, hub: StubHub, ssh: Path) -> None:
    volume = machine.volume(VOLUME)
    (volume / ".ssh").mkdir()
    (volume / ".ssh" / "authorized_keys").write_text("ssh-ed25519 AAAA the user's own\n")
    await machine.boot()
    hub.give(machine.lease(home=HomeMount(kind="ebs", volume_id=VOLUME)))
    await until(lambda: hub.event("ready"), what="ready")
    assert (machine.home / ".ssh" / "authorized_keys").read_text().endswith("user's own\n")
    assert key_file(ssh).read_text() == f"{KEY}\n"
    assert key_file(ssh).name in (getpass.getuser(), str(os.getuid()))
    assert key_file(ssh).stat().st_mode & 0o777 == 0o644
    [drop_in] = (ssh / "sshd_config.d").iterdir()
    assert drop_in.read_text() == (
        f"AuthorizedKeysFile .ssh/authorized_keys {ssh}/ec2spawner_keys/%u\n"
    )
    calls = (machine.root / "calls").read_text()
    assert "try-reload-or-restart ssh.service" in calls
    assert "try-reload-or-restart sshd.service" in calls


async def keep(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the agent does at its start."""
    environment = machine.environment | {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": machine.metadata_url,
        "EC2SPAWNER_NOTEBOOK_USER": f"{os.getuid()}:{os.getgid()}",
        "EC2SPAWNER_NOTEBOOK_HOME": str(machine.home),
    }
    monkeypatch.setenv("PATH", machine.environment["PATH"])
    settings = Settings.from_environment("http://hub/hub/api", environment)
    async with aiohttp.ClientSession() as http:
        await keep_admin_key(settings, Metadata(machine.metadata_url, http))


async def test_an_sshd_that_ignores_the_drop_in_is_left_as_it_was(
    machine: Machine, ssh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (ssh / "sshd_config").write_text("AuthorizedKeysFile .ssh/authorized_keys\n")
    await keep(machine, monkeypatch)
    assert list((ssh / "sshd_config.d").iterdir()) == []
    assert "must include it" in caplog.text


async def test_an_sshd_that_does_not_say_what_it_reads_is_logged(
    machine: Machine, ssh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sshd = machine.root / "programs" / "sshd"
    sshd.write_text("#!/bin/sh\necho no hostkeys available >&2; exit 255\n")
    await keep(machine, monkeypatch)
    assert list((ssh / "sshd_config.d").iterdir()) == []
    assert "sshd -T: status 255, no hostkeys available" in caplog.text


async def test_warnings_of_sshd_are_not_taken_for_files(
    machine: Machine, ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd = machine.root / "programs" / "sshd"
    sshd.write_text(SSHD.replace("[[ $1", "echo line 7: Deprecated option >&2; [[ $1", 1))
    await keep(machine, monkeypatch)
    [drop_in] = (ssh / "sshd_config.d").iterdir()
    assert drop_in.read_text().startswith("AuthorizedKeysFile .ssh/authorized_keys /")


@pytest.mark.parametrize("lacks", ["a key pair", "the image's key", "sshd"])
async def test_without_key_or_sshd_nothing_is_written(
    machine: Machine, ssh: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "a key pair":
        machine.public_key = ""
    elif lacks == "the image's key":
        (machine.home / ".ssh" / "authorized_keys").unlink()
    else:
        (ssh / "sshd_config").unlink()
    await keep(machine, monkeypatch)
    assert list((ssh / "sshd_config.d").iterdir()) == []
    assert not (ssh / "ec2spawner_keys").exists()
