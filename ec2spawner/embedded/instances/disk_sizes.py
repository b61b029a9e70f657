"""The least size of a disk: that of the snapshot it is made from. moto makes any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..api.protocol import EC2Error


def check_disk_sizes(
    mappings: Sequence[Mapping[str, Any]],
    image: Mapping[str, Any],
    snapshot_gib: Mapping[str, int],
) -> None:
    """Raises `InvalidBlockDeviceMapping` for a disk that is smaller than its snapshot.

    `mappings` are those of the launch, which replace the image's by their device; `snapshot_gib`
    has the sizes of the snapshots that they name, in GiB.
    """
    of_image = {each["DeviceName"]: each["Ebs"] for each in image.get("BlockDeviceMappings", ())}
    for mapping in mappings:
        asked = mapping.get("Ebs", {})
        own = of_image.get(mapping.get("DeviceName", ""), {})
        snapshot = asked.get("SnapshotId") or own.get("SnapshotId")
        least = snapshot_gib.get(snapshot, own.get("VolumeSize", 0))
        if asked.get("VolumeSize") is not None and asked["VolumeSize"] < least:
            raise EC2Error(
                "InvalidBlockDeviceMapping",
                f"Volume of size {asked['VolumeSize']}GB is smaller than snapshot '{snapshot}', "
                f"expect size >= {least}GB",
            )
