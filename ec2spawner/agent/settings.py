"""What the agent must know of its machine; the image says it in environment variables."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class SettingsError(Exception):
    """An environment variable of the image cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class NotebookUser:
    """Who the notebook runs as."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    """Supplementary groups."""
    home: Path
    shell: str

    @property
    def is_agent(self) -> bool:
        """True where the agent already runs as this user and has nothing to drop."""
        return self.uid == os.geteuid() and self.gid == os.getegid()


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's options, from its command line and environment variables."""

    hub_api_url: str
    """`http(s)://host[:port]/.../hub/api`, without a slash at its end."""
    metadata_endpoint: str
    metadata_is_amazon: bool
    """False where the metadata service is not EC2's own, so that this is no real boot."""
    devices: Path
    root: Path
    """Below which the paths of mounts are: `/`, but for simulated machines."""
    file_systems: Path | None
    """Folders that stand in for EFS file systems; None mounts real ones."""
    user: NotebookUser
    run_dir: Path
    poweroff: tuple[str, ...]
    simulated_gpu: str | None
    gpu_device: Path | None = None
    """There where this machine has an NVIDIA GPU and its driver is loaded; None checks none."""

    @classmethod
    def from_environment(cls, hub_api_url: str, environment: Mapping[str, str]) -> Settings:
        """Settings of this machine. Raises `SettingsError`."""
        endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "")
        poweroff = tuple(shlex.split(environment.get("EC2SPAWNER_POWEROFF", "systemctl poweroff")))
        if not poweroff:
            raise SettingsError("EC2SPAWNER_POWEROFF is empty: it must be a command")
        return cls(
            hub_api_url=hub_api_url.rstrip("/"),
            metadata_endpoint=(endpoint or "http://169.254.169.254").rstrip("/"),
            metadata_is_amazon=not endpoint,
            devices=Path(environment.get("EC2SPAWNER_DEVICES", "/dev/disk/by-id")),
            root=Path(environment.get("EC2SPAWNER_ROOT", "/")),
            file_systems=Path(folder)
            if (folder := environment.get("EC2SPAWNER_FILE_SYSTEMS"))
            else None,
            user=_notebook_user(
                environment.get("EC2SPAWNER_NOTEBOOK_USER", "ubuntu"),
                environment.get("EC2SPAWNER_NOTEBOOK_HOME"),
            ),
            run_dir=Path(environment.get("EC2SPAWNER_RUN_DIR", "/run/ec2spawner")),
            poweroff=poweroff,
            simulated_gpu=environment.get("EC2SPAWNER_SIMULATED_GPU") or None,
            gpu_device=Path(device)
            if (device := environment.get("EC2SPAWNER_GPU_DEVICE", "/dev/nvidia0"))
            else None,
        )


def _notebook_user(text: str, home: str | None) -> NotebookUser:
    """A user by name, or by `uid:gid` where the machine need not know them by name."""
    entry: pwd.struct_passwd | None = None
    if ":" in text:
        try:
            uid, gid = (int(part) for part in text.split(":"))
        except ValueError:
            raise SettingsError(f"EC2SPAWNER_NOTEBOOK_USER={text!r} is not a uid:gid") from None
        if uid < 0 or gid < 0:
            raise SettingsError(f"EC2SPAWNER_NOTEBOOK_USER={text!r} is not a uid:gid")
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            entry = None
    else:
        try:
            entry = pwd.getpwnam(text)
        except KeyError:
            raise SettingsError(
                f"EC2SPAWNER_NOTEBOOK_USER={text!r}: this machine has no such user"
            ) from None
        uid, gid = entry.pw_uid, entry.pw_gid
    if not home and entry is None:
        raise SettingsError("EC2SPAWNER_NOTEBOOK_HOME must be set for a user without a name")
    name = entry.pw_name if entry else str(uid)
    return NotebookUser(
        name=name,
        uid=uid,
        gid=gid,
        groups=tuple(os.getgrouplist(name, gid)) if entry else _groups_of_a_number(gid),
        home=Path(home or (entry.pw_dir if entry else "/")),
        shell=(entry.pw_shell if entry else "") or "/bin/bash",
    )


def _groups_of_a_number(gid: int) -> tuple[int, ...]:
    try:
        return (grp.getgrgid(gid).gr_gid,)
    except KeyError:
        return (gid,)
