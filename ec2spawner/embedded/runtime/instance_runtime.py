"""Where the instances of the embedded EC2 run: each its user-data, on its own loopback address.

An instance is a process group with a directory of its own, an environment made from nothing,
and a metadata service. It ends with everything that came of it. Instances share one network
namespace and one kernel, and, unless the instance runtime may give each its own user id, one user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar
from urllib.parse import urlsplit

from ..api.access_keys import AccessKeys
from . import (
    console,
    disks,
    imds,
    mount_s3,
    packet_filter,
    pci_bus,
    processes,
    shims,
    user_isolation,
)
from .consoles import Consoles
from .files import copy_tree, remove_trees
from .flushed_volumes import FlushedVolumes
from .identity import IdentitySigner
from .imds import MetadataService
from .instance import SimulatedInstance
from .processes import INSTANCE_VARIABLE, RUNTIME_VARIABLE, UNIT_VARIABLE, Mark
from .workspace import Leader, Workspace

log = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when an instance ends."""
CLOSING_GRACE = 1.0
"""The same when the whole runtime closes: shorter, because no user waits for a notebook."""
CLOUD_INIT_AT = 12.0
"""Seconds of uptime at which user-data begins, on the console's time stamps."""
FIRST_USER_ID = 60000
THREADS = 8

FILE_SYSTEMS = "file-systems"
"""In the data directory, with a folder for each EFS file system below it."""

P = ParamSpec("P")
T = TypeVar("T")

PowerEvent = Callable[[str, Literal["off", "reboot"]], None]


