"""Finds EBS volumes by serial, because device names are not stable."""

from __future__ import annotations

import asyncio
from pathlib import Path


class VolumeError(Exception):
    """The volume did not appear; the message is for people and names it."""


async def find_volume(devices: Path, volume_id: str, seconds: float) -> Path:
    """The volume's device, once it appears. Raises `VolumeError` after `seconds`."""
    if not volume_id.startswith("vol-") or not volume_id[4:].isalnum():
        raise VolumeError(f"the lease names no volume: {volume_id!r}")
    serial = volume_id.replace("-", "", 1)
    path = devices / f"nvme-Amazon_Elastic_Block_Store_{serial}"
    try:
        async with asyncio.timeout(seconds):
            # Polled, because only root can subscribe to udev events.
            while not await asyncio.to_thread(path.exists):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise VolumeError(f"volume {volume_id} did not appear in {seconds:.0f} s") from None
    return path
