"""EBS volumes: moto's records, the instance runtime's folders, and a register that persists.

moto's state is in memory. Volumes from CreateVolume are saved, so that homes persist when an
embedded EC2 is stopped and started again: same ids, tags, zones and files.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..instances.account import Account
from ..instances.lifecycle import Lifecycles
from ..market.type_facts import instance_type_facts
from ..runtime.instance_runtime import InstanceRuntime
from . import volume_rules
from .snapshots import Snapshots

PERSISTED = ("size", "volume_type", "encrypted", "iops", "throughput")

GROW_SECONDS = 0.5
"""Seconds from ModifyVolume until the new size takes effect. EC2 takes seconds to minutes."""

COOLDOWN = 6 * 3600.0
"""Seconds between two changes of a volume, from AWS's page on ModifyVolume."""

COPY_SECONDS = 1.0
"""Seconds for which CopyVolumes copies blocks of its source in the background: until then EC2
begins no other copy of it. Simulated: EC2 takes minutes to hours, by what was written."""

COPY_PARAMETERS = frozenset(
    (
        "ClientToken DryRun Encrypted Iops KmsKeyId Size SourceVolumeId TagSpecifications "
        "Throughput VolumeType"
    ).split()
)
"""Those of CopyVolumes that are answered; there is no Multi-Attach here."""

ATTACHABLE = ("running", "stopping", "stopped")
"""States of an instance to which a volume can be attached."""


