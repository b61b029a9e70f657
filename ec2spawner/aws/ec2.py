"""`EC2Cloud`: the provisioner's `Cloud`, with boto3."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from ..core.pricing.discounts import Discount
from ..core.pricing.price_history import PricePoint
from ..data import InstanceType
from ..provisioner.model.cloud import (
    CloudError,
    FleetResponse,
    Image,
    ImageQuery,
    Instance,
    Interface,
    LaunchRequest,
    Volume,
    VolumeSnapshot,
    VolumeSpec,
)
from . import describe, images, interfaces, prices, snapshots, volumes
from . import instance_types as types
from .client import Client, Timeouts
from .console import console_output
from .launch import Fleets
from .tags import of_hub, to_ec2
from .templates import Template, Templates, list_templates

TERMINATE_BATCH: Final = 500
"""Instances in one TerminateInstances call: it also takes one token per
instance from a bucket of 1000."""

TAG_BATCH: Final = 500
"""Resources in one CreateTags; EC2 takes 1000."""

REFUSED_FOR_ONE: Final = frozenset(
    {
        "IncorrectInstanceState",
        "InvalidInstanceID.Malformed",
        "InvalidInstanceID.NotFound",
        "OperationNotPermitted",  # termination protection
        "UnauthorizedOperation",  # an IAM policy may depend on the instance's tags
        "UnsupportedOperation",
    }
)
"""Codes with which TerminateInstances refuses a whole batch because of one instance."""

_UNKNOWN: Final = "InvalidInstanceID.NotFound"
_INSTANCE_ID: Final = re.compile(r"\bi-[0-9a-f]+\b")


class EC2Cloud:
    """One region of one account. Credentials come from boto3's chain: environment, file or role.

    `endpoint_url` selects an EC2 other than AWS's, such as the embedded one.
    """

    def __init__(
        self,
        region: str,
        endpoint_url: str | None = None,
        *,
        timeouts: Timeouts | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._region = region
        self._client = Client(region, endpoint_url, timeouts)
        self._templates = Templates(self._client, now)
        self._fleets = Fleets(self._client, self._templates)

    async def launch(self, request: LaunchRequest) -> FleetResponse:
        return await self._fleets.launch(request)

    async def list_instances(self, hub: str) -> Sequence[Instance]:
        return await describe.list_instances(self._client, hub)

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        wanted = list(dict.fromkeys(instance_ids))
        await self._terminate_each(_batches(wanted, TERMINATE_BATCH))

    async def stop(self, instance_ids: Sequence[str]) -> None:
        await self._client.call(
            "stop_instances", lambda _: None, InstanceIds=list(dict.fromkeys(instance_ids))
        )

    async def start(self, instance_ids: Sequence[str]) -> None:
        # One attempt: InsufficientInstanceCapacity comes as an HTTP 500, which botocore repeats.
        await self._client.call(
            "start_instances",
            lambda _: None,
            attempts=1,
            InstanceIds=list(dict.fromkeys(instance_ids)),
        )

    async def tag(self, resource_ids: Sequence[str], tags: Mapping[str, str]) -> None:
        if not tags:
            return
        wanted = list(dict.fromkeys(resource_ids))
        for batch in _batches(wanted, TAG_BATCH):
            await self._client.call(
                "create_tags", lambda _: None, Resources=batch, Tags=to_ec2(tags)
            )

    async def zones_of(self, subnets: Sequence[str]) -> Mapping[str, str]:
        return await self._fleets.zones_of(subnets)

    async def spot_history(
        self, instance_types: Sequence[str], zones: Sequence[str], since: datetime
    ) -> Mapping[tuple[str, str], tuple[PricePoint, ...]]:
        return await prices.spot_history(self._client, instance_types, zones, since)

    async def on_demand_prices(self, instance_types: Sequence[str]) -> Mapping[str, float]:
        return await prices.on_demand_prices(self._client, self._region, instance_types)

    async def reservations(self) -> Sequence[Discount]:
        return await prices.reservations(self._client)

    async def offerings(self, zones: Sequence[str]) -> Mapping[str, frozenset[str]]:
        return await types.offerings(self._client, zones)

    async def describe_types(self, instance_types: Sequence[str]) -> Mapping[str, InstanceType]:
        return await types.describe_types(self._client, instance_types)

    async def find_image(self, query: ImageQuery) -> Image:
        image = await images.find_image(self._client, query)
        self._templates.know_root_device(image.image_id, image.root_device)
        return image

    async def delete_old_templates(self, hub: str, store_id: str, before: datetime) -> int:
        return await self._templates.delete_old(hub, store_id, before)

    async def create_volume(
        self, client_token: str, zone: str, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        return await volumes.create_volume(self._client, client_token, zone, spec, tags)

    async def volume(self, volume_id: str) -> Volume | None:
        return await volumes.volume(self._client, volume_id)

    async def modify_volume(self, volume_id: str, size_gib: int) -> None:
        await volumes.modify_volume(self._client, volume_id, size_gib)

    async def create_snapshot(self, volume_id: str, tags: Mapping[str, str]) -> VolumeSnapshot:
        return await snapshots.create_snapshot(self._client, volume_id, tags)

    async def list_snapshots(self, hub: str) -> Sequence[VolumeSnapshot]:
        return await snapshots.list_snapshots(self._client, hub)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await snapshots.delete_snapshot(self._client, snapshot_id)

    async def list_volumes(self, hub: str) -> Sequence[Volume]:
        return await volumes.list_volumes(self._client, hub)

    async def attach_volume(self, volume_id: str, instance_id: str) -> None:
        await volumes.attach_volume(self._client, volume_id, instance_id)

    async def detach_volume(self, volume_id: str, instance_id: str) -> None:
        await volumes.detach_volume(self._client, volume_id, instance_id)

    async def free_volumes(self, hub: str) -> Sequence[Volume]:
        return await volumes.free_volumes(self._client, hub)

    async def delete_volume(self, volume_id: str) -> None:
        await volumes.delete_volume(self._client, volume_id)

    async def free_interfaces(self, hub: str) -> Sequence[Interface]:
        return await interfaces.free_interfaces(self._client, hub)

    async def delete_interface(self, interface_id: str) -> None:
        await interfaces.delete_interface(self._client, interface_id)

    async def console_output(self, instance_id: str) -> str:
        return await console_output(self._client, instance_id)

    async def list_templates(self, hub: str) -> Sequence[Template]:
        """Every launch template of the hub, of any store."""
        return await list_templates(self._client, of_hub(hub))

    async def delete_template(self, template_id: str) -> None:
        """Delete; one that does not exist is no error. A launch that needs it creates it again."""
        await self._templates.delete(template_id)

    async def close(self) -> None:
        await self._client.close()

    async def _terminate_each(self, batches: Iterable[list[str]]) -> None:
        """Terminate every batch even if one is refused; then raise the last refusal."""
        refusal: CloudError | None = None
        for batch in batches:
            try:
                await self._terminate(batch)
            except CloudError as error:
                if error.retryable:
                    raise
                refusal = error
        if refusal is not None:
            raise refusal

    async def _terminate(self, batch: list[str]) -> None:
        """Terminate one batch, without an instance for which EC2 refuses all of it."""
        try:
            await self._client.call("terminate_instances", lambda _: None, InstanceIds=batch)
        except CloudError as error:
            if error.code not in REFUSED_FOR_ONE:
                raise
            rest = _without_unknown(batch, error)
            if len(rest) < len(batch):
                await self._terminate_each(_batches(rest, len(batch)))
            elif len(batch) > 1:
                await self._terminate_each(_batches(batch, (len(batch) + 1) // 2))
            elif error.code != _UNKNOWN:
                raise


def _without_unknown(batch: Sequence[str], error: CloudError) -> list[str]:
    """The instances without those that EC2's error says do not exist."""
    unknown = _INSTANCE_ID.findall(error.message) if error.code == _UNKNOWN else ()
    return [instance_id for instance_id in batch if instance_id not in unknown]


def _batches(ids: list[str], size: int) -> Iterator[list[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
