"""The cap: what runs is listed, priced, and ends the journey before it costs too much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from ..aws.ec2 import EC2Cloud
from ..core.pricing.money import digits
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.cloud.instance import GONE, Instance
from .cleanup import Owner
from .plan import Leg, OverCap
from .spending import Spending

INTERVAL: Final = 10.0
"""Seconds between two listings."""

RESERVE_SECONDS: Final = 180.0
"""Seconds that an instance may need to stop: their cost is kept in reserve."""

MAX_UNSEEN: Final = 6
"""Failed listings in a row after which nothing is known of the cost."""


class SpendingWatch:
    """Lists the journey's instances while it runs."""

    def __init__(self, cloud: EC2Cloud, owner: Owner, legs: Sequence[Leg], cap_usd: float) -> None:
        self.spending = Spending()
        self._cloud = cloud
        self._owner = owner
        self._prices = {name: leg.hourly_usd for leg in legs for name in leg.instance_types}
        self._reserve = max(leg.hourly_usd for leg in legs) * RESERVE_SECONDS / 3600
        self._cap_usd = cap_usd

    def usd(self) -> float:
        """Spent so far: an estimate at on-demand prices, so that spot is never underrated."""
        return self.spending.usd(datetime.now(UTC))

    async def run(self) -> None:
        """Return never. Raises `OverCap`, and `CloudError` where EC2 does not answer for long."""
        unseen = 0
        while True:
            try:
                await self.list()
                unseen = 0
            except CloudError:
                unseen += 1
                if unseen >= MAX_UNSEEN:
                    raise
            if self.usd() + self._reserve > self._cap_usd:
                raise OverCap(
                    f"${digits(self.usd())} (estimate) is close to the cap of "
                    f"${digits(self._cap_usd)}. Fix: --max-usd allows more"
                )
            await asyncio.sleep(INTERVAL)

    async def list(self) -> list[Instance]:
        """The instances that run now. Raises `CloudError`."""
        listed = [
            each
            for each in await self._cloud.list_instances(self._owner.hub)
            if self._owner.owns(each.tags)
        ]
        self.spending.note(listed, datetime.now(UTC), self._price)
        return [each for each in listed if each.state not in GONE]

    async def consoles(self) -> Mapping[str, str]:
        """Instance id -> what its console shows, of every instance that was seen."""
        found: dict[str, str] = {}
        for instance_id in self.spending.segments:
            with suppress(CloudError):
                found[instance_id] = await self._cloud.console_output(instance_id)
        return found

    def _price(self, instance: Instance) -> float:
        """An unknown type, which nothing here starts, counts as the dearest."""
        return self._prices.get(instance.instance_type, max(self._prices.values()))
