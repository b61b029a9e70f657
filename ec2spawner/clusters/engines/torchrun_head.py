"""torchrun's rendezvous on the notebook's instance."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from importlib import metadata
from typing import Final

from ...reserved_ports import reserved_ports
from ..errors import ClusterError
from ..run_folder import Record, folder, started_at
from . import engine_process
from .rendezvous_store import STARTED


class TorchrunHead:
    """torchrun as the engine of a cluster.

    The head hosts the rendezvous of all runs and does not train: a run that takes all memory ends
    no notebook, and no interruption of a worker ends the rendezvous.
    """

    name: Final = "torchrun"

    def version(self) -> str:
        """Of the kernel's own PyTorch. Raises `ClusterError` without one."""
        try:
            return metadata.version("torch")
        except metadata.PackageNotFoundError:
            raise ClusterError(
                "This kernel has no PyTorch. Use a kernel that has it, or install it with: %pip "
                "install torch, and restart the kernel. Workers need the same version in their "
                "image."
            ) from None

    def start(self, host: str) -> Record:
        """Start the store at the instance's private address. Raises `ClusterError`."""
        version, token = self.version(), secrets.token_hex(32)
        with reserved_ports(1, host) as [port]:
            argv = (
                *(sys.executable, "-P", "-m", "ec2spawner.clusters.engines.rendezvous_store"),
                *(host, str(port)),
            )
            pid = engine_process.start(argv, os.environ, folder() / "engine.log", STARTED)
        return Record(
            engine=self.name,
            version=version,
            address=f"{host}:{port}",
            token=token,
            pid=pid,
            started=started_at(pid) or 0.0,
            python_version=platform.python_version(),
        )

    def disconnect(self, record: Record) -> None:
        """Nothing: a kernel only reads what the workers report."""
