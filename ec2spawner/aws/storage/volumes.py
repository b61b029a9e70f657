"""EBS volumes: create, list, attach, detach, grow, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from itertools import chain, repeat
from typing import Any, Final

from ...core.tags import INTENT
from ...provisioner.model.cloud import CloudError, Volume, VolumeSpec
from ..calls.client import Answer, Client, entries
from ..tags import from_ec2, of_hub, to_ec2

ATTACH_SECONDS: Final = 60.0
"""Seconds. An attachment takes one to three; one that takes a minute hangs."""

PAUSES: Final = (0.1, 0.2, 0.4, 0.8)
"""Seconds between checks of a volume; then `LAST_PAUSE` until `ATTACH_SECONDS` are over."""
LAST_PAUSE: Final = 1.0

DEVICES: Final = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")
"""The names EC2 recommends for data volumes. A Nitro instance shows the volume under its serial
whatever its name, but the name must be free."""

_NOT_YET: Final = frozenset({"IncorrectState", "IncorrectInstanceState"})
"""The volume is still being created, or the instance does not run yet."""

_GONE_WITH_IT: Final = frozenset({"InvalidAttachment.NotFound", "InvalidInstanceID.NotFound"})


GROW_SECONDS: Final = 60.0
"""A larger size takes effect within seconds; the optimization that follows blocks nothing."""


class Volumes:
    """EBS volumes of one region."""

    client: Client

    async def create_volume(
        self, client_token: str, zone: str, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        """Create a volume, never with Multi-Attach: a file system has one writer."""
        return await self.client.call(
            "create_volume",
            _volume,
            AvailabilityZone=zone,
            **volume_request(spec),
            ClientToken=client_token,
            TagSpecifications=[{"ResourceType": "volume", "Tags": to_ec2(tags)}],
        )

    async def volume(self, volume_id: str) -> Volume | None:
        """The volume as it is now; None if EC2 does not list it."""
        found = await self.client.call("describe_volumes", _volumes, Filters=_of_id(volume_id))
        return next(iter(found), None)

    async def modify_volume(self, volume_id: str, size_gib: int) -> None:
        """Grow, and return when EC2 shows the new size.

        Raises `CloudError("Timeout", ...)`, retryable, after `GROW_SECONDS`.
        """
        await self.client.do("modify_volume", VolumeId=volume_id, Size=size_gib)
        try:
            async with asyncio.timeout(GROW_SECONDS):
                for pause in _pauses():
                    if (await _described(self.client, volume_id))["Size"] >= size_gib:
                        return
                    await asyncio.sleep(pause)
        except TimeoutError as error:
            message = f"{volume_id} has not grown to {size_gib} GiB after {GROW_SECONDS:g} s"
            raise CloudError("Timeout", message, retryable=True) from error

    async def list_volumes(self, hub: str) -> list[Volume]:
        """Every volume with the hub's tag. Raises `CloudError` unless complete."""
        found = await self.client.pages("describe_volumes", _volumes, Filters=of_hub(hub))
        return list({volume.volume_id: volume for volume in found}.values())

    async def free_volumes(self, hub: str) -> list[Volume]:
        """The hub's disks that came with an instance and are attached to none."""
        filters = [
            *of_hub(hub),
            {"Name": "status", "Values": ["available"]},
            {"Name": "tag-key", "Values": [INTENT]},
        ]
        return await self.client.pages("describe_volumes", _volumes, Filters=filters)

    async def attach_volume(self, volume_id: str, instance_id: str) -> None:
        """Attach and return when the volume is `in-use`; an existing attachment is no error.

        Raises `CloudError("VolumeInUse", ...)` while another instance holds it, and a retryable
        `CloudError("Timeout", ...)` after `ATTACH_SECONDS`.
        """
        try:
            async with asyncio.timeout(ATTACH_SECONDS):
                pauses = _pauses()
                await _ask_to_attach(self.client, volume_id, instance_id, pauses)
                for pause in pauses:
                    if await _is_attached(self.client, volume_id, instance_id):
                        return
                    await asyncio.sleep(pause)
        except TimeoutError as error:
            message = f"{volume_id} is not attached to {instance_id} after {ATTACH_SECONDS:g} s"
            raise CloudError("Timeout", message, retryable=True) from error

    async def detach_volume(self, volume_id: str, instance_id: str) -> None:
        """Detach; not attached, or attached to an instance that is gone, is no error."""
        try:
            await self.client.do(
                "detach_volume", ignore=_GONE_WITH_IT, VolumeId=volume_id, InstanceId=instance_id
            )
        except CloudError as error:
            if error.code not in _NOT_YET:
                raise
            if _holder(await _described(self.client, volume_id)) == instance_id:
                raise

    async def delete_volume(self, volume_id: str) -> None:
        """Delete; one that does not exist is no error, an attached one is."""
        await self.client.do("delete_volume", ignore={"InvalidVolume.NotFound"}, VolumeId=volume_id)


