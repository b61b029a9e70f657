"""Network interfaces that outlived their instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..provisioner.model.cloud import CloudError, Interface
from .client import Answer, Client
from .tags import from_ec2, of_hub

_GONE: Final = "InvalidNetworkInterfaceID.NotFound"


async def free_interfaces(client: Client, hub: str) -> list[Interface]:
    """The hub's interfaces without an attachment. Raises `CloudError` unless complete."""
    return await list_interfaces(client, hub, {"Name": "status", "Values": ["available"]})


async def list_interfaces(
    client: Client, hub: str, *filters: Mapping[str, object]
) -> list[Interface]:
    """The hub's interfaces that match EC2's filters. Raises `CloudError` unless complete."""
    return await client.pages(
        "describe_network_interfaces", _interfaces, Filters=[*of_hub(hub), *filters]
    )


async def delete_interface(client: Client, interface_id: str) -> None:
    """Delete; one that does not exist is no error, an attached one is."""
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
            # Unlike all other resources, interfaces have a TagSet.
            tags=from_ec2({"Tags": interface.get("TagSet", ())}),
        )
        for interface in answer["NetworkInterfaces"]
    ]
