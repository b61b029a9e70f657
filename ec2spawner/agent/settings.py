"""The agent's settings, from environment variables of the image."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

IMAGES_USERS: Final = ("ubuntu", "ec2-user")
"""The users of Ubuntu's and Amazon Linux's images, which can become root without a password."""


class SettingsError(Exception):
    """An environment variable is invalid; the message names it."""


@dataclass(frozen=True, slots=True)
class NotebookUser:
    """The user that the notebook runs as."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    """Supplementary groups."""
    home: Path
    shell: str

    @property
    def is_agent(self) -> bool:
        """Whether the agent itself runs as this user, so that no privileges are dropped."""
        return self.uid == os.geteuid() and self.gid == os.getegid()


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's options, from its command line and environment variables."""

    hub_api_url: str
    """`http(s)://host[:port]/.../hub/api`, without a trailing slash."""
    metadata_endpoint: str
    metadata_is_amazon: bool
    """False if the metadata service is not EC2's own, so that this is not a real boot."""
    devices: Path
    root: Path
    """The root of all mount paths: `/`, except on simulated instances."""
    file_systems: Path | None
    """Directories that simulate EFS file systems; None mounts real ones."""
    user: NotebookUser
    run_dir: Path
    poweroff: tuple[str, ...]
    simulated_gpu: str | None
    gpu_device: Path | None = None
    """Exists if an NVIDIA GPU is present and its driver loaded; None disables the checks."""
    pci_devices: Path | None = None
    """The PCI bus, as Linux shows it; None does not check that its GPUs have a driver."""
    container_engine: str = ""
    """The command of the container engine; empty is the first that is found."""
    state_dir: Path = Path("/var/lib/ec2spawner")
    """On the instance's disk: outlives a stop of a retained instance."""

    @classmethod
    def from_environment(cls, hub_api_url: str, environment: Mapping[str, str]) -> Settings:
        """Settings of this instance. Raises `SettingsError`."""
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
                environment.get("EC2SPAWNER_NOTEBOOK_USER")
                or default_user({name for name in IMAGES_USERS if _has_user(name)}),
                environment.get("EC2SPAWNER_NOTEBOOK_HOME"),
            ),
            run_dir=Path(environment.get("EC2SPAWNER_RUN_DIR", "/run/ec2spawner")),
            poweroff=poweroff,
            simulated_gpu=environment.get("EC2SPAWNER_SIMULATED_GPU") or None,
            gpu_device=Path(device)
            if (device := environment.get("EC2SPAWNER_GPU_DEVICE", "/dev/nvidia0"))
            else None,
            pci_devices=Path(bus)
            if (bus := environment.get("EC2SPAWNER_PCI_DEVICES", "/sys/bus/pci/devices"))
            else None,
            container_engine=environment.get("EC2SPAWNER_CONTAINER_ENGINE", "").strip(),
            state_dir=Path(environment.get("EC2SPAWNER_STATE_DIR", "/var/lib/ec2spawner")),
        )


def default_user(present: Container[str]) -> str:
    """The first of `IMAGES_USERS` that this image has. Raises `SettingsError`."""
    for name in IMAGES_USERS:
        if name in present:
            return name
    raise SettingsError(
        f"this image has no user {' or '.join(IMAGES_USERS)}: set EC2SPAWNER_NOTEBOOK_USER to the "
        "user that runs the notebook, in /etc/ec2spawner/agent.env"
    )


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _notebook_user(text: str, home: str | None) -> NotebookUser:
    """A user by name, or by `uid:gid`, which needs no entry in passwd."""
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
                f"EC2SPAWNER_NOTEBOOK_USER={text!r}: no such user on this instance"
            ) from None
        uid, gid = entry.pw_uid, entry.pw_gid
    if not home and entry is None:
        raise SettingsError("EC2SPAWNER_NOTEBOOK_HOME must be set for a user without a name")
    name = entry.pw_name if entry else str(uid)
    return NotebookUser(
        name=name,
        uid=uid,
        gid=gid,
        groups=tuple(os.getgrouplist(name, gid)) if entry else _groups_of_gid(gid),
        home=Path(home or (entry.pw_dir if entry else "/")),
        shell=(entry.pw_shell if entry else "") or "/bin/bash",
    )


def _groups_of_gid(gid: int) -> tuple[int, ...]:
    try:
        return (grp.getgrgid(gid).gr_gid,)
    except KeyError:
        return (gid,)
