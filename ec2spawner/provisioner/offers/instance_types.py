"""Instance types and the zones that offer them: a bundled table that EC2 corrects and extends.

Read at the start and once a day, in the background. Until EC2 has answered, everything counts as
offered and the bundled facts serve: a start is never in the way of a listing, and a launch call
says soon enough what a zone does not have.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from ...core.profiles import profiles
from ...core.profiles.profiles import InstanceType
from ..model.cloud.cloud import Cloud, CloudError
from ..runtime.supervise import Supervised
from ..state.state import State

log = logging.getLogger(__name__)

REFRESH_TIMEOUT = 180.0
"""Seconds for one refresh of about twenty calls."""

_GPU_FAMILY = re.compile(r"(g|gr|p)\d")
"""EC2's families with GPUs, such as `g6e.xlarge`, `gr6.4xlarge` and `p5en.48xlarge`."""


class Catalogue:
    """Known instance types, and the zones that offer them."""

    def __init__(self, state: State, cloud: Cloud, bundled: Mapping[str, InstanceType]) -> None:
        self._state = state
        self._cloud = cloud
        self._bundled = bundled
        self._types: Mapping[str, InstanceType] = bundled
        self._here = bundled
        """Types that at least one zone offers, as far as is known."""
        self._offered: Mapping[str, frozenset[str]] = {}
        self._zones_read: frozenset[str] = frozenset()
        self._read_at: datetime | None = None
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()
        self.want(state.settings.want_types)

    @property
    def types(self) -> Mapping[str, InstanceType]:
        """Every known instance type by name, whether a zone offers it or not.

        Facts are EC2's once they are read; prices and the spot market's habits are bundled.
        """
        return self._types

    @property
    def read_at(self) -> datetime | None:
        """When EC2 was last read completely, UTC; None before the first complete reading."""
        return self._read_at

    def is_offered(self, instance_type: str, zone: str) -> bool:
        """Whether the zone offers the type; True while that is unknown."""
        if zone not in self._zones_read:
            return True
        return zone in self._offered.get(instance_type, ())

    def types_for(
        self, wish: profiles.Wish, architecture: str, volumes: int
    ) -> tuple[InstanceType, ...]:
        """The types that match a profile, best first, without those that no zone offers, or that
        cannot have so many EBS volumes beside their own disk."""
        return profiles.resolve(wish, self._here, architecture, volumes)

    def want(self, instance_types: Iterable[str]) -> None:
        """Add these types to those that are refreshed; unknown ones are read at once."""
        new = set(instance_types) - self._wanted
        self._wanted |= new
        if new - self._types.keys():
            self._wake.set()

    async def run(self) -> None:
        """Refresh once a day, and sooner after a failure or for new types, until cancelled."""
        supervised = Supervised("Reading instance types")
        while True:
            self._wake.clear()
            succeeded = False
            with supervised:
                succeeded = await self.refresh()
            settings = self._state.settings
            pause = settings.catalogue_interval if succeeded else settings.catalogue_retry
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def refresh(self) -> bool:
        """Read offerings and types. False if that failed, which keeps what was known."""
        zones = frozenset(self._state.zones.all())
        if not zones:
            return False
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT):
                offered, described = await read_types(
                    self._cloud, zones, self._bundled, self._wanted
                )
        except (CloudError, TimeoutError) as error:
            log.warning(
                "Reading EC2's instance types failed, continuing with what was known: %s",
                error or "no answer in time",
            )
            return False
        self._learn(zones, offered, described)
        return True

    def _learn(
        self,
        zones: frozenset[str],
        offered: Mapping[str, frozenset[str]],
        described: Mapping[str, InstanceType],
    ) -> None:
        self._offered = offered
        # Every zone offers something: one without any type was missing from the response.
        self._zones_read = zones & frozenset().union(*offered.values())
        self._types = MappingProxyType({**self._types, **described})
        self._here = {
            name: kind
            for name, kind in self._types.items()
            if any(self.is_offered(name, zone) for zone in zones)
        }
        self._read_at = self._state.clock.now()


async def read_types(
    cloud: Cloud,
    zones: Collection[str],
    bundled: Mapping[str, InstanceType],
    wanted: Collection[str],
) -> tuple[Mapping[str, frozenset[str]], dict[str, InstanceType]]:
    """The zones of each type that these zones have, and what EC2 says of those worth describing.

    Worth it are the bundled and the wanted ones, and all with GPUs: a region has hundreds. What
    EC2 does not say there is the bundled table's. Raises `CloudError`.
    """
    offered = await cloud.offerings(sorted(zones))
    known = bundled.keys() | set(wanted)
    names = sorted(name for name in offered if name in known or _GPU_FAMILY.match(name))
    described = await cloud.describe_types(names)
    return offered, {name: _merged(bundled.get(name), kind) for name, kind in described.items()}


def _merged(bundled: InstanceType | None, described: InstanceType) -> InstanceType:
    if bundled is None:
        return described
    return replace(
        described,
        on_demand_usd_per_hour=bundled.on_demand_usd_per_hour,
        spot_saving_percent=bundled.spot_saving_percent,
        interruption_band=bundled.interruption_band,
    )
