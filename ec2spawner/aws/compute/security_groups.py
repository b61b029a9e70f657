"""Security groups of clusters: make, list, attach, delete.

EC2 has no client token for CreateSecurityGroup: its name, unique within a VPC, is what makes it
idempotent. The group that a repetition finds is used only if it has the tags that it would get.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ...core.offers.launch_errors import GROUP_UNKNOWN
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.network import SecurityGroup
from ..calls.client import Answer, Client, entries
from ..tags import from_ec2, literal, of_hub, to_ec2
from .new_groups import NewGroups

GROUPS_PAGE: Final = 200
"""Groups per page: a cluster's has two rules."""

ALL_PORTS: Final = (0, 65535)

PAUSES: Final = (0.3, 0.6, 1.2, 2.4, 4.8)
"""Seconds between calls with a group that EC2 does not know yet: others than the one that made it
may learn of it a moment later."""

_EXISTS: Final = "InvalidGroup.Duplicate"
_RULE_EXISTS: Final = "InvalidPermission.Duplicate"


class SecurityGroups:
    """Security groups of one region."""

    client: Client
    new_groups: NewGroups

    async def create_security_group(
        self, name: str, description: str, subnet_id: str, tags: Mapping[str, str]
    ) -> str:
        """Id of a group in the subnet's VPC whose members reach each other on all TCP ports."""
        vpc_id = await self._vpc_of(subnet_id)
        try:
            group_id = await self.client.call(
                "create_security_group",
                _group_id,
                GroupName=name,
                Description=description,
                VpcId=vpc_id,
                TagSpecifications=[{"ResourceType": "security-group", "Tags": to_ec2(tags)}],
            )
        except CloudError as error:
            if error.code != _EXISTS:
                raise
            group_id = await self._made_before(name, vpc_id, tags, error)
        await _known(lambda: self._let_members_in(group_id))
        self.new_groups.add(group_id)
        return group_id

    async def set_security_groups(self, instance_id: str, groups: Sequence[str]) -> None:
        """Of the instance's only network interface: with several, EC2 wants each changed itself."""
        await _known(
            lambda: self.client.do(
                "modify_instance_attribute", InstanceId=instance_id, Groups=list(groups)
            )
        )

    async def list_security_groups(self, hub: str) -> list[SecurityGroup]:
        """The hub's groups. Raises `CloudError` unless complete."""
        return await self._list(of_hub(hub))

    async def delete_security_group(self, group_id: str) -> None:
        """Delete; one that does not exist is no error, one that is in use is."""
        await self.client.do("delete_security_group", ignore=GROUP_UNKNOWN, GroupId=group_id)

    async def _let_members_in(self, group_id: str) -> None:
        low, high = ALL_PORTS
        rule = {"IpProtocol": "tcp", "FromPort": low, "ToPort": high}
        await self.client.do(
            "authorize_security_group_ingress",
            ignore={_RULE_EXISTS},
            GroupId=group_id,
            IpPermissions=[{**rule, "UserIdGroupPairs": [{"GroupId": group_id}]}],
        )

    async def _made_before(
        self, name: str, vpc_id: str, tags: Mapping[str, str], error: CloudError
    ) -> str:
        """Id of the group by which EC2 refuses another one. Raises the refusal if it is somebody
        else's, and a retryable error while listings do not show it yet."""
        found = await self._named(name, vpc_id)
        if not found:
            raise CloudError(error.code, f"{error.message}; it is not listed yet", retryable=True)
        if not tags.items() <= found[0].tags.items():
            raise error
        return found[0].group_id

    async def _named(self, name: str, vpc_id: str) -> list[SecurityGroup]:
        return await self._list(
            [
                {"Name": "group-name", "Values": [literal(name)]},
                {"Name": "vpc-id", "Values": [vpc_id]},
            ]
        )

    async def _list(self, filters: Sequence[Mapping[str, Any]]) -> list[SecurityGroup]:
        return await self.client.pages(
            "describe_security_groups",
            entries("SecurityGroups", _security_group),
            page=GROUPS_PAGE,
            Filters=filters,
        )

    async def _vpc_of(self, subnet_id: str) -> str:
        [vpc_id] = await self.client.call(
            "describe_subnets",
            entries("Subnets", lambda subnet: str(subnet["VpcId"])),
            SubnetIds=[subnet_id],
        )
        return vpc_id


async def _known(call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call with a new group, which EC2 may not know yet."""
    for pause in PAUSES:
        try:
            await call()
        except CloudError as error:
            if error.code not in GROUP_UNKNOWN:
                raise
            await asyncio.sleep(pause)
        else:
            return
    await call()


def _group_id(answer: Answer) -> str:
    return str(answer["GroupId"])


def _security_group(group: Answer) -> SecurityGroup:
    return SecurityGroup(group["GroupId"], group["GroupName"], from_ec2(group))
