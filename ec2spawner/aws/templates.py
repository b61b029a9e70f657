"""Launch templates: named by the hash of their content, so never changed and never out of date.

One that has served its time is deleted; one that is needed again is made again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ..core.names import launch_key
from ..provisioner.model.cloud import (
    DATA_DEVICES,
    CloudError,
    DataVolume,
    LaunchSpec,
)
from .client import Answer, Client
from .describe import root_device_of
from .tags import (
    OF_EVERY_LAUNCH,
    from_ec2,
    of_store,
    to_ec2,
)

TEMPLATES_PAGE: Final = 200
"""EC2's maximum: a template without its data is small."""

MAX_DELETED: Final = 100
"""Templates deleted at a time. Each is a call, and launches spend from the same kind of bucket; a
hub that makes more in a day than this still catches up, day by day."""

TEMPLATE_GONE: Final = frozenset(
    {"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"}
)
_TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"


class Templates:
    """The templates that this process knows to exist, and the root devices they speak of.

    What of it changes under a running hub is a template that someone deletes, which EC2 reports.
    """

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._root_devices: dict[str, str] = {}
        self._used: dict[str, datetime] = {}
        """Name -> when it was last asked for."""

    def know_root_device(self, image_id: str, root_device: str) -> None:
        """Whoever looked an image up has read its root device too: no need to ask again."""
        self._root_devices[image_id] = root_device

    async def ensure(self, spec: LaunchSpec, tags: Mapping[str, str]) -> str:
        """Name of the template for launches of this spec, which exists now."""
        data = template_data(spec, await self._root_device(spec.image_id), tags)
        name = template_name(data)
        if name not in self._used:
            await self._create(name, data, tags)
        self._used[name] = self._now()
        return name

    def forget(self, name: str) -> None:
        """It was deleted under our feet: make it again when it is asked for."""
        self._used.pop(name, None)

    async def delete_old(self, hub: str, store_id: str, before: datetime) -> int:
        """Delete this store's templates made before then and not asked for since. How many."""
        found = await list_templates(self._client, of_store(hub, store_id))
        deleted = tried = 0
        for template in sorted(found, key=lambda each: each.created_at):
            # Looked up for each: a launch may ask for one while another is deleted.
            used_at = self._used.get(template.name, template.created_at)
            if max(template.created_at, used_at) < before and tried < MAX_DELETED:
                tried += 1
                deleted += await self._delete(template)
        return deleted

    async def _delete(self, template: Template) -> bool:
        self.forget(template.name)
        return await self.delete(template.template_id)

    async def delete(self, template_id: str) -> bool:
        """False where it did not exist any more."""
        try:
            await self._client.call(
                "delete_launch_template", lambda _: None, LaunchTemplateId=template_id
            )
        except CloudError as error:
            if error.code not in TEMPLATE_GONE:
                raise
            return False
        return True

    async def _create(self, name: str, data: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        try:
            await self._client.call(
                "create_launch_template",
                lambda _: None,
                LaunchTemplateName=name,
                LaunchTemplateData=data,
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": _shared(tags)}],
            )
        except CloudError as error:
            if error.code != _TEMPLATE_EXISTS:
                raise

    async def _root_device(self, image_id: str) -> str:
        if image_id not in self._root_devices:
            self._root_devices[image_id] = await root_device_of(self._client, image_id)
        return self._root_devices[image_id]


def template_data(spec: LaunchSpec, root_device: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """What only a launch template can say, and what all instances of the spec share.

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
    return data


def _data_volume(device: str, volume: DataVolume) -> dict[str, Any]:
    """As large as its snapshot and encrypted if that is; it goes with its instance."""
    return {
        "DeviceName": device,
        "Ebs": {
            "SnapshotId": volume.snapshot,
            "VolumeType": "gp3",
            "DeleteOnTermination": True,
        },
    }


def template_name(data: Mapping[str, Any]) -> str:
    """Equal content, equal name."""
    return f"ec2spawner-{launch_key(json.dumps(data, sort_keys=True))}"


@dataclass(frozen=True, slots=True)
class Template:
    """One that exists."""

    template_id: str
    name: str
    created_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)


async def list_templates(client: Client, which: Sequence[Mapping[str, Any]]) -> list[Template]:
    """Every launch template that these filters mean."""
    return await client.pages(
        "describe_launch_templates", _templates, page=TEMPLATES_PAGE, Filters=which
    )


def _templates(answer: Answer) -> Sequence[Template]:
    return [
        Template(
            template["LaunchTemplateId"],
            template["LaunchTemplateName"],
            template["CreateTime"],
            from_ec2(template),
        )
        for template in answer["LaunchTemplates"]
    ]


def _shared(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return to_ec2({key: value for key, value in tags.items() if key in OF_EVERY_LAUNCH})
