"""Asks AWS and the hub's store for what a plan needs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from .. import data
from ..aws.calls.client import Timeouts
from ..aws.compute.quotas import list_quotas
from ..aws.ec2 import EC2Cloud
from ..check.facts.account import Account
from ..check.facts.network import Subnet, read_subnets
from ..check.hub_config import HubConfig
from ..config import Options
from ..core.ledger.cost_rows import HUB
from ..core.offers.capacity_blocks import chosen
from ..core.offers.reserved_capacity import CapacityReservation
from ..core.partitions import is_commercial
from ..core.pricing.resource_prices import ResourcePrices
from ..core.profiles.profiles import InstanceType, resolve
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.cloud.instance import InstanceState
from ..provisioner.offers.instance_types import read_types
from ..provisioner.store.databases.database import StoreError
from ..provisioner.store.read_only import FreshStart, read_fresh_starts
from ..wire import Market
from .facts import Facts, Source, Wanted
from .placement_score import placement_score

T = TypeVar("T")

TIMEOUTS: Final = Timeouts(read=8, launch_read=15, total=25)
"""Shorter than the hub's: somebody waits, and can try again."""

TIMEOUT: Final = 40.0
"""Seconds for all pages of one source: types and quotas have a dozen."""

HISTORY: Final = timedelta(days=28)
"""Of past starts."""

NOW: Final = timedelta(hours=1)
"""Back to which spot prices are read: the one in force then is among them."""


async def read_facts(config: HubConfig, wanted: Wanted, now: datetime) -> Facts:
    """All that can be read; raises nothing of AWS's or of the store's."""
    options = config.options
    cloud = EC2Cloud(options.region, options.endpoint_url or None, timeouts=TIMEOUTS)
    try:
        return await _Reader(options, config.max_servers, cloud, wanted, now).facts()
    finally:
        await cloud.close()


@dataclass(slots=True)
class _Reader:
    """One reading; each failure is noted under its source."""

    options: Options
    max_servers: int
    cloud: EC2Cloud
    wanted: Wanted
    now: datetime
    unread: dict[Source, str] = field(default_factory=dict)

    async def facts(self) -> Facts:
        """Calls that need nothing of each other run at the same time: the client bounds them."""
        options, client = self.options, self.cloud.client
        none: Sequence[Subnet] = ()
        asked = read_subnets(client, options.subnets)
        subnets = await self._asked(Source.SUBNETS, asked, none)
        table, offered = await self._table(sorted({subnet.zone for subnet in subnets}))
        profile = self.wanted.profile
        types = resolve(profile, table, options.architecture, options.volumes_of(profile))
        names = [kind.name for kind in types]
        market = asyncio.gather(
            self._asked(Source.SPOT_PRICES, self._spot(names, sorted(offered_in(offered))), {}),
            self._asked(Source.ON_DEMAND_PRICES, self.cloud.on_demand_prices(names), {}),
            self._asked(Source.ON_DEMAND_PRICES, self.cloud.resource_prices(), ResourcePrices()),
            self._score(names),
        )
        account = asyncio.gather(
            self._asked(Source.QUOTAS, list_quotas(client), ()),
            self._asked(Source.INSTANCES, self._running(), {}),
            self._starts(),
        )
        spot, on_demand, resources, score = await market
        quotas, running, starts = await account
        reserved = await self._reserved()
        return Facts(
            region=options.region,
            subnets=subnets,
            types=types,
            offered=offered,
            free_plan_has=await self._free_plan(),
            quotas=quotas,
            running=running,
            running_types=table,
            spot=spot,
            on_demand={**self._bundled(types), **on_demand},
            reserved=reserved,
            resources=resources.or_else(data.resource_prices(options.region)),
            placement_score=score,
            starts=starts,
            disk_gib=options.disk(self.wanted.profile),
            homes_in_zones=options.home.kind == "ebs",
            max_servers=self.max_servers,
            hub_bounds=options.limits.limits().of(HUB),
            unread=self.unread,
        )

    async def _asked(self, source: Source, call: Awaitable[T], otherwise: T) -> T:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await call
        except CloudError as error:
            self.unread[source] = f"{error.code}: {error.message}"
        except TimeoutError:
            self.unread[source] = f"not everything was answered within {TIMEOUT:g} s"
        return otherwise

    async def _table(
        self, zones: Sequence[str]
    ) -> tuple[Mapping[str, InstanceType], Mapping[str, frozenset[str]]]:
        """The types that these zones offer, and the zones of each."""
        if not zones:
            self.unread.setdefault(Source.TYPES, "the zones of the subnets are unknown")
            return {}, {}
        bundled = data.instance_types(self.options.region)
        asked = read_types(self.cloud, zones, bundled, self.wanted.profile.instance_types)
        offered, described = await self._asked(Source.TYPES, asked, ({}, {}))
        return {n: k for n, k in {**bundled, **described}.items() if n in offered}, offered

    async def _free_plan(self) -> frozenset[str] | None:
        """A hub works without the permission to read it: then it is not judged."""
        if not is_commercial(self.options.region):
            return None
        account = Account(self.cloud.client)
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                return await account.free_types() if (await account.plan()).is_free else None
        return None

    async def _running(self) -> Mapping[tuple[Market, str], int]:
        found = await self.cloud.list_instances(self.options.hub_name)
        states = {InstanceState.PENDING, InstanceState.RUNNING}
        return Counter(
            (each.market, each.instance_type)
            for each in found
            if each.state in states and not each.in_block  # that needs no quota
        )

    async def _reserved(self) -> Sequence[CapacityReservation]:
        choice = self.options.capacity_reservations.choice()
        if not choice.is_any:
            return ()
        none: Sequence[CapacityReservation] = ()
        asked = self.cloud.capacity_reservations()
        found = await self._asked(Source.RESERVATIONS, asked, none)
        return chosen(choice, found)

    async def _spot(
        self, names: Sequence[str], zones: Sequence[str]
    ) -> Mapping[tuple[str, str], float]:
        if not names or Market.SPOT not in self.wanted.profile.markets:
            return {}
        history = await self.cloud.spot_history(names, zones, self.now - NOW)
        return {pool: points[-1].usd_per_hour for pool, points in history.items() if points}

    async def _score(self, names: Sequence[str]) -> int | None:
        if not names or Market.SPOT not in self.wanted.profile.markets:
            return None
        asked = placement_score(self.cloud.client, names, self.wanted.users)
        return await self._asked(Source.PLACEMENT_SCORE, asked, None)

    async def _starts(self) -> Sequence[FreshStart]:
        options, profile = self.options, self.wanted.profile
        try:
            async with asyncio.timeout(TIMEOUT):
                return await read_fresh_starts(options.store_url, profile.slug, self.now - HISTORY)
        except StoreError as error:
            self.unread[Source.STORE] = str(error)
        except TimeoutError:
            self.unread[Source.STORE] = f"no answer within {TIMEOUT:g} s"
        return ()

    def _bundled(self, types: Sequence[InstanceType]) -> Mapping[str, float]:
        """List prices of the bundled table, which are of one region."""
        if self.options.region != data.PRICES_REGION:
            return {}
        return {
            kind.name: kind.on_demand_usd_per_hour
            for kind in types
            if kind.on_demand_usd_per_hour is not None
        }


def offered_in(offered: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """All zones that offer any of the types."""
    return frozenset().union(*offered.values())
