"""What a notebook does with an engine, whichever it is. Its workers have `WorkerEngine`."""

from __future__ import annotations

from typing import Protocol

from ..run_folder import Record


class HeadEngine(Protocol):
    """An engine's head on the notebook's instance. `engine_process.stop` ends any."""

    @property
    def name(self) -> str:
        """As in `ec2spawner.cluster(4, engine=name)`."""

    def version(self) -> str:
        """Of the engine in the kernel's Python. Raises `ClusterError` if it cannot be used."""

    def start(self, host: str) -> Record:
        """Start the head at this address of the instance. Raises `ClusterError`."""

    def disconnect(self, record: Record) -> None:
        """Let this kernel do without that head, which is about to be ended."""
