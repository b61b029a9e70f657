"""The recipe of an image, run on an instance as Packer runs it, and what it leaves there."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from pathlib import Path

from tests.boot.real_instance import RealInstance

SCRIPT = Path(__file__).parents[2] / "configs/ami/provision.sh"

TRACES = {
    "root/.ssh/authorized_keys": "ssh-ed25519 AAAA builder",
    "root/.bash_history": "export TOKEN=secret",
    "home/ubuntu/.aws/credentials": "aws_secret_access_key = secret",
    "home/ubuntu/.cache/pip/http": "cached",
    "etc/ssh/ssh_host_ed25519_key": "PRIVATE KEY",
    "var/log/auth.log": "who logged in",
    "etc/machine-id": "0123456789abcdef0123456789abcdef",
}
"""What is on an instance on which somebody has worked."""


LOCK = """
import fcntl, os, pathlib, socket, time

def updates():
    programs = pathlib.Path("/proc").glob("[0-9]*/cmdline")
    found = False
    for program in programs:
        try:
            words = program.read_bytes().split(bytes(1))
        except OSError:
            continue
        found |= words[0].endswith(b"apt-get") and b"update" in words
    return found

lock = open("/var/lib/apt/lists/lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
while not updates():
    time.sleep(0.02)
while updates():
    time.sleep(0.02)
"""
"""Locks apt's lists until an update of them was there and is gone."""


def run(builder: RealInstance, *arguments: str, **variables: str) -> str:
    """By the user of the image, who becomes root; what it prints.

    Without pip's compilation of all modules, which is a third of its time.
    """
    shutil.copy(SCRIPT, builder.disk / "srv")
    given = ["PIP_NO_COMPILE=1", *(f"{name}={value}" for name, value in variables.items())]
    command = ["sudo", "env", *given, "bash", f"/srv/{SCRIPT.name}", *arguments]
    return builder.run(shlex.join(command), user="ubuntu")


def digests(disk: Path) -> dict[str, str]:
    """What the recipe has written, but for bytecode."""
    found = {}
    for folder in ("etc", "usr/local", "opt"):
        for file in sorted((disk / folder).rglob("*")):
            if file.is_symlink():
                found[str(file)] = str(file.readlink())
            elif file.is_file() and file.suffix != ".pyc":
                found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def lock_lists(builder: RealInstance) -> None:
    """As an image that updates itself after its boot, until the recipe has waited for it."""
    (builder.disk / "srv/lock.py").write_text(LOCK)
    service = ["--quiet", "--service-type=notify", "/usr/bin/python3", "/srv/lock.py"]
    builder.run(shlex.join(["systemd-run", *service]))


def leave_traces(disk: Path) -> None:
    for name, content in TRACES.items():
        file = disk / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(content)


def traces(disk: Path) -> dict[str, str]:
    """Those that are left."""
    return {name: (disk / name).read_text() for name in TRACES if (disk / name).is_file()}
