"""The one task that lists our instances, by tag: often while something starts or stops.

An error keeps the last listing: unknown is not gone.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from ..model.cloud import Cloud, CloudError
from ..model.lease import Lease, LeaseState
from ..runtime.supervise import Supervised
from ..state.state import State

log = logging.getLogger(__name__)

LISTING_TIMEOUT = 60.0
"""Seconds for one complete listing; 2000 instances are 40 pages."""

MIN_PAUSE = 0.25
"""Minimum pause between two listings, as a share of the busy interval: any instance's claim
requests one, and EC2 limits our calls."""


@dataclass(slots=True)
class Listing:
    """Updates the state's instances from EC2."""

    state: State
    cloud: Cloud

    async def run(self) -> None:
        """List until the task is cancelled."""
        state, supervised = self.state, Supervised("Listing instances")
        while True:
            state.instances.wanted.clear()
            with supervised:
                await self.list_once()
            await asyncio.sleep(MIN_PAUSE * state.settings.busy_interval)
            interval = (
                state.settings.busy_interval
                if is_in_motion(state) or not state.instances.listings
                else state.settings.quiet_interval
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await state.instances.wanted.wait()

    async def list_once(self) -> None:
        """One complete listing, or none."""
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                listing = await self.cloud.list_instances(self.state.settings.hub)
        except CloudError as error:
            self._fail(error)
            return
        except TimeoutError:
            message = f"no complete listing within {LISTING_TIMEOUT:.0f} s"
            self._fail(CloudError("Timeout", message, retryable=True))
            return
        self.state.instances.replace(listing)
        self.state.leases.times.listed(self.state.instances.listed)
        self.state.wake()

    def _fail(self, error: CloudError) -> None:
        log.warning("Listing instances failed, keeping the last listing: %s", error)
        self.state.instances.failure = error


def is_in_motion(state: State) -> bool:
    """True while something starts or stops: frequent listings are worth their calls."""
    moving = state.leases.open(LeaseState.WAITING, LeaseState.STARTING, LeaseState.ENDING)
    return (
        any(True for _ in moving)
        or bool(state.launches.in_progress)
        or not state.launches.expected.keys() <= state.instances.listed.keys()
        or any(_may_be_gone(state, lease) for lease in state.leases.open(LeaseState.READY))
    )


def _may_be_gone(state: State, lease: Lease) -> bool:
    """True for a server under check after the hub's start whose instance EC2 does not list."""
    unheard = not state.leases.contact(lease.lease_id).heartbeats
    return unheard and state.instances.is_missing(lease.instance_id or "")
