"""Root disks that are too small for the image, known once EC2 has described it."""

from __future__ import annotations

from ..provisioner.model.cloud.image import Image
from .options import Options
from .problem import Problem


def small_disks(options: Options, image: Image) -> tuple[Problem, ...]:
    """Every `disk_gib` that is smaller than the image's own root disk: EC2 would refuse each launch
    with `InvalidBlockDeviceMapping`.

    The sizes that a profile leaves to its user are not among them: they begin at the image's.
    """
    written = [
        (
            f'c.EC2Spawner.profile_list[{index}].disk_gib ("{profile.display_name}")',
            profile.disk_gib,
        )
        for index, profile in enumerate(options.profiles)
        if profile.disk_gib is not None
    ]
    if len(written) < len(options.profiles) or callable(options.profile_list):
        written.insert(0, ("c.EC2Spawner.disk_gib", options.disk_gib))
    return tuple(
        Problem(
            option,
            f"{gib} GiB is smaller than the root disk of the image, {image.root_gib} GiB "
            f"({image.image_id}, {image.name or 'without a name'}), and EC2 refuses such a launch",
            f"write {image.root_gib} or more, or choose an image with a smaller disk",
        )
        for option, gib in written
        if gib < image.root_gib
    )
