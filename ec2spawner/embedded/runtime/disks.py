"""Disks of a simulated instance as folders: data volumes and the instance store.

A volume created from a snapshot is a read-only copy of the snapshot's folder. The instance store is
an empty folder at each start, but persists across reboots.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ...core.profiles.ebs_volumes import is_xen
from ...data import instance_types
from .instance import SimulatedInstance

EBS = "nvme-Amazon_Elastic_Block_Store_{}"
INSTANCE_STORE = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{}"
"""Udev's names, by serial."""


def plug_in(instance: SimulatedInstance, directory: Path, devices: Path, snapshots: Path) -> None:
    """Show the instance its disks below `devices`; what is on them is below `directory`."""
    for volume_id, snapshot_id in instance.data_volumes:
        folder = directory / "data-volumes" / volume_id
        if not folder.exists():
            _copy(snapshots / snapshot_id, folder)
        if not is_xen(instance.instance_type):
            _show(devices / EBS.format(volume_id.replace("-", "")), folder)
    known = instance_types().get(instance.instance_type)
    if known is not None and known.local_disk_gb:
        # The serial is the instance's own, and the same after a reboot.
        serial = f"{instance.instance_id.removeprefix('i-'):0>17}".upper()
        store = directory / "instance-store"
        this_start = store / str(instance.starts)
        if not this_start.exists():
            shutil.rmtree(store, ignore_errors=True)
            this_start.mkdir(parents=True)
        _show(devices / INSTANCE_STORE.format(serial), this_start)


def _copy(snapshot: Path, folder: Path) -> None:
    if snapshot.is_dir():
        shutil.copytree(snapshot, folder, symlinks=True)
    else:
        folder.mkdir(parents=True)
    for parent, _, files in os.walk(folder):
        for name in files:
            if not Path(parent, name).is_symlink():
                Path(parent, name).chmod(0o444)
        Path(parent).chmod(0o555)


def _show(link: Path, folder: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(folder, target_is_directory=True)
