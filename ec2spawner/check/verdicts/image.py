"""What instances boot from, and whether ec2spawner will be on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ...config import Problem
from ...core.instances.gpu_drivers import driver_of_image, unsupported
from ...core.instances.image_systems import ImageSystem
from ...core.profiles.profiles import InstanceType
from ...provisioner.model.cloud.image import Image
from ..finding import Finding, failed, ok, unproved, warning
from ..topics import Topic

OLD_IMAGE_DAYS = 180
"""AWS deprecates Deep Learning AMIs, and stops patching them, after about so long."""


def judge_image(image: Image, now: datetime) -> Finding:
    """Warns about an image that is older than `OLD_IMAGE_DAYS`."""
    said = [image.image_id, image.name]
    age = (now - image.created_at).days if image.created_at else None
    if age is not None:
        said.append(f"{age} days old")
    said.append(f"NVIDIA driver {image.driver}" if image.driver else "driver not stated")
    text = ", ".join(part for part in said if part)
    if age is not None and age > OLD_IMAGE_DAYS:
        return warning(Topic.IMAGE, text, "bake a newer one: old images miss security fixes")
    return ok(Topic.IMAGE, text)


def judge_agent(stock: bool, package: str) -> Finding:
    """Whether ec2spawner is on a booted instance; `package` is what would be installed."""
    if not stock:
        said = "whether the image has ec2spawner in it is seen when an instance boots it"
        return unproved(Topic.AGENT, said)
    if not package:
        return failed(
            Topic.AGENT,
            "AWS's own image has no ec2spawner, and this version is not published to be installed",
            "c.EC2Spawner.image with ec2spawner baked in, or c.EC2Spawner.agent_package",
        )
    return warning(
        Topic.AGENT,
        f"AWS's own image has no ec2spawner: each instance installs {package}, which takes minutes",
        "bake an image: see docs/first-hub-on-aws.md",
    )


def judge_system(system: ImageSystem | None, image_name: str, *, installs_at_boot: bool) -> Finding:
    """What Python and user instances will have; fails where ec2spawner cannot be installed."""
    if system is None:
        said = f"the name of the image ({image_name or 'none'}) does not say which system it has"
        if not installs_at_boot:
            return ok(Topic.IMAGE_SYSTEM, f"{said}; its environment is your own")
        fix = "use an image whose system has Python 3.11 or newer, or where it can be installed"
        return unproved(Topic.IMAGE_SYSTEM, said, fix)
    python = ".".join(map(str, system.python))
    said = f"{system.name}: Python {python}, user {system.user}"
    if not installs_at_boot or system.has_python:
        return ok(Topic.IMAGE_SYSTEM, said)
    newer = "use the Ubuntu 24.04 image, or one of your own with ec2spawner in it"
    if not system.works:
        said = f"{said}: ec2spawner needs 3.11 or newer, which this system has no package of"
        return failed(Topic.IMAGE_SYSTEM, said, newer)
    said = f"{said}: too old for ec2spawner, so each instance installs another Python at boot"
    return warning(Topic.IMAGE_SYSTEM, said, newer)


def judge_disk(root_gib: int, small: Sequence[Problem]) -> list[Finding]:
    """Whether root disks hold the image's own root snapshot. `root_gib`: 0 where it is unknown.

    `small`: the options that say less.
    """
    if not root_gib:
        return [unproved(Topic.IMAGE_DISK, "the image does not say how large its root disk is")]
    if not small:
        said = f"the image needs {root_gib} GiB, and every instance has as much"
        return [ok(Topic.IMAGE_DISK, said)]
    return [failed(Topic.IMAGE_DISK, p.wrong, p.fix, name=p.option) for p in small]


def judge_driver(image: Image, profiles: Mapping[str, Sequence[InstanceType]]) -> Finding | None:
    """Whether the image's driver supports the GPUs of the profiles; None without any GPU.

    Fails where a profile has no type whose GPU works: it is paid for and cannot be used.
    """
    kinds = {kind.name: kind for each in profiles.values() for kind in each if kind.gpu}
    if not kinds:
        return None
    gpus = ", ".join(sorted({kind.gpu for kind in kinds.values()}))
    driver = driver_of_image(image.driver, image.name)
    wrong = {
        name: why
        for name, kind in sorted(kinds.items())
        if (why := unsupported(kind.gpu, driver, kind.gpu_partition))
    }
    if not wrong and driver.branch is None:
        said = f"the image does not say which driver it has for {gpus}"
        fix = "tag your image with nvidia-driver=<version>, and -grid after it for a GRID driver"
        return unproved(Topic.IMAGE_DRIVER, said, fix)
    if not wrong:
        return ok(Topic.IMAGE_DRIVER, f"{image.driver} supports {gpus}")
    dead = [
        name for name, each in profiles.items() if each and all(kind.name in wrong for kind in each)
    ]
    fix = "use an image with such a driver for these types, or leave them out"
    said = "; ".join(dict.fromkeys(wrong.values()))
    if not driver.is_known:
        fix = f"{fix}. If the image has it, tag it with nvidia-driver=<version>-grid"
        return unproved(Topic.IMAGE_DRIVER, said, fix)
    if dead:
        return failed(Topic.IMAGE_DRIVER, f"{said} (profiles: {', '.join(dead)})", fix)
    return warning(Topic.IMAGE_DRIVER, said, fix)
