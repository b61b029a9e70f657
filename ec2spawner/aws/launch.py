"""Launches: a launch template named by its content, and one CreateFleet of type `instant`.

The functions are pure: a request makes the same call every time, which a replay after a crash
depends on (EC2 compares the parameters of a call whose ClientToken it knows).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..core.names import launch_key
from ..provisioner.cloud import (
    CloudError,
    LaunchAnswer,
    Launched,
    LaunchError,
    LaunchRequest,
    LaunchSpec,
)
from ..wire import Market
from .client import Answer, Client
from .describe import root_device_of, zones_of
from .tags import OF_EVERY_LAUNCH, to_ec2

MAX_OVERRIDES: Final = 300
"""Offers in one call: EC2's quota for launch specifications of a fleet."""

_TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
_TEMPLATE_GONE: Final = frozenset(
    {"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"}
)


class Fleets:
    """Launch calls, and what they need to know: zones, root devices, templates that exist.

    None of it changes in the life of a hub but a template that someone deletes, and EC2 tells.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._zones: dict[str, str] = {}
        self._root_devices: dict[str, str] = {}
        self._templates: set[str] = set()

    async def zones_of(self, subnets: Sequence[str]) -> dict[str, str]:
        """Subnet id -> availability zone; asked once."""
        unknown = [subnet for subnet in dict.fromkeys(subnets) if subnet not in self._zones]
        if unknown:
            self._zones.update(await zones_of(self._client, unknown))
        return {subnet: self._zones[subnet] for subnet in subnets}

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """One CreateFleet; a second one only where the template was deleted under our feet."""
        zones = await self.zones_of(request.spec.subnets)
        data = template_data(
            request.spec, await self._root_device(request.spec.image_id), request.tags
        )
        name = template_name(data)
        await self._ensure_template(name, data, request.tags)
        call = fleet_request(request, name, zones)
        try:
            answer = await self._create_fleet(call, request.market, zones)
            if answer.instances or not _is_template_gone(answer):
                return answer
            # EC2 has recorded that answer under the token and would give it again.
            call["ClientToken"] = f"{request.client_token}-2"
        except CloudError as error:
            if error.code not in _TEMPLATE_GONE:
                raise
        self._templates.discard(name)
        await self._ensure_template(name, data, request.tags)
        return await self._create_fleet(call, request.market, zones)

    async def _root_device(self, image_id: str) -> str:
        if image_id not in self._root_devices:
            self._root_devices[image_id] = await root_device_of(self._client, image_id)
        return self._root_devices[image_id]

    async def _ensure_template(
        self, name: str, data: Mapping[str, Any], tags: Mapping[str, str]
    ) -> None:
        if name in self._templates:
            return
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
        self._templates.add(name)

    async def _create_fleet(
        self, call: Mapping[str, Any], market: Market, zones: Mapping[str, str]
    ) -> LaunchAnswer:
        # One attempt: InsufficientInstanceCapacity comes as an HTTP 500, which botocore repeats.
        return await self._client.call(
            "create_fleet", lambda answer: launch_answer(answer, market, zones), attempts=1, **call
        )


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
            }
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


def template_name(data: Mapping[str, Any]) -> str:
    """Equal content, equal name: a template is never changed, so never out of date."""
    return f"ec2spawner-{launch_key(json.dumps(data, sort_keys=True))}"


def fleet_request(
    request: LaunchRequest, template: str, zones: Mapping[str, str]
) -> dict[str, Any]:
    """CreateFleet's parameters. A part of `count` is welcome: no minimum is set."""
    tags = to_ec2(request.tags)
    call: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": request.client_token,
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": request.count,
            "DefaultTargetCapacityType": request.market.value,
        },
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "1"},
                "Overrides": _overrides(request, zones),
            }
        ],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("fleet", "instance", "volume")
        ],
    }
    if request.market is Market.SPOT:
        call["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    else:
        # Our order of types knows what `lowest-price` does not: the admin's discounts.
        call["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    return call


def _overrides(request: LaunchRequest, zones: Mapping[str, str]) -> list[dict[str, Any]]:
    """Types times zones. EC2 refuses two subnets of one zone as duplicate pools: the first counts.

    On-demand, the zones of a type share its priority, so that EC2 picks the zone with capacity.
    """
    subnet_of: dict[str, str] = {}
    for subnet in request.spec.subnets:
        subnet_of.setdefault(zones[subnet], subnet)
    types = dict.fromkeys(request.spec.instance_types)
    overrides: list[dict[str, Any]] = []
    for priority, instance_type in enumerate(types):
        for subnet in subnet_of.values():
            override = {"InstanceType": instance_type, "SubnetId": subnet}
            if request.market is Market.ON_DEMAND:
                overrides.append({**override, "Priority": float(priority)})
            else:
                overrides.append(override)
    return overrides[:MAX_OVERRIDES]


def launch_answer(answer: Answer, market: Market, zones: Mapping[str, str]) -> LaunchAnswer:
    """The instances and the errors of CreateFleet's answer: there can be both."""
    return LaunchAnswer(
        instances=tuple(
            _launched(group, instance_id, market, zones)
            for group in answer.get("Instances", ())
            for instance_id in group.get("InstanceIds", ())
        ),
        errors=tuple(_error(error, zones) for error in answer.get("Errors", ())),
    )


def _launched(
    group: Mapping[str, Any], instance_id: str, market: Market, zones: Mapping[str, str]
) -> Launched:
    override = _override_of(group)
    return Launched(
        instance_id=instance_id,
        instance_type=group.get("InstanceType") or override.get("InstanceType", ""),
        zone=_zone(override, zones),
        market=Market(group.get("Lifecycle") or market),
    )


def _error(error: Mapping[str, Any], zones: Mapping[str, str]) -> LaunchError:
    override = _override_of(error)
    return LaunchError(
        code=error.get("ErrorCode") or "Unknown",
        message=error.get("ErrorMessage", ""),
        instance_type=override.get("InstanceType", ""),
        subnet=override.get("SubnetId", ""),
        zone=_zone(override, zones),
    )


def _override_of(group: Mapping[str, Any]) -> Mapping[str, Any]:
    override: Mapping[str, Any] = group.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return override


def _zone(override: Mapping[str, Any], zones: Mapping[str, str]) -> str:
    return override.get("AvailabilityZone") or zones.get(override.get("SubnetId", ""), "")


def _is_template_gone(answer: LaunchAnswer) -> bool:
    return any(error.code in _TEMPLATE_GONE for error in answer.errors)


def _shared(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return to_ec2({key: value for key, value in tags.items() if key in OF_EVERY_LAUNCH})
