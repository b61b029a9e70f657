"""EFS file systems: a folder each, and their mount targets as EC2 shows them.

There is no EFS API here. A control call creates a file system; it has a mount target in each subnet
and persists across a stop, as volumes do. One that was not created cannot be mounted.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from ..api.moto_backend import Moto
from ..network import Network
from ..runtime.instance_runtime import FILE_SYSTEMS


class FileSystems:
    """All file systems of one embedded EC2."""

    def __init__(self, moto: Moto, network: Network, data_dir: Path) -> None:
        self._moto = moto
        self._network = network
        self._folder = data_dir / FILE_SYSTEMS

    async def restore(self) -> None:
        """Create the mount targets of the last run's file systems again."""
        for name in await asyncio.to_thread(self._made):
            await self._moto.run(lambda name=name: self._make_targets(name))  # type: ignore[misc]

    async def create(self, file_system: str) -> None:
        """Create one, unless it exists."""
        if file_system not in await asyncio.to_thread(self._made):
            await asyncio.to_thread((self._folder / file_system).mkdir, mode=0o711)
            await self._moto.run(lambda: self._make_targets(file_system))

    def _made(self) -> list[str]:
        return sorted(each.name for each in self._folder.iterdir() if each.is_dir())

    def _make_targets(self, file_system: str) -> None:
        for subnet in self._network.subnets.values():
            target = f"fsmt-{secrets.token_hex(9)[:17]}"
            self._moto.call_here(
                "CreateNetworkInterface",
                SubnetId=subnet,
                # As EFS describes its own; `ec2spawner check` finds them by it.
                Description=f"EFS mount target for {file_system} ({target})",
            )
