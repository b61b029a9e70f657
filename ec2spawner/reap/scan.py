"""The cloud first, and then the store: what was launched meanwhile is known by then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .. import data
from ..aws.ec2 import EC2Cloud
from ..core.tags import LEASE
from ..provisioner.garbage_collection import allowed
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.cloud.instance import GONE, Instance
from ..provisioner.store.read_only import Peek, peek
from ..provisioner.store.store import StoreError
from ..wire import Market
from .rows import Account


async def account_of(cloud: EC2Cloud, hub: str, region: str, now: datetime) -> Account:
    """Raises `CloudError` where anything could not be listed: half a listing is none."""
    instances = await cloud.list_instances(hub)
    return Account(
        instances=instances,
        volumes=await cloud.list_volumes(hub),
        interfaces=await cloud.free_interfaces(hub),
        templates=await cloud.list_templates(hub),
        snapshots=await cloud.list_snapshots(hub),
        security_groups=await allowed(cloud.list_security_groups(hub)),
        placement_groups=await allowed(cloud.list_placement_groups(hub)),
        usd_per_hour=await _prices(cloud, instances, region, now),
    )


async def store_of(url: str, account: Account, now: datetime) -> tuple[Peek | None, str]:
    """What the store holds; None with the reason where it cannot be read."""
    lease_ids = {each.tags[LEASE] for each in account.instances if LEASE in each.tags}
    try:
        return await peek(url, lease_ids, now=now), ""
    except StoreError as error:
        return None, str(error)


async def _prices(
    cloud: EC2Cloud, instances: Sequence[Instance], region: str, now: datetime
) -> dict[str, float]:
    """Spot as EC2 lists it now, on-demand from the bundled table."""
    alive = [each for each in instances if each.state not in GONE]
    known = data.instance_types(region)
    usd: dict[str, float] = {}
    for each in alive:
        kind = known.get(each.instance_type)
        if each.market is Market.ON_DEMAND and kind and kind.on_demand_usd_per_hour is not None:
            usd[each.instance_id] = kind.on_demand_usd_per_hour
    spot = [each for each in alive if each.market is Market.SPOT]
    if not spot:
        return usd
    types, zones = {each.instance_type for each in spot}, {each.zone for each in spot}
    try:
        history = await cloud.spot_history(sorted(types), sorted(zones), now)
    except CloudError:
        return usd  # unknown, and shown as that
    for each in spot:
        if points := history.get((each.instance_type, each.zone)):
            usd[each.instance_id] = points[-1].usd_per_hour
    return usd
