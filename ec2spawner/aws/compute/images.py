"""Which AMI an `ImageQuery` means: an id, the newest of a name, or an SSM parameter's value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.image import Image, ImageQuery
from ..calls.client import Client, entries
from ..tags import from_ec2

DRIVER_TAG: Final = "nvidia-driver"
"""The tag of an image that holds the version of its NVIDIA driver."""

SEARCH_SECONDS: Final = 60.0
"""Seconds for all pages of a search by name: `*` of all owners matches 100,000 images."""

_DRIVER: Final = re.compile(
    r"(?:nvidia|driver).{0,60}?(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{2})?)", re.I
)
"""`NVIDIA driver 570.133.20`: of drivers since 2017, the first number has three digits; no CUDA,
kernel, Ubuntu or date looks like that."""

_NOT_FOUND: Final = "InvalidAMIID.NotFound"
_ID: Final = re.compile(r"ami-[0-9a-z]+")


async def find_image(client: Client, query: ImageQuery) -> Image:
    """The newest available image that matches the query and its architecture.

    Raises `CloudError("InvalidAMIID.NotFound", ...)`, not retryable, if there is none: the
    message says what was searched and what is wrong with what was found.
    """
    if query.name:
        return await _newest(client, query)
    if query.parameter:
        image_id = await _of_parameter(client, query.parameter)
        which = f"image {image_id} of SSM parameter {query.parameter}"
        return await _by_id(client, image_id, query.architecture, which)
    which = f"image {query.image_id}"
    return await _by_id(client, query.image_id, query.architecture, which)


async def _newest(client: Client, query: ImageQuery) -> Image:
    owners = f"owned by {' or '.join(query.owners)}" if query.owners else "of any owner"
    only: dict[str, Any] = {"Owners": list(query.owners)} if query.owners else {}
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            found = await client.pages(
                "describe_images",
                entries("Images", _image),
                Filters=[
                    {"Name": "name", "Values": [query.name]},
                    {"Name": "architecture", "Values": [query.architecture]},
                    {"Name": "state", "Values": ["available"]},
                ],
                **only,
            )
    except TimeoutError as error:
        message = f"the images named {query.name!r} {owners} are too many to list: narrow the name"
        raise CloudError("Timeout", message, retryable=True) from error
    bootable = [image for image in found if image.root_device]
    if not bootable:
        raise _no_image(f"there is no image named {query.name!r} {owners} for {query.architecture}")
    return max(bootable, key=lambda image: (image.created_at or _NEVER, image.image_id))


async def _of_parameter(client: Client, name: str) -> str:
    try:
        value = await client.call(
            "get_parameter",
            lambda answer: str(answer["Parameter"]["Value"]).strip(),
            service="ssm",
            Name=name,
        )
    except CloudError as error:
        if error.code not in ("ParameterNotFound", "ParameterVersionNotFound"):
            raise
        raise _no_image(f"SSM parameter {name} does not exist in this region") from error
    if not _ID.fullmatch(value):
        raise _no_image(f"SSM parameter {name} holds no image's id: {value[:60]!r}")
    return value


async def _by_id(client: Client, image_id: str, architecture: str, which: str) -> Image:
    described: Sequence[Mapping[str, Any]] = await client.call(
        "describe_images",
        lambda answer: list(answer["Images"]),
        ImageIds=[image_id],
        IncludeDeprecated=True,
    )
    for each in described:
        image, state = _image(each), each.get("State", "available")
        if state != "available":
            raise _no_image(f"{which} is {state}")
        if image.architecture != architecture:
            raise _no_image(f"{which} is for {image.architecture}, not for {architecture}")
        if image.root_device:
            return image
    raise _no_image(f"{which} does not exist in this region or has no root device")


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def _image(described: Mapping[str, Any]) -> Image:
    return Image(
        image_id=described["ImageId"],
        name=described.get("Name", ""),
        created_at=_instant(described.get("CreationDate", "")),
        architecture=described.get("Architecture", ""),
        root_device=described.get("RootDeviceName", ""),
        driver=driver_of(described),
        root_gib=_root_gib(described),
    )


def _root_gib(described: Mapping[str, Any]) -> int:
    """Size of the root device's snapshot, in GiB; 0 where the image does not say it."""
    for mapping in described.get("BlockDeviceMappings", ()):
        if mapping.get("DeviceName") == described.get("RootDeviceName"):
            return int(mapping.get("Ebs", {}).get("VolumeSize") or 0)
    return 0


def driver_of(described: Mapping[str, Any]) -> str:
    """Version of the NVIDIA driver by the image's tag, description or name; else empty."""
    tagged = from_ec2(described).get(DRIVER_TAG)
    if tagged:
        return tagged
    for text in (described.get("Description", ""), described.get("Name", "")):
        if said := _DRIVER.search(text):
            return said[1]
    return ""


def _instant(text: str) -> datetime | None:
    """EC2 writes `2026-10-09T09:42:47.000Z`; None if the text is not a date."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)


def _no_image(message: str) -> CloudError:
    return CloudError(_NOT_FOUND, message, retryable=False)
