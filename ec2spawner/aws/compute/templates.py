"""Launch templates: named by the hash of their content, so never changed and never out of date.

An unused template is deleted, and created again when it is needed.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ...core.names import launch_key
from ...core.offers.launch_errors import TEMPLATE_GONE
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.launch import DATA_DEVICES, DataVolume, LaunchSpec
from ..calls.client import Answer, Client, entries
from ..tags import OF_EVERY_LAUNCH, from_ec2, of_store, to_ec2
from .capacity_reservations import BLOCK

TEMPLATES_PAGE: Final = 200
"""Templates per page, EC2's maximum: a template without its data is small."""

MAX_DELETED: Final = 100
"""Templates deleted at a time. Each is a call, and launches spend from the same kind of bucket; a
hub that makes more in a day than this still catches up, day by day."""

NEW_SECONDS: Final = 20.0
"""For so long after its creation a template may be unknown to other calls. "Eventual consistency in
the Amazon EC2 API" names no bound; observed lags are seconds."""

_TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"


class Templates:
    """The templates that this process knows to exist, and the root devices of their images.

    If someone deletes a template while the hub runs, EC2 reports it at the next launch.
    """

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._root_devices: dict[str, str] = {}
        self._used: dict[str, datetime] = {}
        """Name -> when it was last used."""
        self._made: dict[str, float] = {}
        """Name -> when it was last created, or found to exist, on the loop's clock in seconds."""

    def know_root_device(self, image_id: str, root_device: str) -> None:
        """Remember the root device of an image that was looked up, to not read it again."""
        self._root_devices[image_id] = root_device

    async def ensure(
        self,
        spec: LaunchSpec,
        tags: Mapping[str, str],
        reservation: str = "",
        *,
        is_block: bool = False,
    ) -> str:
        """The name of the template for launches of this spec, created if it does not exist: into
        this capacity reservation, which may be a Capacity Block, or into any capacity."""
        root_device = await self._root_device(spec.image_id)
        data = template_data(spec, root_device, tags, reservation)
        if is_block:
            data |= _into_block(reservation)
        name = template_name(data)
        if name not in self._used:
            await self._create(name, data, tags)
        self._used[name] = self._now()
        return name

    def forget(self, name: str) -> None:
        """Forget a template that someone deleted, so that the next launch creates it again."""
        self._used.pop(name, None)

    def is_new(self, name: str) -> bool:
        """Whether a call may not know it yet: EC2 has confirmed it within `NEW_SECONDS`."""
        made = self._made.get(name)
        return made is not None and asyncio.get_running_loop().time() - made < NEW_SECONDS

    async def delete_old(self, hub: str, store_id: str, before: datetime) -> int:
        """Delete this store's templates that were created before `before` and not used since.

        Returns how many."""
        found = await list_templates(self._client, of_store(hub, store_id))
        deleted = tried = 0
        for template in sorted(found, key=lambda each: each.created_at):
            # Checked for each: a launch may use one while another is being deleted.
            used_at = self._used.get(template.name, template.created_at)
            if max(template.created_at, used_at) < before and tried < MAX_DELETED:
                tried += 1
                deleted += await self._delete(template)
        return deleted

    async def _delete(self, template: Template) -> bool:
        self.forget(template.name)
        return await self.delete(template.template_id)

    async def delete(self, template_id: str) -> bool:
        """Delete a template; False if it no longer existed."""
        return await self._client.do(
            "delete_launch_template", ignore=TEMPLATE_GONE, LaunchTemplateId=template_id
        )

    async def _create(self, name: str, data: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        await self._client.do(
            "create_launch_template",
            ignore={_TEMPLATE_EXISTS},
            LaunchTemplateName=name,
            LaunchTemplateData=data,
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": _shared(tags)}],
        )
        self._made[name] = asyncio.get_running_loop().time()

    async def _root_device(self, image_id: str) -> str:
        if image_id not in self._root_devices:
            self._root_devices[image_id] = await _root_device_of(self._client, image_id)
        return self._root_devices[image_id]


async def _root_device_of(client: Client, image_id: str) -> str:
    """Device name of the image's root disk, such as `/dev/sda1`.

    Raises `CloudError("InvalidAMIID.NotFound", ...)` if there is no such image.
    """
    names = await client.call(
        "describe_images",
        entries("Images", lambda image: image.get("RootDeviceName")),
        ImageIds=[image_id],
        IncludeDeprecated=True,
    )
    if not names or not names[0]:
        message = f"image {image_id} does not exist in this region or has no root device"
        raise CloudError("InvalidAMIID.NotFound", message, retryable=False)
    return str(names[0])


def template_data(
    spec: LaunchSpec, root_device: str, tags: Mapping[str, str], reservation: str = ""
) -> dict[str, Any]:
    """The settings that only a launch template has, and those that all instances of the spec share.

    No tags for `spot-instances-request`: with them on-demand launches from it fail.
    """
    data: dict[str, Any] = {
        "ImageId": spec.image_id,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
        },
        "BlockDeviceMappings": [
            {
                "DeviceName": root_device,
                "Ebs": {
                    "VolumeSize": spec.disk_gib,
                    "VolumeType": "gp3",
                    "Encrypted": True,
                    "DeleteOnTermination": True,
                },
            },
            *map(_data_volume, DATA_DEVICES, spec.data_volumes),
        ],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": _shared(tags)}],
    }
    if spec.user_data:
        data["UserData"] = base64.b64encode(spec.user_data.encode("utf-8")).decode("ascii")
    if spec.security_groups:
        data["SecurityGroupIds"] = list(spec.security_groups)
    if spec.instance_profile:
        kind = "Arn" if spec.instance_profile.startswith("arn:") else "Name"
        data["IamInstanceProfile"] = {kind: spec.instance_profile}
    if spec.key_name:
        data["KeyName"] = spec.key_name
    if spec.placement_group:
        data["Placement"] = {"GroupName": spec.placement_group}
        # Else EC2 takes places of open reservations that match, which are for servers.
        data["CapacityReservationSpecification"] = {"CapacityReservationPreference": "none"}
    if reservation:
        # Without the preference, EC2 promises nothing about a reservation that is full.
        data["CapacityReservationSpecification"] = {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        }
    return data


