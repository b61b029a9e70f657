"""The one listing of our instances, read by everything else from memory.

One task lists by tag, often while something starts or ends and seldom otherwise. An error keeps
the last listing: unknown is not gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from .cloud import GONE, Cloud, CloudError, Instance
from .settings import Settings

log = logging.getLogger(__name__)

LISTING_TIMEOUT = 60.0
"""Seconds for one complete listing; 2000 instances are 40 pages."""


class Watcher:
    """Keeps `instances` fresh and counts the listings in which a known one was missing."""

    def __init__(
        self,
        cloud: Cloud,
        settings: Settings,
        *,
        now: Callable[[], datetime],
        in_motion: Callable[[], bool],
        listed: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._settings = settings
        self._now = now
        self._in_motion = in_motion
        self._listed = listed
        self._wanted = asyncio.Event()
        self._next = asyncio.Event()
        self.instances: Mapping[str, Instance] = {}
        self.listings = 0
        """Complete listings so far; 0 means that nothing is known yet."""
        self._missing: dict[str, int] = {}

    def refresh_soon(self) -> None:
        """List at once, and once more where a listing is under way."""
        self._wanted.set()

    async def next_listing(self, timeout: float) -> bool:
        """Wait until a listing completes. False when `timeout` seconds passed."""
        self.refresh_soon()
        try:
            await asyncio.wait_for(self._next.wait(), timeout)
        except TimeoutError:
            return False
        return True

    async def first_listing(self, timeout: float) -> bool:
        """True once something is known; waits at most `timeout` s for it."""
        return self.listings > 0 or await self.next_listing(timeout)

    def is_gone(self, instance_id: str) -> bool:
        """Seen terminated, or missing from several complete listings in a row."""
        instance = self.instances.get(instance_id)
        if instance is not None:
            return instance.state in GONE
        return self._missing.get(instance_id, 0) >= self._settings.missing_listings

    def expect(self, instance_id: str) -> None:
        """Count listings that lack this instance, from now on."""
        self._missing.setdefault(instance_id, 0)

    def forget(self, instance_id: str) -> None:
        self._missing.pop(instance_id, None)

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            await self.list_once()
            interval = (
                self._settings.busy_interval
                if self._in_motion() or not self.listings
                else self._settings.quiet_interval
            )
            try:
                await asyncio.wait_for(self._wanted.wait(), interval)
            except TimeoutError:
                continue

    async def list_once(self) -> None:
        """One complete listing, or none at all."""
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                listing = await self._cloud.list_instances(self._settings.hub)
        except (CloudError, TimeoutError) as error:
            log.warning("Listing instances failed, keeping the last listing: %s", error)
            return
        found = {instance.instance_id: instance for instance in listing}
        for instance_id in self._missing:
            self._missing[instance_id] = (
                0 if instance_id in found else self._missing[instance_id] + 1
            )
        self.instances = found
        self.listings += 1
        done, self._next = self._next, asyncio.Event()
        done.set()
        self._listed()