class Volumes:
    """Answers the actions on volumes."""

    def __init__(
        self,
        moto: Moto,
        lifecycles: Lifecycles,
        runtime: InstanceRuntime,
        snapshots: Snapshots,
        account: Account,
        register: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._moto = moto
        self._snapshots = snapshots
        self._account = account
        self._clock = clock
        self._modified: dict[str, float] = {}
        """When each was last changed, on the clock."""
        self._growing: set[asyncio.Task[None]] = set()
        self._copied: dict[str, float] = {}
        """When each was last copied, on the clock."""
        self._lifecycles = lifecycles
        self._runtime = runtime
        self._register = register
        self._kept: set[str] = set()
        # One change of a volume at a time: a check and its change are one step.
        self._lock = asyncio.Lock()

    async def restore(self) -> None:
        """Load the volumes of the last run. Raises ValueError for a damaged register."""
        if not self._register.exists():
            return
        try:
            volumes = json.loads(self._register.read_text())["volumes"]
        except (ValueError, KeyError) as error:
            raise ValueError(f"{self._register} is damaged: {error}") from error
        await self._moto.run(lambda: self._restore(volumes))

    async def create(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """CreateVolume: blank or from a snapshot; raises what `check_create` raises."""
        call = {name: value for name, value in parameters.items() if name != "ClientToken"}
        await self.check_create(call)
        self._account.check_verified()
        source = call.get("SnapshotId", "")
        async with self._lock:
            answer = await self._moto.call("CreateVolume", **call)
            volume_id = answer["VolumeId"]
            self._kept.add(volume_id)
            files = source if self._snapshots.holds(source) else ""
            await self._runtime.create_volume(volume_id, files)
            await self._save()
        answer["State"] = "creating"
        return answer

    async def copy(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """CopyVolumes: files as they are now, in the zone of their volume, also while it is
        attached. Raises what `check_copy` raises."""
        await self.check_copy(parameters)
        self._account.check_verified()
        source_id = parameters["SourceVolumeId"]
        given = ("VolumeType", "Iops", "Throughput", "KmsKeyId", "TagSpecifications")
        async with self._lock:
            source = await self._describe(source_id)
            if self._clock() - self._copied.get(source_id, -COPY_SECONDS) < COPY_SECONDS:
                raise EC2Error(
                    "ConcurrentCopyVolumeLimitExceeded",
                    f"Another copy of volume '{source_id}' is in progress.",
                )
            answer = await self._moto.call(
                "CreateVolume",
                AvailabilityZone=source["AvailabilityZone"],
                Size=parameters.get("Size") or source["Size"],
                Encrypted=True,
                **{name: parameters[name] for name in given if name in parameters},
            )
            volume_id = answer["VolumeId"]
            self._kept.add(volume_id)
            await self._runtime.copy_volume(source_id, volume_id)
            await self._save()
            self._copied[source_id] = self._clock()
        return {"Volumes": [{**answer, "State": "creating", "SourceVolumeId": source_id}]}

    async def check_copy(self, parameters: Mapping[str, Any]) -> None:
        """Raises CopyVolumes's errors for an invalid request."""
        source_id = parameters.get("SourceVolumeId")
        if not source_id:
            raise EC2Error("MissingParameter", "The request must contain the parameter volume")
        source = await self._describe(source_id)
        if unknown := sorted(set(parameters) - COPY_PARAMETERS):
            raise EC2Error("UnsupportedOperation", f"The embedded EC2 has no {unknown[0]}.")
        if not source["Encrypted"] and not parameters.get("Encrypted"):
            raise EC2Error(
                "UnsupportedOperation",
                f"Volume '{source_id}' is not encrypted. Only encrypted copies are supported.",
            )
        if source_id not in self._kept:
            raise EC2Error("UnsupportedOperation", "The embedded EC2 copies no disk of an image.")
        size = parameters.get("Size") or source["Size"]
        volume_rules.check_volume({**parameters, "Size": size})
        if size < source["Size"]:
            raise EC2Error(
                "InvalidParameterValue",
                f"The size of a copy must be at least that of its source, {source['Size']} GiB.",
            )

    async def check_create(self, parameters: Mapping[str, Any]) -> None:
        """Raises CreateVolume's errors for an invalid request."""
        volume_rules.check_volume(parameters)
        zone = parameters.get("AvailabilityZone", "")
        if await self._moto.run(lambda: self._moto.backend.get_zone_by_name(zone)) is None:
            raise EC2Error("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
        if source := parameters.get("SnapshotId"):
            await self._snapshots.check_source(source, parameters.get("Size"))

    async def delete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DeleteVolume; raises `VolumeInUse` while it is attached."""
        volume_id = parameters.get("VolumeId", "")
        async with self._lock:
            await self._moto.call("DeleteVolume", VolumeId=volume_id)
            if volume_id in self._kept:
                self._kept.discard(volume_id)
                await self._save()
                await self._runtime.delete_volume(volume_id)
        return {}

    async def default_key(self, _parameters: Mapping[str, Any]) -> dict[str, Any]:
        """AWS's own, as in an account that has chosen no other."""
        return {"KmsKeyId": "alias/aws/ebs"}

    async def modify(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Grow: the new size takes effect after `GROW_SECONDS`, and six hours must pass before
        another change. Nothing but the size can be changed."""
        volume_id, size = parameters.get("VolumeId", ""), parameters.get("Size")
        async with self._lock:
            volume = await self._describe(volume_id)
            before = volume["Size"]
            if size is None or set(parameters) - {"VolumeId", "Size"}:
                raise EC2Error("UnsupportedOperation", "The embedded EC2 changes the size only.")
            if size < before:
                raise EC2Error(
                    "InvalidParameterValue", "New size cannot be smaller than existing size"
                )
            volume_rules.check_size(volume["VolumeType"], size)
            since = self._clock() - self._modified.get(volume_id, -COOLDOWN)
            if since < GROW_SECONDS:
                raise EC2Error(
                    "IncorrectModificationState",
                    f"Cannot modify volume {volume_id} that is still in state modifying.",
                )
            if since < COOLDOWN:
                raise EC2Error(
                    "VolumeModificationRateExceeded",
                    "You've reached the maximum modification rate per volume limit. Wait at least "
                    "6 hours between modifications per EBS volume.",
                )
            self._modified[volume_id] = self._clock()
        growing = asyncio.ensure_future(self._grow(volume_id, size))
        self._growing.add(growing)
        growing.add_done_callback(self._growing.discard)
        return {
            "VolumeModification": {
                "VolumeId": volume_id,
                "ModificationState": "modifying",
                "OriginalSize": before,
                "TargetSize": size,
                "Progress": 0,
                "StartTime": datetime.now(UTC),
            }
        }

    async def _grow(self, volume_id: str, size: int) -> None:
        await asyncio.sleep(GROW_SECONDS)
        async with self._lock:
            await self._moto.run(lambda: self._set_size(volume_id, size))
            await self._save()

    def _set_size(self, volume_id: str, size: int) -> None:
        volume = self._moto.backend.volumes.get(volume_id)
        if volume is not None:
            volume.size = size

    async def close(self) -> None:
        """Cancel changes of size in progress."""
        for growing in self._growing:
            growing.cancel()
        await asyncio.gather(*self._growing, return_exceptions=True)

    async def attach(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """AttachVolume: one instance at a time, of its own zone."""
        volume_id, instance_id = parameters.get("VolumeId", ""), parameters.get("InstanceId", "")
        device = parameters.get("Device")
        if not device:
            raise EC2Error("MissingParameter", "The request must contain the parameter device")
        async with self._lock:
            life = self._lifecycles.get(instance_id)
            volume = await self._describe(volume_id)
            if volume["Attachments"]:
                raise EC2Error("VolumeInUse", f"{volume_id} is already attached to an instance")
            if volume["AvailabilityZone"] != life.instance.zone:
                raise EC2Error(
                    "InvalidVolume.ZoneMismatch",
                    f"The volume '{volume_id}' is not in the same availability zone as instance "
                    f"'{instance_id}'",
                )
            if life.state not in ATTACHABLE:
                raise EC2Error("IncorrectState", f"Instance '{instance_id}' is not 'running'.")
            if device in life.moto_instance.block_device_mapping:
                raise EC2Error(
                    "InvalidParameterValue",
                    f"Invalid value '{device}' for unixDevice. Attachment point {device} is "
                    "already in use",
                )
            facts = instance_type_facts(life.offer.instance_type, self._moto.region)
            facts.check_volumes(len(life.moto_instance.block_device_mapping) + 1)
            answer = await self._moto.call(
                "AttachVolume", VolumeId=volume_id, InstanceId=instance_id, Device=device
            )
            if volume_id in self._kept:
                await self._runtime.attach(instance_id, volume_id, is_nitro=facts.is_nitro)
        return answer

    async def detach(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DetachVolume: processes of the instance that use it are killed."""
        volume_id = parameters.get("VolumeId", "")
        async with self._lock:
            attachments = (await self._describe(volume_id))["Attachments"]
            if not attachments:
                raise EC2Error(
                    "IncorrectState", f"Volume '{volume_id}' is in the 'available' state."
                )
            attached = attachments[0]
            if parameters.get("InstanceId", attached["InstanceId"]) != attached["InstanceId"]:
                raise EC2Error(
                    "InvalidAttachment.NotFound",
                    f"The volume '{volume_id}' is not attached to instance "
                    f"'{parameters['InstanceId']}'",
                )
            # The instance loses it first: after EC2's response, none of its processes can write.
            await self._runtime.detach(attached["InstanceId"], volume_id)
            answer = await self._moto.call(
                "DetachVolume", VolumeId=volume_id, InstanceId=attached["InstanceId"]
            )
        answer["State"] = "detaching"
        return answer

    async def tags_changed(self, parameters: Mapping[str, Any]) -> None:
        """Save the tags; call it after CreateTags and DeleteTags."""
        if self._kept.intersection(parameters.get("Resources", ())):
            async with self._lock:
                await self._save()

    async def _describe(self, volume_id: str) -> dict[str, Any]:
        if not volume_id:
            raise EC2Error("MissingParameter", "The request must contain the parameter volume")
        found = await self._moto.call("DescribeVolumes", VolumeIds=[volume_id])
        return dict(found["Volumes"][0])

    async def _save(self) -> None:
        await self._moto.run(self._write_register)

    def _write_register(self) -> None:
        backend = self._moto.backend
        volumes = [
            {
                "id": volume_id,
                "zone": backend.volumes[volume_id].availability_zone,
                "created": backend.volumes[volume_id].create_time.isoformat(),
                "tags": dict(backend.tags.get(volume_id, {})),
                **{name: getattr(backend.volumes[volume_id], name) for name in PERSISTED},
            }
            for volume_id in sorted(self._kept)
        ]
        draft = self._register.with_suffix(".new")
        draft.write_text(
            json.dumps({"saved": datetime.now(UTC).isoformat(), "volumes": volumes}, indent=1)
        )
        draft.replace(self._register)

    def _restore(self, volumes: Sequence[Mapping[str, Any]]) -> None:
        """Volumes of the last run with their old ids, which no API accepts."""
        backend = self._moto.backend
        for saved in volumes:
            volume = backend.create_volume(
                zone_name=saved["zone"], **{name: saved[name] for name in PERSISTED}
            )
            del backend.volumes[volume.id]
            volume.id = saved["id"]
            volume.create_time = datetime.fromisoformat(saved["created"])
            backend.volumes[volume.id] = volume
            backend.create_tags([volume.id], saved["tags"])
            self._kept.add(volume.id)
