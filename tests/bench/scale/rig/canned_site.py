"""A hub before the canned EC2: thousands of servers, of which only the hub costs anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.embedded.runtime.instance import SimulatedInstance
from tests.bench.scale.rig.canned_ec2 import CannedEC2
from tests.bench.scale.rig.canned_resources import CannedInstance
from tests.bench.scale.rig.site import START_TIMEOUT, Site
from tests.harness import until
from tests.polling import pause


class CannedMachine:
    """An instance of the canned EC2, from inside."""

    def __init__(self, ec2: CannedEC2, instance: CannedInstance, signer: IdentitySigner) -> None:
        self._ec2 = ec2
        self._instance = instance
        self._signer = signer

    async def identity(self) -> tuple[str, str]:
        """The identity document and its signature."""
        instance = self._instance
        document = SimulatedInstance(
            instance.instance_id,
            instance.instance_type,
            instance.zone,
            "us-east-1",
            instance.market,
            instance.address,
            instance.image_id,
            instance.account,
            "x86_64",
            instance.launched_at,
            b"",
        ).identity_document()
        signature = await asyncio.to_thread(self._signer.sign, document.encode())
        return document, "".join(signature.split())

    async def wait_for_volume(self, volume_id: str) -> None:
        """Return when the volume is attached."""
        waited = 0.0
        while volume_id not in self._instance.volumes.values():
            seconds = pause(waited)
            await asyncio.sleep(seconds)
            waited += seconds

    async def power_off(self) -> None:
        """End the instance."""
        self._ec2.terminate(self._instance)


class CannedSite(Site):
    """Its embedded EC2 answers for types, prices and images; instances are canned."""

    def __init__(
        self, directory: Path, boot_seconds: float, options: dict[str, Any] | None = None
    ) -> None:
        super().__init__(directory, boot_seconds, options)
        self._boot_seconds = boot_seconds
        self._directory = directory

    async def _open_ec2(self) -> None:
        self._signer = await asyncio.to_thread(IdentitySigner, self._directory)
        self.ec2 = CannedEC2(self.embedded.described, self._launched)
        self._stack.callback(self.ec2.listen())
        self._options |= {
            "endpoint_url": self.ec2.url,
            "certificate": str(self._signer.certificate_path),
        }

    def _launched(self, instance: CannedInstance) -> None:
        machine = CannedMachine(self.ec2, instance, self._signer)
        self.agents.boot(machine, self._boot_seconds, partial(self.ec2.run, instance))

    async def calls(self, since: int = 0) -> list[dict[str, Any]]:
        """The calls of EC2 received, without the first `since`."""
        return list(self.ec2.calls)[since:]

    async def stop(self, users: Iterable[str]) -> None:
        """Stop these users' servers, and return when no instance is left."""
        await self._request_stops(users)

        async def none_left() -> bool:
            return all(each.ended_at for each in self.ec2.instances.values())

        await until(none_left, START_TIMEOUT, "all instances to end")
