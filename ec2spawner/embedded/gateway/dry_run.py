"""DryRun: what EC2 validates before it answers that a request would have succeeded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..instances.actions import Instances
from ..instances.fleet import Fleets
from ..instances.group_actions import SecurityGroups
from ..instances.placement_groups import PlacementGroups
from ..storage.volumes import Volumes

Check = Callable[[Mapping[str, Any]], Awaitable[None]]


class DryRuns:
    """Answers any action with DryRun; changes nothing."""

    def __init__(
        self,
        moto: Moto,
        instances: Instances,
        fleets: Fleets,
        volumes: Volumes,
        groups: SecurityGroups,
        placement_groups: PlacementGroups,
    ) -> None:
        self._moto = moto
        self._instances = instances
        self._groups = groups
        self._checks: Mapping[str, Check] = {
            "AttachVolume": self._volume,
            "CopyVolumes": volumes.check_copy,
            "CreateFleet": fleets.check,
            "CreateLaunchTemplate": self._template_name,
            "CreatePlacementGroup": placement_groups.check_create,
            "CreateSnapshot": self._volume,
            "CreateVolume": volumes.check_create,
            "DeleteNetworkInterface": self._interface,
            "DeletePlacementGroup": placement_groups.check_delete,
            "DeleteSecurityGroup": self._deleted_group,
            "DeleteVolume": self._volume,
            "DetachVolume": self._volume,
            "GetConsoleOutput": self._instance_exists,
            "ModifyInstanceAttribute": self._attribute,
            "ModifyVolume": self._volume,
            "RunInstances": instances.check_run,
            "StartInstances": self._instances_exist,
            "StopInstances": self._instances_exist,
            "TerminateInstances": self._instances_exist,
        }

    async def refuse(self, action: str, parameters: Mapping[str, Any]) -> EC2Error:
        """The error that every valid dry run gets. Raises EC2's errors for invalid parameters."""
        check = self._checks.get(action)
        if check is not None:
            await check(parameters)
        return EC2Error(
            "DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412
        )

    async def _volume(self, parameters: Mapping[str, Any]) -> None:
        await self._moto.call("DescribeVolumes", VolumeIds=[parameters.get("VolumeId", "")])

    async def _instances_exist(self, parameters: Mapping[str, Any]) -> None:
        self._instances.check_exist(parameters)

    async def _instance_exists(self, parameters: Mapping[str, Any]) -> None:
        self._instances.check_exist({"InstanceIds": [parameters.get("InstanceId", "")]})

    async def _attribute(self, parameters: Mapping[str, Any]) -> None:
        await self._instance_exists(parameters)
        if "Groups" in parameters:
            await self._groups.check_set_of(parameters["InstanceId"], parameters["Groups"])

    async def _deleted_group(self, parameters: Mapping[str, Any]) -> None:
        await self._groups.check_delete(parameters)

    async def _interface(self, parameters: Mapping[str, Any]) -> None:
        interface_id = parameters.get("NetworkInterfaceId", "")
        await self._moto.call("DescribeNetworkInterfaces", NetworkInterfaceIds=[interface_id])

    async def _template_name(self, parameters: Mapping[str, Any]) -> None:
        name = parameters.get("LaunchTemplateName", "")
        found = await self._moto.call(
            "DescribeLaunchTemplates", Filters=[{"Name": "launch-template-name", "Values": [name]}]
        )
        if found["LaunchTemplates"]:
            raise EC2Error(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                f"Launch template name {name} already in use.",
            )
