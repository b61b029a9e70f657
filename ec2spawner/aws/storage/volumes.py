"""EBS volumes: create, list, attach, detach, grow, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from itertools import chain, repeat
from typing import Any, Final

from ...core.tags import INTENT
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.volume import Volume, VolumeSpec
from ..calls.batcher import LATER, SOON, Batcher
from ..calls.client import Answer, Client, entries
from ..tags import from_ec2, of_hub, to_ec2

ATTACH_SECONDS: Final = 60.0
"""Seconds. An attachment takes one to four, by the EBS CSI driver's measurements; one that takes a
minute hangs."""

POLL_WITHIN: Final = LATER
"""Seconds within which a change of a volume is read again: one call for all that change."""

CONFIRM_WITHIN: Final = 5.0
"""Seconds within which an attachment that EC2 has begun is read: one call for all of a wave of
starts. Nobody waits for the answer: the agent sees the device by itself."""

READ_BATCH: Final = 200
"""Volumes in one reading: the values that EC2 takes in a filter."""

PAUSES: Final = (0.1, 0.2, 0.4, 0.8)
"""Seconds before AttachVolume is repeated; then `LAST_PAUSE` until `ATTACH_SECONDS` are over."""
LAST_PAUSE: Final = 1.0

DEVICES: Final = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")
"""The names EC2 recommends for data volumes. A Nitro instance shows the volume under its serial
whatever its name, but the name must be free."""

_NOT_YET: Final = frozenset({"IncorrectState", "IncorrectInstanceState"})
"""The volume is still being created, or the instance does not run yet."""

_GONE_WITH_IT: Final = frozenset({"InvalidAttachment.NotFound", "InvalidInstanceID.NotFound"})


GROW_SECONDS: Final = 60.0
"""A larger size takes effect within seconds; the optimization that follows blocks nothing."""


Reads = Batcher[Mapping[str, Any]]
"""Volumes by id, as EC2 describes them."""


def volume_reads(client: Client) -> Reads:
    """One DescribeVolumes for all who want to know about a volume. By filter, not by id: that has
    the same tokens, and a volume that does not exist is no error for the others."""

    async def read(volume_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        which = [{"Name": "volume-id", "Values": list(volume_ids)}]
        found: Sequence[Mapping[str, Any]] = await client.pages(
            "describe_volumes", lambda answer: answer["Volumes"], page=READ_BATCH, Filters=which
        )
        return {volume["VolumeId"]: volume for volume in found}

    return Batcher(read, READ_BATCH)


class Volumes:
    """EBS volumes of one region."""

    client: Client
    volume_reads: Reads

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

    async def copy_volume(
        self, client_token: str, source: Volume, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        """Copy a volume within its zone, also while it is attached: its blocks as of the call,
        like a disk after a power cut."""
        return await self.client.call(
            "copy_volumes",
            lambda answer: _volume(answer["Volumes"][0]),
            **copy_request(source, spec),
            ClientToken=client_token,
            TagSpecifications=[{"ResourceType": "volume", "Tags": to_ec2(tags)}],
        )

    async def volume(self, volume_id: str) -> Volume | None:
        """The volume as it is now; None if EC2 does not list it."""
        found = await self.volume_reads.get(volume_id)
        return None if found is None else _volume(found)

    async def modify_volume(self, volume_id: str, size_gib: int) -> None:
        """Grow, and return when EC2 shows the new size.

        Raises `CloudError("Timeout", ...)`, retryable, after `GROW_SECONDS`.
        """
        await self.client.do("modify_volume", VolumeId=volume_id, Size=size_gib)
        try:
            async with asyncio.timeout(GROW_SECONDS):
                await self._poll(volume_id, lambda found: found["Size"] >= size_gib, POLL_WITHIN)
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
                if not await self._ask_to_attach(volume_id, instance_id):
                    done = partial(_is_attached, instance_id=instance_id)
                    await self._poll(volume_id, done, CONFIRM_WITHIN)
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
            if _holder(await self._described(volume_id)) == instance_id:
                raise

    async def delete_volume(self, volume_id: str) -> None:
        """Delete; one that does not exist is no error, an attached one is."""
        await self.client.do("delete_volume", ignore={"InvalidVolume.NotFound"}, VolumeId=volume_id)

    async def _ask_to_attach(self, volume_id: str, instance_id: str) -> bool:
        """Whether it is attached already."""
        devices, pauses = iter(DEVICES), _pauses()
        device = next(devices)
        while True:
            try:
                return await self.client.call(
                    "attach_volume",
                    lambda attachment: attachment.get("State") == "attached",
                    VolumeId=volume_id,
                    InstanceId=instance_id,
                    Device=device,
                )
            except CloudError as error:
                if _device_is_taken(error, device):
                    following = next(devices, None)
                    if following is None:
                        raise
                    device = following
                elif error.code == "VolumeInUse":
                    volume = await self._described(volume_id)
                    if _holder(volume) != instance_id:
                        raise
                    return _is_attached(volume, instance_id)
                elif error.code in _NOT_YET:
                    await self._wait_created(volume_id, pauses)
                else:
                    raise

    async def _wait_created(self, volume_id: str, pauses: Iterator[float]) -> None:
        """A pause, and more while EC2 shows that the volume is being created: readings are shared,
        and AttachVolume has few tokens."""
        while True:
            await asyncio.sleep(next(pauses))
            volume = await self.volume_reads.get(volume_id)
            if volume is None or volume["State"] != "creating":
                return

    async def _poll(
        self, volume_id: str, is_done: Callable[[Mapping[str, Any]], bool], within: float
    ) -> None:
        while True:
            if is_done(await self._described(volume_id, within)):
                return

    async def _described(self, volume_id: str, within: float = SOON) -> Mapping[str, Any]:
        volume = await self.volume_reads.get(volume_id, within)
        if volume is None:
            message = f"volume {volume_id} does not exist"
            raise CloudError("InvalidVolume.NotFound", message, retryable=False)
        return volume


def volume_request(spec: VolumeSpec) -> dict[str, Any]:
    """CreateVolume's parameters besides the zone. Encryption is left out unless requested, because
    a snapshot or the account may require it."""
    request: dict[str, Any] = {"Size": spec.size_gib, "VolumeType": spec.volume_type}
    if spec.snapshot_id:
        request["SnapshotId"] = spec.snapshot_id
    if spec.encrypted:
        request["Encrypted"] = True
        if spec.kms_key:
            request["KmsKeyId"] = spec.kms_key
    return request


def copy_request(source: Volume, spec: VolumeSpec) -> dict[str, Any]:
    """CopyVolumes' parameters. Encryption is left out where the copy has that of its source: EC2
    always encrypts the copy of an encrypted volume."""
    is_needed = not source.encrypted or spec.kms_key != ""
    request = volume_request(replace(spec, encrypted=spec.encrypted and is_needed))
    return {"SourceVolumeId": source.volume_id, **request}


def _is_attached(volume: Mapping[str, Any], instance_id: str) -> bool:
    """Raises `CloudError("VolumeInUse", ...)` where the instance does not hold it any more."""
    attachment = _attachment(volume)
    if attachment is None or attachment.get("InstanceId") != instance_id:
        message = (
            f"{volume['VolumeId']} was detached from {instance_id} while it was being attached"
        )
        raise CloudError("VolumeInUse", message, retryable=False)
    return bool(volume["State"] == "in-use" and attachment["State"] == "attached")


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
        encrypted=volume.get("Encrypted", False),
    )


_volumes: Final = entries("Volumes", _volume)


def _pauses() -> Iterator[float]:
    return chain(PAUSES, repeat(LAST_PAUSE))
