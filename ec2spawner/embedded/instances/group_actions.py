"""Security groups: what EC2 refuses where moto does not, and the groups of running instances.

Names and limits from the API reference of CreateSecurityGroup and "Amazon VPC quotas"; codes from
"Error codes for the Amazon EC2 API".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from .lifecycle import Lifecycle, Lifecycles

MAX_LENGTH: Final = 255
"""Characters of a name or description."""
MAX_PER_INTERFACE: Final = 5
"""Security groups of one network interface, by default."""

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]+")


class SecurityGroups:
    """Checks calls before moto answers them, deletes groups, and changes those of instances."""

    def __init__(self, moto: Moto, lifecycles: Lifecycles) -> None:
        self._moto = moto
        self._lifecycles = lifecycles

    async def check_create(self, parameters: Mapping[str, Any]) -> None:
        """Raises EC2's error for a group that cannot be made."""
        name, vpc_id = parameters.get("GroupName", ""), parameters.get("VpcId", "")
        _check_text("groupName", name)
        _check_text("GroupDescription", parameters.get("Description", ""))
        if name.lower().startswith("sg-"):
            raise _invalid(
                f"Value ({name}) for parameter GroupName is invalid. Group names may not"
                " be in the format sg-*."
            )
        if name == "default":
            raise EC2Error("InvalidGroup.Reserved", "The security group 'default' is reserved")
        if not vpc_id:
            raise EC2Error("VPCIdNotSpecified", "No default VPC for this user")
        await self._moto.run(lambda: self._check_free(name, vpc_id))

    def _check_free(self, name: str, vpc_id: str) -> None:
        if vpc_id not in self._moto.backend.vpcs:
            raise EC2Error("InvalidVpcID.NotFound", f"The vpc ID '{vpc_id}' does not exist")
        if any(each.name == name for each in self._moto.backend.groups[vpc_id].values()):
            message = f"The security group '{name}' already exists for VPC '{vpc_id}'"
            raise EC2Error("InvalidGroup.Duplicate", message)

    async def check_rules(self, parameters: Mapping[str, Any]) -> None:
        """Raises EC2's error for rules of a group that does not exist, or that name one."""
        pairs = [
            pair
            for rule in parameters.get("IpPermissions") or ()
            for pair in rule.get("UserIdGroupPairs") or ()
        ]
        named = [parameters.get("GroupId"), *(pair.get("GroupId") for pair in pairs)]
        await self._moto.run(lambda: self._found([each for each in named if each]))

    async def delete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DeleteSecurityGroup, by id."""
        group_id = await self.check_delete(parameters)
        await self._moto.call("DeleteSecurityGroup", GroupId=group_id)
        return {"Return": True, "GroupId": group_id}

    async def check_delete(self, parameters: Mapping[str, Any]) -> str:
        """Id of the group. Raises EC2's error for one that is not there or in use."""
        group_id = parameters.get("GroupId")
        if not group_id:  # a name alone is for EC2-Classic and default VPCs
            message = "The request must contain the parameter GroupId"
            raise EC2Error("MissingParameter", message)
        await self._moto.run(lambda: self._check_unused(group_id))
        return str(group_id)

    def _check_unused(self, group_id: str) -> None:
        [group] = self._found([group_id])
        if group.name == "default":
            message = (
                f'the specified group: "{group_id}" name: "default" cannot be deleted by a user'
            )
            raise EC2Error("CannotDelete", message)
        if self._has_interface(group_id) or self._is_named_by_others(group):
            raise EC2Error("DependencyViolation", f"resource {group_id} has a dependent object")

    def _has_interface(self, group_id: str) -> bool:
        """A terminated instance has none, one that shuts down still has."""
        of_instances = (
            each.moto_instance.security_groups
            for each in self._lifecycles.all()
            if each.state != "terminated"
        )
        detached = (
            each.group_set for each in self._moto.backend.enis.values() if each.instance is None
        )
        return any(
            group.id == group_id for groups in (*of_instances, *detached) for group in groups
        )

    def _is_named_by_others(self, group: Any) -> bool:
        return any(
            rule.source_group.get("GroupId") == group.id
            for other in self._moto.backend.groups[group.vpc_id].values()
            if other.id != group.id
            for rule in (*other.ingress_rules, *other.egress_rules)
            if rule.source_group
        )

    async def set_of(self, instance_id: str, ids: Sequence[str]) -> None:
        """Give an instance these groups in place of its own. Raises EC2's errors."""
        life = self._lifecycles.get(instance_id)
        await self._moto.run(lambda: self._set_of(life, ids))

    def _set_of(self, life: Lifecycle, ids: Sequence[str]) -> None:
        groups = self._checked_groups(life, ids)
        life.moto_instance.security_groups = groups
        for interface in life.moto_instance.nics.values():
            interface._group_set = list(groups)

    async def check_set_of(self, instance_id: str, ids: Sequence[str]) -> None:
        """Raises EC2's errors for groups that an instance cannot have."""
        life = self._lifecycles.get(instance_id)
        await self._moto.run(lambda: self._checked_groups(life, ids))

    def _checked_groups(self, life: Lifecycle, ids: Sequence[str]) -> list[Any]:
        if life.state in ("shutting-down", "terminated"):
            message = f"The instance '{life.instance_id}' is not in a state in which its attributes"
            raise EC2Error("IncorrectInstanceState", f"{message} can be modified.")
        if not ids:
            raise _invalid("You must specify at least one security group.")
        if len(ids) > MAX_PER_INTERFACE:
            message = "You have exceeded the maximum number of security groups allowed per network"
            raise EC2Error("SecurityGroupsPerInterfaceLimitExceeded", f"{message} interface.")
        groups = self._found(list(dict.fromkeys(ids)))
        interface = next(iter(life.moto_instance.nics.values()))
        for group in groups:
            if group.vpc_id != interface.subnet.vpc_id:
                message = "You have specified two resources that belong to different networks."
                raise EC2Error("InvalidParameter", message)
        return groups

    def _found(self, ids: Sequence[str]) -> list[Any]:
        """moto's groups. Raises `InvalidGroup.NotFound`."""
        groups = [self._moto.backend.get_security_group_from_id(each) for each in ids]
        for group_id, group in zip(ids, groups, strict=True):
            if group is None:
                message = f"The security group '{group_id}' does not exist"
                raise EC2Error("InvalidGroup.NotFound", message)
        return groups


def _check_text(parameter: str, text: str) -> None:
    if not text:
        raise EC2Error("MissingParameter", f"The request must contain the parameter {parameter}")
    if len(text) > MAX_LENGTH or not _ALLOWED.fullmatch(text):
        raise _invalid(
            f"Value ({text}) for parameter {parameter} is invalid. Valid are up to {MAX_LENGTH} of "
            "the characters a-z, A-Z, 0-9, spaces, and ._-:/()#,@[]+=&;{}!$*"
        )


def _invalid(message: str) -> EC2Error:
    return EC2Error("InvalidParameterValue", message)
