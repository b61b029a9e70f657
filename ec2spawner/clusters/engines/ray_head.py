"""Ray's head on the notebook's instance."""

from __future__ import annotations

import os
import secrets
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

from ..errors import ClusterError
from ..run_folder import Record, folder, started_at
from . import engine_process

STARTED: Final = "Ray runtime started"
"""What `ray start` prints once the node runs."""

TOKEN_MODE: Final = "RAY_AUTH_MODE"  # noqa: S105 - names of variables
TOKEN_PATH: Final = "RAY_AUTH_TOKEN_PATH"  # noqa: S105
"""Read by Ray 2.52 and later: every call between nodes carries the token."""

ATTEMPTS: Final = 2
"""Ray gives its head 30 s to start."""

OLDEST: Final = (2, 52)
"""The first version with tokens."""


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
        version, token, port = self.version(), secrets.token_hex(32), engine_process.free_port(host)
        argv = [
            *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--head", "--block"),
            *(f"--node-ip-address={host}", f"--port={port}"),
            *("--disable-usage-stats", f"--temp-dir={folder() / 'ray'}"),
        ]
        environment = os.environ | token_environment(folder(), token)
        log = folder() / "engine.log"
        pid = engine_process.start_patiently(argv, environment, log, STARTED, ATTEMPTS)
        return Record(self.name, version, f"{host}:{port}", token, pid, started_at(pid) or 0.0)

    def client(self, record: Record) -> Any:
        """The module `ray`, connected to the cluster. Raises `ClusterError`."""
        os.environ.update(token_environment(folder(), record.token))
        import ray

        if not ray.is_initialized():
            _read_token_again()
            host = record.address.rpartition(":")[0]
            try:
                ray.init(address=record.address, _node_ip_address=host, log_to_driver=True)
            except ConnectionError as error:
                raise ClusterError(
                    "Ray on this machine does not answer: stop the cluster and start it again."
                ) from error
        return ray


def _read_token_again() -> None:
    """Ray reads the variables of `token_environment` once, when it is imported."""
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