def volume_request(spec: VolumeSpec) -> dict[str, Any]:
    """CreateVolume's parameters besides the zone. Encryption is left out unless requested,
    because a snapshot or the account may require it."""
    request: dict[str, Any] = {"Size": spec.size_gib, "VolumeType": spec.volume_type}
    if spec.snapshot_id:
        request["SnapshotId"] = spec.snapshot_id
    if spec.encrypted:
        request["Encrypted"] = True
        if spec.kms_key:
            request["KmsKeyId"] = spec.kms_key
    return request


async def _ask_to_attach(
    client: Client, volume_id: str, instance_id: str, pauses: Iterator[float]
) -> None:
    devices = iter(DEVICES)
    device = next(devices)
    while True:
        try:
            await client.do(
                "attach_volume", VolumeId=volume_id, InstanceId=instance_id, Device=device
            )
        except CloudError as error:
            if _device_is_taken(error, device):
                following = next(devices, None)
                if following is None:
                    raise
                device = following
            elif error.code == "VolumeInUse":
                if _holder(await _described(client, volume_id)) != instance_id:
                    raise
                return
            elif error.code in _NOT_YET:
                await asyncio.sleep(next(pauses))
            else:
                raise
        else:
            return


async def _is_attached(client: Client, volume_id: str, instance_id: str) -> bool:
    volume = await _described(client, volume_id)
    holder = _holder(volume)
    if holder != instance_id:
        message = f"{volume_id} was detached from {instance_id} while it was being attached"
        raise CloudError("VolumeInUse", message, retryable=False)
    attachment = _attachment(volume)
    return bool(volume["State"] == "in-use" and attachment and attachment["State"] == "attached")


async def _described(client: Client, volume_id: str) -> Mapping[str, Any]:
    """The volume as EC2 describes it. By filter, not by id: that has twice the tokens."""
    volumes: Sequence[Mapping[str, Any]] = await client.call(
        "describe_volumes", lambda answer: answer["Volumes"], Filters=_of_id(volume_id)
    )
    if not volumes:
        message = f"volume {volume_id} does not exist"
        raise CloudError("InvalidVolume.NotFound", message, retryable=False)
    return volumes[0]


def _of_id(volume_id: str) -> list[dict[str, Any]]:
    return [{"Name": "volume-id", "Values": [volume_id]}]


def _attachment(volume: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The instance that holds the volume, also while it is being detached."""
    for attachment in volume.get("Attachments", ()):
        if attachment.get("State") != "detached":
            return dict(attachment)
    return None


def _holder(volume: Mapping[str, Any]) -> str | None:
    attachment = _attachment(volume)
    return None if attachment is None else attachment.get("InstanceId")


def _device_is_taken(error: CloudError, device: str) -> bool:
    return error.code == "InvalidParameterValue" and device in error.message


def _volume(volume: Answer) -> Volume:
    return Volume(
        volume_id=volume["VolumeId"],
        zone=volume["AvailabilityZone"],
        size_gib=volume["Size"],
        state=volume["State"],
        attached_to=_holder(volume),
        tags=from_ec2(volume),
        created_at=volume["CreateTime"].astimezone(UTC) if "CreateTime" in volume else None,
        volume_type=volume.get("VolumeType", ""),
    )


_volumes: Final = entries("Volumes", _volume)


def _pauses() -> Iterator[float]:
    return chain(PAUSES, repeat(LAST_PAUSE))
