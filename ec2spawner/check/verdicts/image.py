"""What instances boot from, and whether ec2spawner will be on them. Pure."""

from __future__ import annotations

from datetime import datetime

from ...provisioner.model.cloud import Image
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
