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

from . import processes, shims
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
    def console(self) -> Path:
        return self.directory / "console.log"


class MachineRoom:
    """Boots, halts and removes machines below `data_dir`."""

    def __init__(
        self,
        data_dir: Path,
        room_id: str,
        signer: IdentitySigner,
        power_event: PowerEvent,
    ) -> None:
        self._instances = data_dir / "instances"
        self._volumes = data_dir / "volumes"
        self._shims = data_dir / "shims"
        # A path below data_dir may be too long for a Unix socket (107 bytes).
        self._run_root = Path(tempfile.gettempdir()) / f"ec2spawner-{room_id}"
        self._mark = Mark(ROOM_VARIABLE, room_id)
        self._signer = signer
        self._power_event = power_event
        self._rooms: dict[str, _Room] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="machine-room")
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
        """Start the machine's metadata service and its user-data."""
        room = self._rooms.get(machine.instance_id)
        if room is None:
            room = await self._in_thread(partial(self._make_room, machine.instance_id))
            self._rooms[machine.instance_id] = room
        script = await self._in_thread(partial(self._write_user_data, room, machine))
        room.metadata = MetadataService(
            machine, self._signer, partial(self._power_event, machine.instance_id)
        )
        if script is None:
            return
        room.leader = self._start(script, room, machine, room.metadata.endpoint)

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
            await self._in_thread(partial(_remove_trees, room.directory, room.run_directory))

    async def create_volume(self, volume_id: str) -> None:
        await self._in_thread(partial((self._volumes / volume_id).mkdir, mode=0o700))

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
        room = self._rooms.get(instance_id)
        return b"" if room is None else await self._in_thread(partial(_tail, room.console))

    async def running(self) -> dict[str, list[dict[str, Any]]]:
        """Instance id -> its processes, by id and short name."""
        found = await self._in_thread(
            partial(processes.by_value, INSTANCE_VARIABLE, within=self._mark)
        )
        return {
            instance_id: [{"pid": pid, "command": processes.command(pid)} for pid in sorted(pids)]
            for instance_id, pids in found.items()
        }

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _open(self) -> None:
        left = processes.end((self._mark,), 0.0)
        if left:
            log.warning("%d processes of an earlier run could not be ended", left)
        self._remove_leftovers()
        self._volumes.mkdir(mode=0o711, exist_ok=True)
        self._instances.mkdir(mode=0o711)
        # Not `exist_ok`: whoever put something there since is no friend.
        self._run_root.mkdir(mode=0o711)
        shims.install(self._shims)
        if os.geteuid() == 0:
            self._separate_users = self._other_users_can_work()
            if not self._separate_users:
                log.info(
                    "all instances share the user of this process: other users cannot run %s",
                    sys.executable,
                )

    def _other_users_can_work(self) -> bool:
        """Whether a process of another user can run this Python, with the hub's packages."""
        try:
            trial = subprocess.run(
                [sys.executable, "-c", "import jupyterhub"],
                cwd=self._instances,
                env={"PATH": os.defpath, "HOME": "/nonexistent"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                user=FIRST_USER_ID,
                group=FIRST_USER_ID,
                extra_groups=[],
                timeout=20,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return trial.returncode == 0

    def _remove_leftovers(self) -> None:
        _remove_trees(self._instances, self._run_root)

    def _make_room(self, instance_id: str) -> _Room:
        user_id, group_id = os.geteuid(), os.getegid()
        if self._separate_users:
            self._users_given += 1
            user_id = group_id = FIRST_USER_ID + self._users_given
        room = _Room(self._instances / instance_id, self._run_root / instance_id, user_id, group_id)
        for directory in (room.home, room.devices, room.directory / "root", room.run_directory):
            directory.mkdir(parents=True, exist_ok=True)
        room.console.touch(mode=0o600)
        room.directory.chmod(0o711)
        room.home.chmod(0o700)
        if self._separate_users:
            os.chown(room.home, user_id, group_id)
        return room

    def _write_user_data(self, room: _Room, machine: Machine) -> Path | None:
        if not machine.user_data.startswith(b"#!"):
            return None
        path = room.directory / "user-data"
        path.write_bytes(machine.user_data)
        return path

    def _start(self, script: Path, room: _Room, machine: Machine, imds: str) -> _Leader:
        with room.console.open("ab") as console:
            process = subprocess.Popen(
                ["/bin/bash", str(script)],
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


def _tail(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - CONSOLE_TAIL))
        return file.read()
    return b""
