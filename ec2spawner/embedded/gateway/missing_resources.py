"""Ids of resources that do not exist: EC2 refuses them, moto accepts some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..instances.group_actions import SecurityGroups
from ..instances.lifecycle import Lifecycles


class References:
    """Checks the ids in a request before moto acts on it."""

    def __init__(self, moto: Moto, lifecycles: Lifecycles, groups: SecurityGroups) -> None:
        self._moto = moto
        self._lifecycles = lifecycles
        self._checks = {
            "AuthorizeSecurityGroupEgress": groups.check_rules,
            "AuthorizeSecurityGroupIngress": groups.check_rules,
            "CreateSecurityGroup": groups.check_create,
        }

    async def check(self, action: str, parameters: Mapping[str, Any]) -> None:
        """Raises EC2's `...NotFound` for the first id that does not exist, and for security groups
        what else EC2 refuses."""
        if action in self._checks:
            await self._checks[action](parameters)
        elif action == "CreateTags":
            await self._check_resources(parameters.get("Resources") or ())
        elif action in ("DeleteLaunchTemplate", "DescribeLaunchTemplates"):
            named = parameters.get("LaunchTemplateId")
            await self._check_templates(
                parameters.get("LaunchTemplateIds") or ([named] if named else ())
            )

    async def _check_resources(self, ids: Iterable[str]) -> None:
        for each in ids:
            if each.startswith("i-"):
                self._lifecycles.get(each)
            elif each.startswith("eni-"):
                await self._moto.call("DescribeNetworkInterfaces", NetworkInterfaceIds=[each])
            else:  # moto checks the id even if there is no tag to set
                await self._moto.call("CreateTags", Resources=[each], Tags=[])

    async def _check_templates(self, ids: Iterable[str]) -> None:
        known = await self._moto.run(lambda: set(self._moto.backend.launch_templates))
        for each in ids:
            if each not in known:
                raise EC2Error(
                    "InvalidLaunchTemplateId.NotFound",
                    f"The specified launch template, with template ID {each}, does not exist.",
                )
