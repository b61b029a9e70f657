"""Images: moto's records, with the root disks that they were registered with.

moto forgets the disks of RegisterImage and shows one of 15 GiB for every image.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from .api.moto_backend import Moto


class Images:
    """Answers RegisterImage."""

    def __init__(self, moto: Moto) -> None:
        self._moto = moto

    async def register(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """RegisterImage; a root disk without a size has that of its snapshot."""
        return await self._moto.run(lambda: register_image(self._moto, parameters))


def register_image(moto: Moto, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Register in moto, and complete what moto forgets. Only inside `moto.run`."""
    answer = moto.call_here("RegisterImage", **parameters)
    image = moto.backend.amis[answer["ImageId"]]
    image.__class__ = _sized_class()
    image.root_device_name = parameters.get("RootDeviceName") or image.root_device_name
    image.architecture = parameters.get("Architecture") or image.architecture
    for mapping in parameters.get("BlockDeviceMappings") or ():
        ebs = mapping.get("Ebs", {})
        if mapping.get("DeviceName") != image.root_device_name:
            continue
        source = moto.backend.snapshots.get(ebs.get("SnapshotId"))
        if source is not None:
            image.ebs_snapshot = source
        image.ebs_snapshot.volume.size = ebs.get("VolumeSize") or image.ebs_snapshot.volume.size
    return answer


@cache
def _sized_class() -> type:
    """moto's image, whose root disk has the size of its snapshot."""
    from moto.ec2.models.amis import Ami

    class SizedImage(Ami):
        @property
        def block_device_mappings(self) -> list[dict[str, Any]]:
            (root,) = super().block_device_mappings
            size = self.ebs_snapshot.volume.size
            return [{**root, "Ebs": {**root["Ebs"], "VolumeSize": size}}]

    return SizedImage
