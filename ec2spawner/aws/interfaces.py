"""Network interfaces: those that are left over when their instance is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..provisioner.model.cloud import CloudError, Interface
from .client import Answer, Client
from .tags import from_ec2, of_hub

_GONE: Final = "InvalidNetworkInterfaceID.NotFound"


async def free_interfaces(client: Client, hub: str) -> list[Interface]:
    """The hub's interfaces that are attached to nothing: complete, or a `CloudError`."""
    return await list_interfaces(client, hub, {"Name": "status", "Values": ["available"]})


async def list_interfaces(
    client: Client, hub: str, *filters: Mapping[str, object]
) -> list[Interface]:
    """All of the hub's that EC2's filters let through: complete, or a `CloudError`."""
    return await client.pages(
        "describe_network_interfaces", _interfaces, Filters=[*of_hub(hub), *filters]
    )


async def delete_interface(client: Client, interface_id: str) -> None:
    """Delete; one that does not exist is no error, one that is attached is."""
    try:
        await client.call(
            "delete_network_interface", lambda _: None, NetworkInterfaceId=interface_id
        )
    except CloudError as error:
        if error.code != _GONE:
            raise


def _interfaces(answer: Answer) -> Sequence[Interface]:
    return [
        Interface(
            interface_id=interface["NetworkInterfaceId"],
            state=interface["Status"],
            attached_to=interface.get("Attachment", {}).get("InstanceId"),
            # Unlike every other thing, interfaces have a TagSet.
            tags=from_ec2({"Tags": interface.get("TagSet", ())}),
        )
        for interface in answer["NetworkInterfaces"]
    ]
