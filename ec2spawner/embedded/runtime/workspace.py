"""What an instance has on the host: its directories, its process, its metadata service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..api.access_keys import AccessKey
from .imds import MetadataService

NOTEBOOK_USER = "jovyan"


class Leader:
    """The process that runs the user-data. It is reaped when it ends; the instance keeps running,
    as on EC2."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._descriptor: int | None = os.pidfd_open(process.pid)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self.reap)

    def reap(self) -> None:
        """Collect the exit status if the process has ended; stop watching it either way."""
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0)


@dataclass
class Workspace:
    """One instance's directories and, while it runs, its process and metadata service."""

    directory: Path
    run_directory: Path
    user_id: int
    group_id: int
    metadata: MetadataService | None = None
    role_key: AccessKey | None = None
    leader: Leader | None = None
    volumes: dict[str, Path] = field(default_factory=dict)
    """Volume id -> its link in the devices directory."""

    @property
    def home(self) -> Path:
        """The notebook user's home directory."""
        return self.directory / "home" / NOTEBOOK_USER

    def has_mounted(self, volume: Path) -> bool:
        """Whether the home is this volume: what is a mount on EC2 is a link here."""
        return self.home.is_symlink() and self.home.readlink() == volume.resolve()

    @property
    def devices(self) -> Path:
        """What `/dev/disk/by-id` is on EC2."""
        return self.directory / "devices"

    @property
    def xen_devices(self) -> Path:
        """Folder in which nothing looks for volumes: on Xen they have no serial."""
        return self.directory / "xen-devices"

    @property
    def pci_devices(self) -> Path:
        """What `/sys/bus/pci/devices` is on EC2."""
        return self.directory / "pci"

    @property
    def root(self) -> Path:
        """The root of the instance's mount paths."""
        return self.directory / "disk"

    @property
    def console(self) -> Path:
        """The log that GetConsoleOutput shows."""
        return self.directory / "console.log"

    @property
    def journal(self) -> Path:
        """What systemd's journal is on EC2: the output of units, and of user-data."""
        return self.directory / "journal.log"

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the instance's programs find what is its own."""
        return {
            "HOME": str(self.directory / "root"),
            "EC2SPAWNER_CONSOLE": str(self.console),
            "EC2SPAWNER_DEVICES": str(self.devices),
            "EC2SPAWNER_JOURNAL": str(self.journal),
            "EC2SPAWNER_NOTEBOOK_HOME": str(self.home),
            "EC2SPAWNER_NOTEBOOK_USER": f"{self.user_id}:{self.group_id}",
            "EC2SPAWNER_RUN_DIR": str(self.run_directory),
            "EC2SPAWNER_STATE_DIR": str(self.directory / "state"),
            "EC2SPAWNER_UNITS": str(self.directory / "units"),
            "EC2SPAWNER_ROOT": str(self.root),
            # A GPU of the laptop's is none of the instance's.
            "EC2SPAWNER_GPU_DEVICE": str(self.directory / "dev" / "nvidia0"),
            "EC2SPAWNER_PCI_DEVICES": str(self.pci_devices),
        }

    def print_on_console(self, lines: Iterable[str]) -> None:
        """Append lines, as a serial console ends them. Blocks."""
        with self.console.open("ab") as console:
            console.write("".join(f"{line}\r\n" for line in lines).encode())
