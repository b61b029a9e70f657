"""For whom the agent mounts a home of a file system that all users share, and how it keeps others
away from it."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.agent.mounts.root_access import ways_to_root
from ec2spawner.agent.settings import NotebookUser

ADA = NotebookUser("ada", 54321, 54321, (54321,), Path("/home/ada"), "/bin/sh")

NOT_ALLOWED = "User ada is not allowed to run sudo on ip-10-0-0-1."
ALLOWED = """Matching Defaults entries for ada on ip-10-0-0-1:
    env_reset, mail_badpass

User ada may run the following commands on ip-10-0-0-1:
    (ALL : ALL) ALL
    (ALL) NOPASSWD: ALL
"""

Sudo = Callable[..., None]


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sudo:
    """Makes an image with a `sudo` that says this; without it the image has none."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("env", "cat"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))

    def install(said: str, status: int = 0) -> None:
        (tmp_path / "said").write_text(said)
        program = programs / "sudo"
        wanted = "-n -l -U ada"
        program.write_text(
            f'#!/bin/sh\n[ "$LC_ALL $*" = "C {wanted}" ] || exit 99\ncat {tmp_path}/said\n'
            f"exit {status}\n"
        )
        program.chmod(0o755)

    return install


@pytest.mark.parametrize(
    ("said", "status", "ways"),
    [
        (NOT_ALLOWED, 0, []),
        (f"sudo: unable to resolve host ip-10-0-0-1\n{NOT_ALLOWED}", 1, []),
        (ALLOWED, 0, ["sudo"]),
        (
            "User ada may run the following commands on h:\n    (postgres) /usr/bin/psql",
            0,
            ["sudo"],
        ),
        ("sudo: parse error in /etc/sudoers near line 1", 1, ["sudo"]),
        (NOT_ALLOWED.replace("ada", "bob"), 0, ["sudo"]),
        ("", 1, ["sudo"]),
    ],
)
async def test_a_user_with_any_right_of_sudo_may_become_root(
    sudo: Sudo, tmp_path: Path, said: str, status: int, ways: list[str]
) -> None:
    sudo(said, status)
    assert await ways_to_root(ADA, tmp_path) == ways


async def test_an_image_without_sudo_gives_nobody_root_by_it(sudo: Sudo, tmp_path: Path) -> None:
    assert await ways_to_root(ADA, tmp_path) == []


async def test_root_needs_no_way(tmp_path: Path) -> None:
    assert await ways_to_root(replace(ADA, uid=0), tmp_path) == ["it is root"]


@pytest.mark.parametrize("name", ["sudo", "disk", "root"])
async def test_members_of_some_groups_may_become_root(
    sudo: Sudo, tmp_path: Path, name: str
) -> None:
    gid = grp.getgrnam(name).gr_gid
    for user in (replace(ADA, groups=(54321, gid)), replace(ADA, gid=gid)):
        assert await ways_to_root(user, tmp_path) == [f"the group {name}"]
    others = tuple(grp.getgrnam(each).gr_gid for each in ("adm", "audio", "video", "users"))
    assert await ways_to_root(replace(ADA, groups=others), tmp_path) == []


@pytest.mark.parametrize(
    ("mode", "groups", "open_to_user"),
    [(0o666, (), True), (0o660, (), False), (0o660, (4321,), True), (0o640, (4321,), False)],
)
async def test_a_socket_of_a_container_daemon_gives_root(
    sudo: Sudo, tmp_path: Path, mode: int, groups: tuple[int, ...], open_to_user: bool
) -> None:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: giving a file away needs root")
    socket = tmp_path / "run/docker.sock"
    socket.parent.mkdir()
    socket.touch()
    os.chown(socket, 0, 4321)
    socket.chmod(mode)
    found = await ways_to_root(replace(ADA, groups=groups), tmp_path)
    assert found == (["the socket /run/docker.sock"] if open_to_user else [])


async def test_doas_is_not_read_and_counts(sudo: Sudo, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/doas.conf").write_text("permit nopass :wheel\n")
    assert await ways_to_root(ADA, tmp_path) == ["/etc/doas.conf, which is not read here"]


IN_ITS_OWN_NETWORK = """
import asyncio, os, socket, subprocess, sys
from ec2spawner.agent.mounts.nfs_firewall import RULE, keep_users_from_nfs

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for _ in range(2):
    asyncio.run(keep_users_from_nfs())
rules = subprocess.run(["iptables", "-S", "OUTPUT"], check=True, capture_output=True, text=True)
assert rules.stdout.count("REJECT") == 1, rules.stdout

def reaches(uid, family, host, port):
    if (child := os.fork()) == 0:
        os.setuid(uid)
        try:
            socket.socket(family).connect((host, port))
        except ConnectionRefusedError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for port, is_open in ((2049, False), (20049, False), (21049, False), (21050, True)):
        with socket.socket(family) as listening:
            listening.bind((host, port))
            listening.listen()
            assert reaches(0, family, host, port), (host, port)
            assert reaches(1000, family, host, port) is is_open, (host, port)
            assert reaches(100000, family, host, port) is is_open, "a user of a namespace"
"""


def test_only_root_and_the_kernel_reach_nfs() -> None:
    """On an instance of its own as far as the network goes."""
    namespace = ["unshare", "--net", "sh", "-c"]
    able = subprocess.run(
        [*namespace, "ip link set lo up && iptables -S && ip6tables -S"],
        capture_output=True,
        check=False,
    )
    if able.returncode != 0:
        pytest.skip(f"NOT TESTED: needs root, a network namespace and iptables: {able.stderr!r}")
    python = ["unshare", "--net", sys.executable, "-c", IN_ITS_OWN_NETWORK]
    done = subprocess.run(python, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