def _into_block(reservation: str) -> dict[str, Any]:
    """What a template for a Capacity Block has of its own, as in EC2's tutorial: launches into a
    block never fall back to other capacity, so there is no preference."""
    return {
        "InstanceMarketOptions": {"MarketType": BLOCK},
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        },
    }


def _data_volume(device: str, volume: DataVolume) -> dict[str, Any]:
    """As large as its snapshot and encrypted if that is; it goes with its instance."""
    return {
        "DeviceName": device,
        "Ebs": {"SnapshotId": volume.snapshot, "VolumeType": "gp3", "DeleteOnTermination": True},
    }


def template_name(data: Mapping[str, Any]) -> str:
    """The template's name: equal content has an equal name."""
    return f"ec2spawner-{launch_key(json.dumps(data, sort_keys=True))}"


@dataclass(frozen=True, slots=True)
class Template:
    """One that exists."""

    template_id: str
    name: str
    created_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)


async def list_templates(client: Client, which: Sequence[Mapping[str, Any]]) -> list[Template]:
    """Every launch template that matches these filters."""
    return await client.pages(
        "describe_launch_templates",
        entries("LaunchTemplates", _template),
        page=TEMPLATES_PAGE,
        Filters=which,
    )


def _template(template: Answer) -> Template:
    return Template(
        template["LaunchTemplateId"],
        template["LaunchTemplateName"],
        template["CreateTime"],
        from_ec2(template),
    )


def _shared(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return to_ec2({key: value for key, value in tags.items() if key in OF_EVERY_LAUNCH})
