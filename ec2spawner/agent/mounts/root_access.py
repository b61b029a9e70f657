"""Whether the notebook user can become root on this instance, as far as its image says.

Root on any instance reads all homes of a shared file system. What counts is what images give their
users on purpose: sudo, groups, sockets of daemons. Bugs, a root password and programs of the
image's own with the set-user-ID bit do not show here.
"""

from __future__ import annotations

import asyncio
import grp
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ..command import NOT_FOUND, run
from ..settings import NotebookUser

SUDO_SECONDS: Final = 10.0
"""For sudo to list a user's rights, which it may ask a directory service for."""

NO_SUDO: Final = "User {} is not allowed to run sudo on "
"""What `sudo -l -U` says of a user without any right, and of no other."""

GROUPS_OF_ROOT: Final = frozenset(
    "root sudo wheel admin docker lxd incus incus-admin libvirt disk kmem".split()
)
"""Groups whose members become root by sudo, polkit, a daemon of containers or machines, or a raw
disk."""

SOCKETS_OF_ROOT: Final = (
    "run/docker.sock",
    "run/podman/podman.sock",
    "run/containerd/containerd.sock",
    "run/crio/crio.sock",
)
"""Sockets of daemons that run containers as root for whoever may write to them."""

DOAS: Final = "etc/doas.conf"


async def ways_to_root(user: NotebookUser, system: Path = Path("/")) -> list[str]:
    """How the user can become root, in words for an admin; none if the image gives no way.

    `system` is where the image's files are. What is not understood counts as a way.
    """
    if user.uid == 0:
        return ["it is root"]
    rights = ("sudo", "-n", "-l", "-U", user.name)
    status, output = await run("env", "LC_ALL=C", *rights, seconds=SUDO_SECONDS)
    return [
        *_by_sudo(user, status, output),
        *_by_groups({user.gid, *user.groups}),
        *await asyncio.to_thread(lambda: list(_by_files(user, system))),
    ]


def _by_sudo(user: NotebookUser, status: int, output: str) -> Iterator[str]:
    if status != NOT_FOUND and NO_SUDO.format(user.name) not in output:
        yield "sudo"


def _by_groups(gids: Iterable[int]) -> Iterator[str]:
    for gid in sorted(gids):
        try:
            name = grp.getgrgid(gid).gr_name
        except KeyError:
            continue
        if name in GROUPS_OF_ROOT:
            yield f"the group {name}"


def _by_files(user: NotebookUser, system: Path) -> Iterator[str]:
    if (system / DOAS).exists():
        yield f"/{DOAS}, which is not read here"
    for each in SOCKETS_OF_ROOT:
        try:
            facts = (system / each).stat()
        except OSError:
            continue
        if _may_write(user, facts.st_mode, facts.st_uid, facts.st_gid):
            yield f"the socket /{each}"


def _may_write(user: NotebookUser, mode: int, uid: int, gid: int) -> bool:
    return bool(
        mode & stat.S_IWOTH
        or (mode & stat.S_IWGRP and gid in {user.gid, *user.groups})
        or (mode & stat.S_IWUSR and uid == user.uid)
    )
