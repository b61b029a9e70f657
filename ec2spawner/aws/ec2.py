"""`EC2Cloud`: the provisioner's `Cloud`, with boto3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from ..provisioner.model.cloud.image import Image, ImageQuery
from ..provisioner.model.cloud.launch import FleetResponse, LaunchRequest
from .billing.prices import Prices
from .billing.resource_price_list import ResourcePriceList
from .calls.client import Client, Timeouts
from .compute.capacity_reservations import CapacityReservations
from .compute.images import find_image
from .compute.instance_types import InstanceTypes
from .compute.instances import Instances, terminations
from .compute.interfaces import Interfaces
from .compute.launch import Fleets
from .compute.new_groups import NewGroups
from .compute.placement_groups import PlacementGroups
from .compute.quotas import Quotas
from .compute.scheduled_events import ScheduledEvents
from .compute.security_groups import SecurityGroups
from .compute.templates import Template, Templates, list_templates
from .monitoring.instance_activity import InstanceActivity
from .storage.snapshots import Snapshots
from .storage.volumes import Volumes, volume_reads
from .tags import of_hub


class EC2Cloud(
    CapacityReservations,
    ScheduledEvents,
    InstanceActivity,
    Instances,
    Interfaces,
    InstanceTypes,
    PlacementGroups,
    Prices,
    Quotas,
    ResourcePriceList,
    SecurityGroups,
    Snapshots,
    Volumes,
):
    """One region of one account. Credentials come from boto3's chain: environment, file or role.

    The base classes hold the calls of one kind of resource each, over the same `client`.
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
        self.client = Client(region, endpoint_url, timeouts)
        self._templates = Templates(self.client, now)
        self._fleets = Fleets(self.client, self._templates)
        self.new_groups = NewGroups()
        self.volume_reads = volume_reads(self.client)
        self.terminations = terminations(self.client)

    async def launch(self, request: LaunchRequest) -> FleetResponse:
        """One CreateFleet of type `instant`; idempotent by the request's client token."""
        answer = await self._fleets.launch(request)
        spec = request.spec
        return self.new_groups.excused(answer, [*spec.security_groups, spec.placement_group])

    async def zones_of(self, subnets: Sequence[str]) -> Mapping[str, str]:
        """Subnet id -> availability zone; read once."""
        return await self._fleets.zones_of(subnets)

    async def find_image(self, query: ImageQuery) -> Image:
        """The newest image that matches; raises `CloudError("InvalidAMIID.NotFound", ...)`."""
        image = await find_image(self.client, query)
        self._templates.know_root_device(image.image_id, image.root_device)
        return image

    async def list_templates(self, hub: str) -> Sequence[Template]:
        """Every launch template of the hub, of any store."""
        return await list_templates(self.client, of_hub(hub))

    async def delete_template(self, template_id: str) -> None:
        """Delete; one that does not exist is no error. A launch that needs it creates it again."""
        await self._templates.delete(template_id)

    async def delete_old_templates(self, hub: str, store_id: str, before: datetime) -> int:
        """Delete this store's templates that are not in use since `before`; returns how many."""
        return await self._templates.delete_old(hub, store_id, before)

    async def close(self) -> None:
        """Start no more calls; current ones end by themselves, at the latest by timeout."""
        await self.client.close()
