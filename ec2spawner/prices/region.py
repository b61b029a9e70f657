"""What one region offers and asks for it, read from AWS now."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from .. import data
from ..aws.calls.client import known_regions
from ..aws.ec2 import EC2Cloud
from ..check.facts.account import Account
from ..config import Profile
from ..core.profiles.profiles import InstanceType, resolve
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.error_hints import describe_error
from ..provisioner.offers.instance_types import read_types
from ..provisioner.offers.prices import LIST_SOURCE
from .latency import round_trip_ms
from .rows import Region

HISTORY = timedelta(days=7)

AT_ONCE = 4
"""Regions asked at the same time."""

TIMEOUT = 50.0
"""Seconds for one region."""

NOT_ENABLED = frozenset(
    {"AuthFailure", "InvalidClientTokenId", "OptInRequired", "UnrecognizedClientException"}
)
"""What a region answers to an account that has not enabled it, or to wrong credentials."""


async def read_regions(
    regions: Sequence[str],
    profiles: Sequence[Profile],
    *,
    architecture: str,
    volumes_of: Callable[[Profile], int],
    endpoint_url: str | None,
    measure_latency: bool,
    now: datetime,
    answered: Callable[[str], None] = lambda name: None,
) -> list[Region]:
    """The regions in their order; one that does not answer says why in `error`.

    `answered` is called for each region that is done.
    """
    places = asyncio.Semaphore(AT_ONCE)

    def meant(region: Region) -> Mapping[str, InstanceType]:
        found = (
            kind for p in profiles for kind in resolve(p, region.types, architecture, volumes_of(p))
        )
        return {kind.name: kind for kind in found}

    async def one(name: str) -> Region:
        async with places:
            found = await _read(name, profiles, meant, endpoint_url, measure_latency, now)
        answered(name)
        return found

    return list(await asyncio.gather(*map(one, regions)))


async def _read(
    name: str,
    profiles: Sequence[Profile],
    meant: Callable[[Region], Mapping[str, InstanceType]],
    endpoint_url: str | None,
    measure_latency: bool,
    now: datetime,
) -> Region:
    cloud = EC2Cloud(name, endpoint_url)
    try:
        async with asyncio.timeout(TIMEOUT):
            region = await _offered(Region(name), cloud, profiles)
            region = await _priced(region, cloud, meant(region), now)
            if measure_latency:
                region = replace(region, latency_ms=await round_trip_ms(cloud.client))
            return region
    except CloudError as error:
        return Region(name, error=_why(name, endpoint_url, error))
    except TimeoutError:
        return Region(name, error=f"not everything was answered within {TIMEOUT:g} s")
    finally:
        await cloud.close()


def _why(name: str, endpoint_url: str | None, error: CloudError) -> str:
    """The error, and what it most likely means."""
    said = f"{error.code}: {error.message}"
    if error.code in NOT_ENABLED:
        return f"{said} (is the region enabled for this account?)"
    if endpoint_url or not error.retryable or name in (known := known_regions()):
        return describe_error(error)
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"AWS has no region of this name{f': did you mean {near[0]}?' if near else ''} ({said})"


async def _offered(region: Region, cloud: EC2Cloud, profiles: Sequence[Profile]) -> Region:
    zones = await Account(cloud.client).zones()
    bundled = data.instance_types(region.name)
    named = {name for profile in profiles for name in profile.instance_types}
    offered, described = await read_types(cloud, zones, bundled, named)
    types = {name: kind for name, kind in {**bundled, **described}.items() if name in offered}
    return replace(region, zones=tuple(zones), offered=offered, types=types)


async def _priced(
    region: Region, cloud: EC2Cloud, types: Mapping[str, InstanceType], now: datetime
) -> Region:
    if not types:
        return region
    names = sorted(types)
    spot = await cloud.spot_history(names, region.zones, now - HISTORY)
    try:
        on_demand, source = await cloud.on_demand_prices(names), LIST_SOURCE
    except CloudError:
        if region.name != data.PRICES_REGION:
            return replace(region, spot=spot)
        on_demand, source = _bundled(types), data.PRICES_SOURCE
    return replace(region, spot=spot, on_demand=on_demand, on_demand_source=source)


def _bundled(types: Mapping[str, InstanceType]) -> dict[str, float]:
    return {
        name: kind.on_demand_usd_per_hour
        for name, kind in types.items()
        if kind.on_demand_usd_per_hour is not None
    }
