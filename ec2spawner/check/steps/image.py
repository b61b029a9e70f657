"""What instances boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...config import small_disks
from ...core.instances.image_systems import image_system
from ...core.profiles.profiles import InstanceType
from ...hub.spawn.user_data import PUBLISHED_PACKAGE
from ...provisioner.model.cloud.image import Image
from ..finding import Finding
from ..topics import Topic
from ..verdicts.image import judge_agent, judge_disk, judge_driver, judge_image, judge_system
from .context import Context, ask


async def check_image(context: Context, findings: list[Finding]) -> Image | None:
    """Findings on the image; returns what the option resolves to."""
    options = context.options
    if invalid := context.invalid(Topic.IMAGE, "image", "architecture"):
        findings.append(invalid)
        return None
    fix = (
        "c.EC2Spawner.image: an image of this region and of c.EC2Spawner.architecture that the "
        "account may use, by id, by name and owners, or by SSM parameter"
    )
    query = options.image.query(options.architecture)
    image = await ask(findings, Topic.IMAGE, context.cloud.find_image(query), fix)
    if image is None:
        return None
    package = options.agent_package or PUBLISHED_PACKAGE
    stock = context.installs_at_boot
    system = image_system(image.name, query.parameter)
    findings += [
        judge_image(image, context.now),
        judge_system(system, image.name, installs_at_boot=stock),
        *judge_disk(image.root_gib, small_disks(options, image)),
        judge_agent(stock, package),
    ]
    return image


def check_driver(
    image: Image | None, profiles: Mapping[str, Sequence[InstanceType]], findings: list[Finding]
) -> None:
    """Whether the image's driver is one for the GPUs of the profiles."""
    if image is not None and (found := judge_driver(image, profiles)) is not None:
        findings.append(found)