class InstanceRuntime:
    """Boots, halts and removes instances below `data_dir`."""

    def __init__(
        self,
        data_dir: Path,
        runtime_id: str,
        signer: IdentitySigner,
        keys: AccessKeys,
        power_event: PowerEvent,
    ) -> None:
        self._instances = data_dir / "instances"
        self._volumes = data_dir / "volumes"
        self._snapshots = data_dir / "snapshots"
        self._file_systems = data_dir / FILE_SYSTEMS
        self._shims = data_dir / "shims"
        self._flushed = FlushedVolumes(self._volumes, data_dir / "flushed")
        self.detached_while_mounted: list[tuple[str, str]] = []
        """(instance id, volume id) of each detachment that lost what was not flushed."""
        self.s3_endpoint = ""
        """Where S3 is, for the instances' mount-s3."""
        # A path below data_dir may be too long for a Unix socket (107 bytes).
        self._run_root = Path(tempfile.gettempdir()) / f"ec2spawner-{runtime_id}"
        self._mark = Mark(RUNTIME_VARIABLE, runtime_id)
        self._signer = signer
        self._keys = keys
        self._power_event = power_event
        self._workspaces: dict[str, Workspace] = {}
        self._making = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="instance-runtime")
        self.consoles = Consoles()
        self._separate_users = False
        self._users_given = 0

    async def open(self) -> None:
        """Make the directories and end what an earlier instance runtime here left running."""
        await self._in_thread(self._open)

    async def close(self) -> None:
        """End every process and listener; instance directories are removed."""
        self.consoles.close()
        for workspace in self._workspaces.values():
            await self._close_metadata(workspace)
        left = await self._in_thread(processes.end, (self._mark,), CLOSING_GRACE)
        if left:
            log.error("%d processes of instances could not be ended", left)
        for workspace in self._workspaces.values():
            self._reap(workspace)
        self._workspaces.clear()
        await self._in_thread(self._remove_leftovers)
        self._threads.shutdown(wait=False)

    async def boot(self, instance: SimulatedInstance) -> None:
        """Start the instance's metadata service and its user-data, or what that has enabled.

        As on EC2, where cloud-init runs user-data at an instance's first boot and not again.
        """
        workspace = await self._workspace_of(instance.instance_id)
        await self._in_thread(
            disks.plug_in, instance, workspace.directory, workspace.devices, self._snapshots
        )
        await self._in_thread(pci_bus.show, instance.gpus_on_pci_bus, workspace.pci_devices)
        command = await self._in_thread(self._boot_command, workspace, instance)
        if instance.instance_profile:
            workspace.role_key = self._keys.issue_for_instance()
        press = partial(self._power_event, instance.instance_id)
        flush = partial(self._flush, workspace)
        kill = partial(self._kill_unit, instance.instance_id)
        workspace.metadata = MetadataService(
            instance, self._signer, press, flush, kill, workspace.role_key
        )
        self.consoles.post(instance.instance_id)
        if command is None:
            return
        workspace.leader = self._start(command, workspace, instance, workspace.metadata.endpoint)

    async def halt(self, instance_id: str, *, reboot: bool = False) -> None:
        """End everything that runs on the instance; its disk stays."""
        workspace = self._workspaces.get(instance_id)
        if workspace is None:
            return
        await self._in_thread(
            processes.end, (self._mark, Mark(INSTANCE_VARIABLE, instance_id)), GRACE
        )
        self._reap(workspace)
        await self._unmount(workspace)
        if workspace.metadata is not None:
            lines = console.shutdown_lines(reboot=reboot)
            await self._in_thread(workspace.print_on_console, lines)
            self.consoles.post(instance_id)
        await self._close_metadata(workspace)

    async def remove(self, instance_id: str) -> None:
        """Halt, and throw the instance's own disk away; volumes are kept."""
        await self.halt(instance_id)
        workspace = self._workspaces.pop(instance_id, None)
        if workspace is not None:
            await self._in_thread(self.consoles.remove, instance_id)
            await self._in_thread(remove_trees, workspace.directory, workspace.run_directory)

    async def create_volume(self, volume_id: str, snapshot_id: str = "") -> None:
        """Blank, or with the files of a snapshot."""
        if snapshot_id:
            source = self._snapshots / snapshot_id
            await self._in_thread(copy_tree, source, self._volumes / volume_id)
        else:
            await self._in_thread((self._volumes / volume_id).mkdir, mode=0o700)

    async def copy_volume(self, source_id: str, volume_id: str) -> None:
        """Create a volume's folder with the files of another volume as they are now."""
        await self._in_thread(copy_tree, self._volumes / source_id, self._volumes / volume_id)

    async def create_snapshot(self, volume_id: str, snapshot_id: str) -> int:
        """Copy a volume's files as they are now; how many bytes they are.

        Of a volume that came with an instance there are none.
        """
        source, target = self._volumes / volume_id, self._snapshots / snapshot_id
        await self._in_thread(self._snapshots.mkdir, mode=0o711, exist_ok=True)
        return await self._in_thread(copy_tree, source, target)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete the snapshot's files; volumes made from it keep theirs."""
        await self._in_thread(remove_trees, self._snapshots / snapshot_id)

    async def delete_volume(self, volume_id: str) -> None:
        """Delete the volume's files; its snapshots keep theirs."""
        await self._in_thread(remove_trees, self._volumes / volume_id)
        await self._in_thread(self._flushed.forget, volume_id)

    async def attach(self, instance_id: str, volume_id: str, *, is_nitro: bool) -> None:
        """Show the volume in the instance's devices directory, as udev would: by the serial of its
        NVMe device, which there is on the Nitro System only."""
        workspace = await self._workspace_of(instance_id)
        folder = workspace.devices if is_nitro else workspace.xen_devices
        link = folder / disks.EBS.format(volume_id.replace("-", ""))
        await self._in_thread(self._flushed.flush, volume_id)
        await self._in_thread(self._link, workspace, self._volumes / volume_id, link)
        workspace.volumes[volume_id] = link

    async def detach(self, instance_id: str, volume_id: str) -> None:
        """Take the volume away; what a mounted one has not flushed is lost.

        A process that still has something open on it is killed: on EC2 each of its writes would
        fail from now on, and here they must not reach a volume that is another instance's.
        """
        workspace = self._workspaces.get(instance_id)
        link = workspace.volumes.pop(volume_id, None) if workspace is not None else None
        if workspace is None or link is None:
            return
        is_mounted = workspace.has_mounted(self._volumes / volume_id)
        await self._in_thread(self._unlink, instance_id, self._volumes / volume_id, link)
        if is_mounted:
            log.error("%s was detached from %s while it was mounted", volume_id, instance_id)
            self.detached_while_mounted.append((instance_id, volume_id))
            await self._in_thread(self._flushed.lose_the_rest, volume_id)
        await self._in_thread(self._flushed.forget, volume_id)

    async def _kill_unit(self, instance_id: str, unit: str, grace: float) -> None:
        """End what is left of a unit of the instance, as systemd does once its main process has."""
        marks = self._mark, Mark(INSTANCE_VARIABLE, instance_id), Mark(UNIT_VARIABLE, unit)
        await self._in_thread(processes.end, marks, grace)

    async def _flush(self, workspace: Workspace) -> None:
        """Write the page cache of the instance to its volumes, as `sync` does."""
        for volume_id in list(workspace.volumes):
            if workspace.has_mounted(self._volumes / volume_id):
                await self._in_thread(self._flushed.flush, volume_id)

    async def _unmount(self, workspace: Workspace) -> None:
        """Flush and unmount what the agent has not, as an operating system that shuts down does."""
        await self._flush(workspace)
        if workspace.home.is_symlink():
            workspace.home.unlink()

    async def running(self) -> dict[str, list[dict[str, Any]]]:
        """Instance id -> its processes, by id and short name."""
        found = await self._in_thread(processes.by_value, INSTANCE_VARIABLE, within=self._mark)
        return {
            instance_id: [{"pid": pid, "command": processes.command(pid)} for pid in sorted(pids)]
            for instance_id, pids in found.items()
        }

    def metadata_endpoint(self, instance_id: str) -> str | None:
        """Where the instance finds its metadata service; None while it is off."""
        workspace = self._workspaces.get(instance_id)
        return (
            workspace.metadata.endpoint
            if workspace is not None and workspace.metadata is not None
            else None
        )

    async def _workspace_of(self, instance_id: str) -> Workspace:
        async with self._making:  # a volume is attached while the instance boots
            if instance_id not in self._workspaces:
                made = await self._in_thread(self._make_workspace, instance_id)
                self._workspaces[instance_id] = made
                self.consoles.add(instance_id, made.console)
            return self._workspaces[instance_id]

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        call = partial(work, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _open(self) -> None:
        left = processes.end((self._mark,), 0.0)
        if left:
            log.warning("%d processes of an earlier run could not be ended", left)
        self._remove_leftovers()
        self._volumes.mkdir(mode=0o711, exist_ok=True)
        self._file_systems.mkdir(mode=0o711, exist_ok=True)
        self._instances.mkdir(mode=0o711)
        # Not `exist_ok`: a directory that appeared since may belong to an attacker.
        self._run_root.mkdir(mode=0o711)
        shims.install(self._shims)
        packet_filter.install(self._shims / "python")
        self._separate_users = user_isolation.can_work_in(self._instances, FIRST_USER_ID)
        if os.geteuid() == 0 and not self._separate_users:
            log.warning(
                "all instances run as root: other users cannot run %s or cannot enter %s",
                sys.executable,
                self._instances,
            )

    def _remove_leftovers(self) -> None:
        remove_trees(self._instances, self._run_root)
        self._flushed.forget_all()

    def _make_workspace(self, instance_id: str) -> Workspace:
        user_id, group_id = os.geteuid(), os.getegid()
        if self._separate_users:
            self._users_given += 1
            user_id = group_id = FIRST_USER_ID + self._users_given
        workspace = Workspace(
            self._instances / instance_id, self._run_root / instance_id, user_id, group_id
        )
        own = (
            workspace.home,
            workspace.devices,
            workspace.xen_devices,
            workspace.root,
            workspace.directory / "root",
            workspace.run_directory,
        )
        for directory in (*own, workspace.directory / "units"):
            directory.mkdir(parents=True, exist_ok=True)
        workspace.console.touch(mode=0o600)
        workspace.directory.chmod(0o711)
        workspace.home.chmod(0o700)
        if self._separate_users:
            os.chown(workspace.home, user_id, group_id)
        return workspace

    def _boot_command(self, workspace: Workspace, instance: SimulatedInstance) -> list[str] | None:
        path = workspace.directory / "user-data"
        workspace.print_on_console(console.boot_lines(instance.instance_id, instance.address))
        if path.exists():
            workspace.print_on_console(console.login_lines(instance.address))
            # What `/run` held is gone with the boot before.
            remove_trees(workspace.run_directory)
            workspace.run_directory.mkdir()
            return [str(self._shims / "systemctl"), "default"]
        if not instance.user_data.startswith(b"#!"):
            return None
        path.write_bytes(instance.user_data)
        end = workspace.directory / "cloud-init-end"
        lines = console.cloud_init_end_lines(instance.instance_id, instance.address)
        end.write_text("".join(f"{line}\r\n" for line in lines))
        return [str(self._shims / "cloud-init"), str(path), str(end)]

    def _start(
        self, command: list[str], workspace: Workspace, instance: SimulatedInstance, metadata: str
    ) -> Leader:
        with workspace.console.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=workspace.directory,
                env=self._environment(workspace, instance, metadata),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Leader(process)

    def _environment(
        self, workspace: Workspace, instance: SimulatedInstance, metadata: str
    ) -> dict[str, str]:
        """Everything an instance's processes inherit: nothing of the caller's but its PATH."""
        path = [str(self._shims), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        environment = {
            "PATH": os.pathsep.join(filter(None, path)),
            "LANG": "C.UTF-8",
            "TZ": os.environ.get("TZ", "UTC"),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata,
            "EC2SPAWNER_BOOTED_US": str(int((time.time() - CLOUD_INIT_AT) * 1e6)),
            "EC2SPAWNER_FILE_SYSTEMS": str(self._file_systems),
            **workspace.environment,
            mount_s3.ENDPOINT: self.s3_endpoint,
            INSTANCE_VARIABLE: instance.instance_id,
            self._mark.name: self._mark.value,
        }
        if (gpu := instance.simulated_gpu) is not None:
            environment["EC2SPAWNER_SIMULATED_GPU"] = gpu
        s3_port = urlsplit(self.s3_endpoint).port or 0
        return environment | packet_filter.environment(
            instance.passage, instance.address, {imds.PORT, s3_port}, self._shims / "python"
        )

    def _reap(self, workspace: Workspace) -> None:
        if workspace.leader is not None:
            workspace.leader.reap()
            workspace.leader = None

    async def _close_metadata(self, workspace: Workspace) -> None:
        if workspace.metadata is not None:
            metadata, workspace.metadata = workspace.metadata, None
            await metadata.close()
        if workspace.role_key is not None:
            self._keys.revoke(workspace.role_key)
            workspace.role_key = None

    def _link(self, workspace: Workspace, volume: Path, link: Path) -> None:
        if self._separate_users:
            # Files of the volume belong to the notebook user of whichever instance has it.
            for parent, directories, files in os.walk(volume):
                for name in (".", *directories, *files):
                    os.lchown(Path(parent, name), workspace.user_id, workspace.group_id)
        link.symlink_to(volume, target_is_directory=True)

    def _unlink(self, instance_id: str, volume: Path, link: Path) -> None:
        link.unlink(missing_ok=True)
        mark = Mark(INSTANCE_VARIABLE, instance_id)
        if ended := processes.end_holders(volume, self._mark, mark):
            log.warning("%s: killed %d processes with detached files", instance_id, ended)
