"""What this instance remembers of its cluster while it runs: the engine's process and secret.

It is below the folder of temporary files, not in the home: another instance, or a later one, has
nothing to do with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ..agent_socket import SOCKET
from .errors import ClusterError

RECORD: Final = "cluster.json"

ROOT: Final = Path("/tmp")  # noqa: S108 - the folder below it is checked
"""The same for all kernels, also for one with another TMPDIR."""


@dataclass(frozen=True, slots=True)
class Record:
    """The engine that runs on this instance."""

    engine: str
    version: str
    address: str
    """`host:port`."""
    token: str
    """Opens the engine and the workers of this cluster."""
    pid: int
    """Of the engine's own process, which ends all of its others."""
    started: float
    """When that process started, as the kernel counts: a process id may be used again."""
    python_version: str
    """Of the Python that runs it, as `3.12.3`."""


def folder() -> Path:
    """The folder of this instance's cluster, for its user alone. Raises `ClusterError`."""
    path = ROOT / folder_name(os.geteuid(), os.environ.get(SOCKET, ""))
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077 or path.is_symlink():
        raise ClusterError(f"{path} belongs to somebody else: remove it, and try again.")
    return path


def folder_name(uid: int, agent_socket: str) -> str:
    """One for each user and instance: on the embedded EC2, instances share a machine.

    It is short: sockets of Ray are deep below it, and Linux allows their paths 107 bytes.
    """
    instance = hashlib.sha256(agent_socket.encode()).hexdigest()[:8]
    return f"ec2spawner-{uid}-{instance}"


def write(record: Record) -> None:
    """Remember the engine of this instance."""
    path = folder() / RECORD
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(record), file)
    new.replace(path)


def read() -> Record | None:
    """The engine of this instance; None if it never had one, or it has ended."""
    try:
        record = Record(**json.loads((folder() / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return record if started_at(record.pid) == record.started else None


def started_at(pid: int) -> float | None:
    """When a process started, in clock ticks since the boot; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else float(fields[19])
