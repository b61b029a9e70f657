"""Where the instances of the embedded EC2 run: each its user-data, on its own loopback address.

An instance is a process group with a directory of its own, an environment made from nothing,
and a metadata service. It ends with everything that came of it. Instances share one network
namespace and one kernel, and, unless the machine room may give each its own user id, one user.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..api.access_keys import AccessKey, AccessKeys
from ..storage.file_systems import FOLDER
from . import (
    disks,
    mount_s3,
    other_users,
    processes,
    shims,
)
from .identity import IdentitySigner
from .imds import MetadataService
from .machine import Machine
from .processes import INSTANCE_VARIABLE, ROOM_VARIABLE, Mark

log = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when an instance ends."""
CLOSING_GRACE = 1.0
"""The same when the whole machine room closes: nobody waits for a notebook then."""
CONSOLE_TAIL = 64 * 1024
"""Bytes that GetConsoleOutput answers with, as EC2 does."""
CONSOLES_KEPT = 50
FIRST_USER_ID = 60000
THREADS = 8

NOTEBOOK_USER = "jovyan"

PowerEvent = Callable[[str, Literal["off", "reboot"]], None]


class _Leader:
    """The process that runs the user-data: reaped when it ends; the instance runs on, as on EC2."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._descriptor: int | None = os.pidfd_open(process.pid)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self.reap)

    def reap(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0)


@dataclass
class _Room:
    """One machine's place: its directory and, while it runs, its processes and metadata."""

    directory: Path
    run_directory: Path
    user_id: int
    group_id: int
    metadata: MetadataService | None = None
    role_key: AccessKey | None = None
    leader: _Leader | None = None
    volumes: dict[str, Path] = field(default_factory=dict)
    """Volume id -> its link in the devices directory."""

    @property
    def home(self) -> Path:
        return self.directory / "home" / NOTEBOOK_USER

    @property
    def devices(self) -> Path:
        return self.directory / "devices"

    @property
    def root(self) -> Path:
        """Where the machine's paths of mounts begin."""
        return self.directory / "disk"

    @property
    def console(self) -> Path:
        return self.directory / "console.log"


