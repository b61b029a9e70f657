"""Ray's head on the notebook's instance."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

from ...reserved_ports import reserved_ports
from ..errors import ClusterError
from ..run_folder import Record, folder, started_at
from . import engine_process

STARTED: Final = "Ray runtime started"
"""What `ray start` prints once the node runs."""

TOKEN_MODE: Final = "RAY_AUTH_MODE"  # noqa: S105 - names of variables
TOKEN_PATH: Final = "RAY_AUTH_TOKEN_PATH"  # noqa: S105
"""Read by Ray 2.52 and later: every call between nodes carries the token."""

ATTEMPTS: Final = 4
"""Ray gives its head 30 s to start."""

RECONNECT: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""After so many seconds without its head, Ray ends the process that is connected to it."""

RECONNECT_SECONDS: Final = 30 * 24 * 3600
"""Never, for a kernel: it has variables to lose, also where another one has stopped the cluster."""

OLDEST: Final = (2, 52)
"""The first version with tokens."""


_connections: Final[dict[str, str]] = {}
"""Of this process, which can have one at a time: by the address of a head, as Ray calls it then."""


class RayHead:
    """Ray as the engine of a cluster."""

    name: Final = "ray"

    def version(self) -> str:
        """Of the kernel's own Ray. Raises `ClusterError` without one, or if it has no tokens."""
        try:
            found = metadata.version("ray")
        except metadata.PackageNotFoundError:
            raise ClusterError(
                "This kernel has no Ray. Install it with: %pip install 'ec2spawner[ray]', and "
                "restart the kernel. Workers need the same version in their image."
            ) from None
        if tuple(map(int, found.split(".")[:2])) < OLDEST:
            raise ClusterError(
                f"Ray {found} cannot keep other users out. Install {OLDEST[0]}.{OLDEST[1]} or "
                "later: %pip install -U 'ec2spawner[ray]'"
            )
        return found

    def start(self, host: str) -> Record:
        """Start the head at the instance's private address. Raises `ClusterError`."""
        version, token = self.version(), secrets.token_hex(32)
        environment = os.environ | token_environment(folder(), token)
        environment.pop(RECONNECT, None)  # which is for kernels
        log = folder() / "engine.log"
        with reserved_ports(1, host) as [port]:
            argv = [
                *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--head", "--block"),
                *(f"--node-ip-address={host}", f"--port={port}"),
                *("--disable-usage-stats", f"--temp-dir={folder() / 'ray'}"),
            ]
            pid = engine_process.start_patiently(argv, environment, log, STARTED, ATTEMPTS)
        return Record(
            engine=self.name,
            version=version,
            address=f"{host}:{port}",
            token=token,
            pid=pid,
            started=started_at(pid) or 0.0,
            python_version=platform.python_version(),
        )

    def client(self, record: Record) -> Any:
        """The module `ray`, connected to the cluster. Raises `ClusterError`."""
        os.environ.update(token_environment(folder(), record.token))
        os.environ[RECONNECT] = str(RECONNECT_SECONDS)
        import ray

        if ray.is_initialized():
            if _is_connected(ray, record):
                return ray
            there = ray.get_runtime_context().gcs_address
            if there not in _connections.values():
                raise ClusterError(
                    f"This kernel is connected to another Ray, at {there}. ray.shutdown() "
                    "disconnects it; after that cluster.ray is connected to this cluster."
                )
            ray.shutdown()  # from a cluster that has ended
        _read_environment_again()
        host = record.address.rpartition(":")[0]
        try:
            ray.init(address=record.address, _node_ip_address=host, log_to_driver=True)
        except ConnectionError as error:
            raise ClusterError(
                "Ray on this machine does not answer: stop the cluster and start it again."
            ) from error
        _connections[record.address] = ray.get_runtime_context().gcs_address
        return ray

    def disconnect(self, record: Record) -> None:
        """What is connected to a head that ends waits for it, and is ended by Ray in the end."""
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized() and _is_connected(ray, record):
            ray.shutdown()
        _connections.pop(record.address, None)


def _is_connected(ray: Any, record: Record) -> bool:
    """Whether this process is, to this head."""
    there = ray.get_runtime_context().gcs_address
    return there in {record.address, _connections.get(record.address)}


def _read_environment_again() -> None:
    """Ray reads its variables once, when it is imported."""
    core = import_module("ray._raylet")
    core.Config.initialize("")
    core.AuthenticationTokenLoader.instance().reset_cache()


def token_environment(path: Path, token: str) -> dict[str, str]:
    """What lets a process of Ray in, and keeps others out."""
    file = path / "ray-token"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as output:
        output.write(token)
    return {
        TOKEN_MODE: "token",
        TOKEN_PATH: str(file),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # of 30 s, for which nobody waits
    }
