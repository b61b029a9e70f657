"""Instances of the embedded EC2 whose agents run in this process instead of their own.

The last stage of cloud-init on such an instance is two processes of a few milliseconds: it writes
where its metadata service and its devices are into a FIFO, and sleeps. User-data is not run, so a
figure shows what the hub and EC2 do, not what sixty interpreters need of two cores. `tests/boot`
and the bench `spawn` run all of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.scale.rig.http_client import Connection, Response
from tests.polling import pause

FIFO = "booted"

CLOUD_INIT = f"""#!/bin/sh
printf '%s %s\\n' "$AWS_EC2_METADATA_SERVICE_ENDPOINT" "$EC2SPAWNER_DEVICES" >"${{0%/*}}/{FIFO}"
exec sleep infinity
"""
"""A line is shorter than PIPE_BUF, so lines of several instances do not mix."""

TOKEN_SECONDS = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}


class EmbeddedMachine:
    """An instance of the embedded EC2, from outside: its metadata service and its devices."""

    def __init__(self, endpoint: str, devices: Path) -> None:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        assert parts.port is not None
        self._metadata = Connection(parts.hostname, parts.port)
        self._root = parts.path.rstrip("/")
        self._devices = devices

    async def identity(self) -> tuple[str, str]:
        """The identity document and its signature."""
        token = await self._ask("PUT", "api/token", TOKEN_SECONDS)
        headers = {"X-aws-ec2-metadata-token": token.body.decode()}
        root = "dynamic/instance-identity"
        document = (await self._ask("GET", f"{root}/document", headers)).body.decode()
        signature = (await self._ask("GET", f"{root}/rsa2048", headers)).body.decode()
        return document, "".join(signature.split())

    async def wait_for_volume(self, volume_id: str) -> None:
        """Return when the volume is among the devices."""
        serial = volume_id.replace("-", "")
        waited = 0.0
        while not any(serial in device.name for device in self._devices.iterdir()):
            seconds = pause(waited)
            await asyncio.sleep(seconds)
            waited += seconds

    async def power_off(self) -> None:
        """Press the instance's power button."""
        await self._ask_root("PUT", f"{self._root}/embedded/power/off", {})
        self._metadata.close()

    async def _ask(self, method: str, path: str, headers: dict[str, str]) -> Response:
        return await self._ask_root(method, f"{self._root}/latest/{path}", headers)

    async def _ask_root(self, method: str, path: str, headers: dict[str, str]) -> Response:
        return await self._metadata.request(method, path, headers=headers)


class Handover:
    """Calls `booted` for each instance that boots, until `close`."""

    def __init__(self, shims: Path, booted: Callable[[EmbeddedMachine], None]) -> None:
        """`shims`: the folder of the programs that instances find first on their PATH."""
        (shims / "cloud-init").write_text(CLOUD_INIT)
        fifo = shims / FIFO
        os.mkfifo(fifo, 0o666)
        self._booted = booted
        self._begun = b""
        # Open for writing too, or it would be at its end whenever no instance writes.
        self._descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Hear of no more instances."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        *lines, self._begun = (self._begun + os.read(self._descriptor, 65536)).split(b"\n")
        for line in lines:
            endpoint, _, devices = line.decode().partition(" ")
            self._booted(EmbeddedMachine(endpoint, Path(devices)))
