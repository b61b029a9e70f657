"""Network interfaces: list, find those that outlived their instance, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...provisioner.model.cloud.network import Interface
from ..calls.client import Answer, Client, entries
from ..tags import from_ec2, of_hub

_GONE: Final = "InvalidNetworkInterfaceID.NotFound"


class Interfaces:
    """Network interfaces of one region."""

    client: Client

    async def list_interfaces(self, hub: str, *filters: Mapping[str, object]) -> list[Interface]:
        """The hub's interfaces that match EC2's filters. Raises `CloudError` unless complete."""
        return await self.client.pages(
            "describe_network_interfaces",
            entries("NetworkInterfaces", _interface),
            Filters=[*of_hub(hub), *filters],
        )

    async def free_interfaces(self, hub: str) -> list[Interface]:
        """The hub's interfaces without an attachment. Raises `CloudError` unless complete."""
        return await self.list_interfaces(hub, {"Name": "status", "Values": ["available"]})

    async def delete_interface(self, interface_id: str) -> None:
        """Delete; one that does not exist is no error, an attached one is."""
        await self.client.do(
            "delete_network_interface", ignore={_GONE}, NetworkInterfaceId=interface_id
        )


def _interface(interface: Answer) -> Interface:
    return Interface(
        interface_id=interface["NetworkInterfaceId"],
        state=interface["Status"],
        attached_to=interface.get("Attachment", {}).get("InstanceId"),
        # Unlike all other resources, interfaces have a TagSet.
        tags=from_ec2({"Tags": interface.get("TagSet", ())}),
    )
