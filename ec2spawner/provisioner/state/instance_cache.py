"""The one listing of our instances, read by everything else from memory.

One task lists by tag, often while something starts or ends and seldom otherwise. An error keeps
the last listing: unknown is not gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ..model import metrics
from ..model.cloud import (
    GONE,
    SPOT_TERMINATION,
    Cloud,
    CloudError,
    Instance,
)
from ..model.lease import Lease
from ..model.settings import Settings

log = logging.getLogger(__name__)

LISTING_TIMEOUT = 60.0
"""Seconds for one complete listing; 2000 instances are 40 pages."""

AT_ONCE = 0.25
"""Share of the busy interval that passes between two listings however much they are wanted: a
claim of anybody's instance wants one, and EC2 counts our calls."""


class InstanceCache:
    """Keeps `instances` fresh and counts the listings in which a known one was missing."""

    def __init__(
        self,
        cloud: Cloud,
        settings: Settings,
        *,
        in_motion: Callable[[], bool],
        listed: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._settings = settings
        self._in_motion = in_motion
        self._listed = listed
        self._wanted = asyncio.Event()
        self._next = asyncio.Event()
        self.instances: Mapping[str, Instance] = {}
        self.listings = 0
        """Complete listings so far; 0 means that nothing is known yet."""
        self.failure: CloudError | None = None
        """Why the last listing failed; None where it did not."""
        self._missing: dict[str, int] = {}
        self._counted_at = float("-inf")
        """By the loop's clock, in seconds."""

    def refresh_soon(self) -> None:
        """List at once, and once more where a listing is under way."""
        self._wanted.set()

    async def next_listing(self, timeout: float) -> bool:
        """Wait until a listing completes. False when `timeout` seconds passed."""
        self.refresh_soon()
        try:
            async with asyncio.timeout(timeout):
                await self._next.wait()
        except TimeoutError:
            return False
        return True

    async def first_listing(self, timeout: float) -> bool:
        """True once something is known; waits at most `timeout` s for it."""
        return self.listings > 0 or await self.next_listing(timeout)

    def instance_of(self, lease: Lease) -> Instance | None:
        """The lease's instance as the last listing showed it."""
        return self.instances.get(lease.instance_id or "")

    def is_gone(self, instance_id: str) -> bool:
        """Seen terminated, or missing from several complete listings in a row."""
        instance = self.instances.get(instance_id)
        if instance is not None:
            return instance.state in GONE
        return self._missing.get(instance_id, 0) >= self._settings.missing_listings

    def is_missing(self, instance_id: str) -> bool:
        """Missing from the last listing, and from too few in a row to be gone."""
        return instance_id not in self.instances and not self.is_gone(instance_id)

    def track(self, instance_ids: Iterable[str]) -> None:
        """Count the listings that lack these instances, and forget all others."""
        self._missing = {each: self._missing.get(each, 0) for each in instance_ids}

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self.list_once()
            except Exception:
                log.exception("Listing instances failed; the next one goes on")
            await asyncio.sleep(AT_ONCE * self._settings.busy_interval)
            interval = (
                self._settings.busy_interval
                if self._in_motion() or not self.listings
                else self._settings.quiet_interval
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._wanted.wait()

    async def list_once(self) -> None:
        """One complete listing, or none at all."""
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                listing = await self._cloud.list_instances(self._settings.hub)
        except CloudError as error:
            self._fail(error)
            return
        except TimeoutError:
            message = f"no complete listing within {LISTING_TIMEOUT:.0f} s"
            self._fail(CloudError("Timeout", message, retryable=True))
            return
        self.failure = None
        found = {instance.instance_id: instance for instance in listing}
        self._count_missing(found)
        self._count_interruptions(found)
        self.instances = found
        self.listings += 1
        done, self._next = self._next, asyncio.Event()
        done.set()
        self._listed()

    def _fail(self, error: CloudError) -> None:
        log.warning("Listing instances failed, keeping the last listing: %s", error)
        self.failure = error

    def _count_interruptions(self, found: Mapping[str, Instance]) -> None:
        """Those that this process has seen running."""
        for instance_id, before in self.instances.items():
            after = found.get(instance_id, before)
            if after.state_reason == SPOT_TERMINATION and before.state_reason != SPOT_TERMINATION:
                metrics.INTERRUPTIONS.labels(after.instance_type).inc()

    def _count_missing(self, found: Mapping[str, Instance]) -> None:
        """Listings in quick succession are one: they may come from the same stale copy."""
        now = asyncio.get_running_loop().time()
        fresh = now - self._counted_at >= self._settings.busy_interval
        if fresh:
            self._counted_at = now
        for instance_id, count in self._missing.items():
            self._missing[instance_id] = 0 if instance_id in found else count + fresh