class MachineRoom:
    """Boots, halts and removes machines below `data_dir`."""

    def __init__(
        self,
        data_dir: Path,
        room_id: str,
        signer: IdentitySigner,
        keys: AccessKeys,
        power_event: PowerEvent,
    ) -> None:
        self._instances = data_dir / "instances"
        self._volumes = data_dir / "volumes"
        self._snapshots = data_dir / "snapshots"
        self._file_systems = data_dir / FOLDER
        self._shims = data_dir / "shims"
        self.s3_endpoint = ""
        """Where S3 is, for the machines' mount-s3."""
        # A path below data_dir may be too long for a Unix socket (107 bytes).
        self._run_root = Path(tempfile.gettempdir()) / f"ec2spawner-{room_id}"
        self._mark = Mark(ROOM_VARIABLE, room_id)
        self._signer = signer
        self._keys = keys
        self._power_event = power_event
        self._rooms: dict[str, _Room] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="machine-room")
        self._consoles: dict[str, bytes] = {}
        """By instance id, oldest first: the console logs of machines that are gone."""
        self._separate_users = False
        self._users_given = 0

    async def open(self) -> None:
        """Make the directories and end what an earlier machine room here left running."""
        await self._in_thread(self._open)

    async def close(self) -> None:
        """End every process and listener; instance directories are removed."""
        for room in self._rooms.values():
            await self._close_metadata(room)
        left = await self._in_thread(partial(processes.end, (self._mark,), CLOSING_GRACE))
        if left:
            log.error("%d processes of instances could not be ended", left)
        for room in self._rooms.values():
            self._reap(room)
        self._rooms.clear()
        await self._in_thread(self._remove_leftovers)
        self._threads.shutdown(wait=False)

    async def boot(self, machine: Machine) -> None:
        """Start the machine's metadata service and its user-data, or what that has enabled.

        As on EC2, where cloud-init runs user-data at an instance's first boot and not again.
        """
        room = self._rooms.get(machine.instance_id)
        if room is None:
            room = await self._in_thread(partial(self._make_room, machine.instance_id))
            self._rooms[machine.instance_id] = room
        await self._in_thread(
            partial(disks.plug_in, machine, room.directory, room.devices, self._snapshots)
        )
        command = await self._in_thread(partial(self._boot_command, room, machine))
        if machine.instance_profile:
            room.role_key = self._keys.issue_for_instance()
        press = partial(self._power_event, machine.instance_id)
        room.metadata = MetadataService(machine, self._signer, press, room.role_key)
        if command is None:
            return
        room.leader = self._start(command, room, machine, room.metadata.endpoint)

    async def halt(self, instance_id: str) -> None:
        """End everything that runs on the machine; its disk stays."""
        room = self._rooms.get(instance_id)
        if room is None:
            return
        await self._in_thread(
            partial(processes.end, (self._mark, Mark(INSTANCE_VARIABLE, instance_id)), GRACE)
        )
        self._reap(room)
        await self._close_metadata(room)

    async def remove(self, instance_id: str) -> None:
        """Halt, and throw the machine's own disk away; volumes are kept."""
        await self.halt(instance_id)
        room = self._rooms.pop(instance_id, None)
        if room is not None:
            await self._keep_console(instance_id, room)
            await self._in_thread(partial(_remove_trees, room.directory, room.run_directory))

    async def create_volume(self, volume_id: str, snapshot_id: str = "") -> None:
        """Blank, or with the files of a snapshot."""
        if snapshot_id:
            source = self._snapshots / snapshot_id
            await self._in_thread(partial(_copy_tree, source, self._volumes / volume_id))
        else:
            await self._in_thread(partial((self._volumes / volume_id).mkdir, mode=0o700))

    async def create_snapshot(self, volume_id: str, snapshot_id: str) -> int:
        """Copy a volume's files as they are now; how many bytes they are.

        Of a volume that came with an instance there are none.
        """
        source, target = self._volumes / volume_id, self._snapshots / snapshot_id
        await self._in_thread(partial(self._snapshots.mkdir, mode=0o711, exist_ok=True))
        return int(await self._in_thread(partial(_copy_tree, source, target)))

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await self._in_thread(partial(_remove_trees, self._snapshots / snapshot_id))

    async def delete_volume(self, volume_id: str) -> None:
        await self._in_thread(partial(_remove_trees, self._volumes / volume_id))

    async def attach(self, instance_id: str, volume_id: str) -> None:
        """Show the volume in the machine's devices directory, as udev would."""
        room = self._rooms.get(instance_id)
        if room is None:
            room = await self._in_thread(partial(self._make_room, instance_id))
            self._rooms[instance_id] = room
        link = room.devices / f"nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"
        await self._in_thread(partial(self._link, room, self._volumes / volume_id, link))
        room.volumes[volume_id] = link

    async def detach(self, instance_id: str, volume_id: str) -> None:
        """Take the volume away.

        A process that still has something open on it is killed: on EC2 each of its writes would
        fail from now on, and here they must not reach a volume that is another instance's.
        """
        room = self._rooms.get(instance_id)
        link = room.volumes.pop(volume_id, None) if room is not None else None
        if link is None:
            return
        await self._in_thread(partial(self._unlink, instance_id, self._volumes / volume_id, link))

    async def console_tail(self, instance_id: str) -> bytes:
        """The end of the instance's console, also after its end; empty for an unknown one."""
        room = self._rooms.get(instance_id)
        if room is None:
            return self._consoles.get(instance_id, b"")
        return bytes(await self._in_thread(partial(_tail, room.console)))

    async def _keep_console(self, instance_id: str, room: _Room) -> None:
        """EC2 keeps the log of an instance that has ended; here, of the latest of them."""
        self._consoles[instance_id] = await self._in_thread(partial(_tail, room.console))
        while len(self._consoles) > CONSOLES_KEPT:
            del self._consoles[next(iter(self._consoles))]

    async def running(self) -> dict[str, list[dict[str, Any]]]:
        """Instance id -> its processes, by id and short name."""
        found = await self._in_thread(
            partial(processes.by_value, INSTANCE_VARIABLE, within=self._mark)
        )
        return {
            instance_id: [{"pid": pid, "command": processes.command(pid)} for pid in sorted(pids)]
            for instance_id, pids in found.items()
        }

    def metadata_endpoint(self, instance_id: str) -> str | None:
        """Where the machine finds its metadata service; None while it is off."""
        room = self._rooms.get(instance_id)
        return room.metadata.endpoint if room is not None and room.metadata is not None else None

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _open(self) -> None:
        left = processes.end((self._mark,), 0.0)
        if left:
            log.warning("%d processes of an earlier run could not be ended", left)
        self._remove_leftovers()
        self._volumes.mkdir(mode=0o711, exist_ok=True)
        self._file_systems.mkdir(mode=0o711, exist_ok=True)
        self._instances.mkdir(mode=0o711)
        # Not `exist_ok`: whoever put something there since is no friend.
        self._run_root.mkdir(mode=0o711)
        shims.install(self._shims)
        self._separate_users = other_users.can_work_in(self._instances, FIRST_USER_ID)
        if os.geteuid() == 0 and not self._separate_users:
            log.warning(
                "all instances run as root: other users cannot run %s or cannot enter %s",
                sys.executable,
                self._instances,
            )

    def _remove_leftovers(self) -> None:
        _remove_trees(self._instances, self._run_root)

    def _make_room(self, instance_id: str) -> _Room:
        user_id, group_id = os.geteuid(), os.getegid()
        if self._separate_users:
            self._users_given += 1
            user_id = group_id = FIRST_USER_ID + self._users_given
        room = _Room(self._instances / instance_id, self._run_root / instance_id, user_id, group_id)
        own = (room.home, room.devices, room.root, room.directory / "root", room.run_directory)
        for directory in (*own, room.directory / "units"):
            directory.mkdir(parents=True, exist_ok=True)
        room.console.touch(mode=0o600)
        room.directory.chmod(0o711)
        room.home.chmod(0o700)
        if self._separate_users:
            os.chown(room.home, user_id, group_id)
        return room

    def _boot_command(self, room: _Room, machine: Machine) -> list[str] | None:
        path = room.directory / "user-data"
        if path.exists():
            # What `/run` held is gone with the boot before.
            _remove_trees(room.run_directory)
            room.run_directory.mkdir()
            return [str(self._shims / "systemctl"), "default"]
        if not machine.user_data.startswith(b"#!"):
            return None
        path.write_bytes(machine.user_data)
        return ["/bin/bash", str(path)]

    def _start(self, command: list[str], room: _Room, machine: Machine, imds: str) -> _Leader:
        with room.console.open("ab") as console:
            process = subprocess.Popen(
                command,
                cwd=room.directory,
                env=self._environment(room, machine, imds),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return _Leader(process)

    def _environment(self, room: _Room, machine: Machine, imds: str) -> dict[str, str]:
        """Everything an instance's processes inherit: nothing of the caller's but its PATH."""
        path = [str(self._shims), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        environment = {
            "PATH": os.pathsep.join(filter(None, path)),
            "HOME": str(room.directory / "root"),
            "LANG": "C.UTF-8",
            "TZ": os.environ.get("TZ", "UTC"),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": imds,
            "EC2SPAWNER_DEVICES": str(room.devices),
            "EC2SPAWNER_NOTEBOOK_HOME": str(room.home),
            "EC2SPAWNER_NOTEBOOK_USER": f"{room.user_id}:{room.group_id}",
            "EC2SPAWNER_RUN_DIR": str(room.run_directory),
            "EC2SPAWNER_UNITS": str(room.directory / "units"),
            "EC2SPAWNER_ROOT": str(room.root),
            "EC2SPAWNER_FILE_SYSTEMS": str(self._file_systems),
            "EC2SPAWNER_GPU_DEVICE": "",  # a GPU of the laptop's is none of the instance's
            mount_s3.ENDPOINT: self.s3_endpoint,
            INSTANCE_VARIABLE: machine.instance_id,
            self._mark.name: self._mark.value,
        }
        if (gpu := machine.simulated_gpu) is not None:
            environment["EC2SPAWNER_SIMULATED_GPU"] = gpu
        return environment

    def _reap(self, room: _Room) -> None:
        if room.leader is not None:
            room.leader.reap()
            room.leader = None

    async def _close_metadata(self, room: _Room) -> None:
        if room.metadata is not None:
            metadata, room.metadata = room.metadata, None
            await metadata.close()
        if room.role_key is not None:
            self._keys.revoke(room.role_key)
            room.role_key = None

    def _link(self, room: _Room, volume: Path, link: Path) -> None:
        if self._separate_users:
            # Files of the volume belong to the notebook user of whichever instance has it.
            for parent, directories, files in os.walk(volume):
                for name in (".", *directories, *files):
                    os.lchown(Path(parent, name), room.user_id, room.group_id)
        link.symlink_to(volume, target_is_directory=True)

    def _unlink(self, instance_id: str, volume: Path, link: Path) -> None:
        link.unlink(missing_ok=True)
        mark = Mark(INSTANCE_VARIABLE, instance_id)
        holders = processes.holding(volume, processes.find(self._mark, mark))
        if holders:
            log.warning("%s: killed %d processes with detached files", instance_id, len(holders))
            processes.kill(holders, self._mark, mark)


def _remove_trees(*directories: Path) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _copy_tree(source: Path, target: Path) -> int:
    """Everything as it is, owners and links too; the bytes of the files.

    A file that goes while it is copied is not there: a snapshot of a volume in use is no more
    consistent than the files are.
    """
    target.mkdir(mode=0o700)
    if source.is_dir():
        copied = subprocess.run(
            ["cp", "--archive", f"{source}/.", str(target)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if copied.returncode:
            log.warning("copying %s: %s", source, copied.stderr.decode(errors="replace")[-300:])
    files = (Path(parent, name) for parent, _, names in os.walk(target) for name in names)
    return sum(os.lstat(file).st_size for file in files)


def _tail(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - CONSOLE_TAIL))
        return file.read()
    return b""
