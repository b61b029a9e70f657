"""The one task that lists our instances, by tag: often while something starts or stops.

An error keeps the last listing: unknown is not gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Final

from ...core.instances.retention_rules import Kept
from ..model.cloud.cloud import LISTING_PAGE, MAX_FILTER_VALUES, Cloud, CloudError
from ..model.cloud.instance import Instance, InstanceState
from ..model.leases.lease import Lease, LeaseState
from ..runtime.supervise import Supervised
from ..state.state import State

log = logging.getLogger(__name__)

LISTING_TIMEOUT = 60.0
"""Seconds for one complete listing; 2000 instances are 40 pages."""

MIN_PAUSE = 0.25
"""Minimum pause between two listings, as a share of the busy interval: any instance's claim
requests one, and EC2 limits our calls."""


SMALL: Final = 100
"""Instances of a hub that are always listed completely: two pages."""

PAGES_PER_MINUTE: Final = 8.0
"""Of complete listings while nothing happens, and of those of a large hub at any time: the calls
that a hub makes do not grow with its servers."""

MAX_BUSY_PAGES: Final = 4
"""Pages after which a longer listing is no rarer while something starts or stops."""

IN_TRANSITION: Final = frozenset(
    {InstanceState.PENDING, InstanceState.STOPPING, InstanceState.SHUTTING_DOWN}
)

CUT_OFF_LISTED: Final = 60.0
"""Seconds for which listings are frequent after an agent has hung up: systemd restarts one that
crashed after five, and EC2 shows half a minute later at most that it powered the instance off."""

AGENT_SILENCE: Final = 75.0
"""Seconds after which a silent agent's instance is asked about: one that lives is heard at least
every 50 s, and a call takes a moment."""


@dataclass(slots=True)
class Listing:
    """Updates the state's instances from EC2.

    Of a large hub, it lists only what starts, stops or is silent, and all instances now and then.
    """

    state: State
    cloud: Cloud
    _complete_at: float = float("-inf")
    """When the last complete listing began, in seconds of the loop's clock."""

    async def run(self) -> None:
        """List until the task is cancelled."""
        state, supervised = self.state, Supervised("Listing instances")
        while True:
            state.instances.wanted.clear()
            with supervised:
                await self.list_once()
            await asyncio.sleep(MIN_PAUSE * state.settings.busy_interval)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await state.instances.wanted.wait()

    def _pause(self) -> float:
        """Seconds until the next listing, unless one is wanted sooner."""
        settings, is_known = self.state.settings, self.state.instances.listings > 0
        if is_in_motion(self.state) or not is_known:
            return settings.busy_interval * self._next_pages()
        # A large hub looks for silent agents in between.
        return min(settings.quiet_interval, self._complete_interval())

    def _next_pages(self) -> int:
        """About so many pages has the next listing: the calls of a hub whose servers all start
        grow with the time that this takes, and not with its servers."""
        listed = len(self.state.instances.listed)
        count = listed if listed <= SMALL else len(in_question(self.state))
        return max(1, min(ceil(count / LISTING_PAGE), MAX_BUSY_PAGES))

    def _complete_interval(self) -> float:
        pages = ceil(len(self.state.instances.listed) / LISTING_PAGE)
        return max(self.state.settings.quiet_interval, 60.0 * pages / PAGES_PER_MINUTE)

    async def list_once(self) -> None:
        """One listing, or none; of nothing where a large hub has nothing to ask."""
        now, instances = asyncio.get_running_loop().time(), self.state.instances
        is_due = now - self._complete_at >= self._complete_interval()
        is_complete = is_due or not instances.listings or len(instances.listed) <= SMALL
        among = set() if is_complete else in_question(self.state)
        if not is_complete and not among:
            return
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                listing = await self._list(sorted(among))
        except CloudError as error:
            self._fail(error)
            return
        except TimeoutError:
            message = f"no complete listing within {LISTING_TIMEOUT:.0f} s"
            self._fail(CloudError("Timeout", message, retryable=True))
            return
        if is_complete:
            self._complete_at = now
            instances.replace(listing)
        else:
            instances.update(listing, among)
        self.state.leases.times.listed(instances.listed)
        self.state.wake()

    async def _list(self, ids: Sequence[str]) -> Sequence[Instance]:
        hub, found = self.state.settings.hub, list[Instance]()
        for first in range(0, max(len(ids), 1), MAX_FILTER_VALUES):
            some = ids[first : first + MAX_FILTER_VALUES]
            found += await self.cloud.list_instances(hub, some)
        return found

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
        # A start may want it at any time, and takes only what is listed as stopped.
        or any(_is_being_stopped(state, kept) for kept in state.retained.of_pool())
    )


def _is_being_stopped(state: State, kept: Kept) -> bool:
    instance = state.instances.listed.get(kept.instance_id)
    if instance is None or kept.asked_at is not None:
        return False
    return instance.state in IN_TRANSITION | {InstanceState.RUNNING}


def _may_be_gone(state: State, lease: Lease) -> bool:
    """True for a server under check after the hub's start whose instance EC2 does not list, and for
    one whose agent has just hung up."""
    contact = state.leases.contact(lease.lease_id)
    if contact.heartbeats and contact.heartbeats == contact.last_heartbeat:
        return state.clock.uptime() - contact.hung_up_at < CUT_OFF_LISTED
    return not contact.heartbeats and state.instances.is_missing(lease.instance_id or "")


def in_question(state: State) -> set[str]:
    """Ids of the instances of which something is to change soon, or may have changed unheard."""
    listed, uptime = state.instances.listed, state.clock.uptime()
    ids = set(state.instances.asked)
    ids |= {each.instance_id for each in listed.values() if each.state in IN_TRANSITION}
    ids |= state.launches.expected.keys() - listed.keys()
    ids |= state.claims.waiting.keys() - listed.keys()
    ids |= {each for each in state.claims.unwanted if each in listed and not _is_over(listed[each])}
    ids |= {each for each in _unused(state) if _is_unheard(state, each)}
    ids |= {kept.instance_id for kept in state.retained.all() if _is_changing(state, kept)}
    for lease in state.leases.open():
        if lease.instance_id is None:
            continue
        heard_at = state.leases.contact(lease.lease_id).heard_at
        is_silent = heard_at is None or uptime - heard_at > AGENT_SILENCE
        is_listed = lease.instance_id in listed
        is_sure = lease.state is LeaseState.READY and is_listed and not is_silent
        if not is_sure or _may_be_gone(state, lease):
            ids.add(lease.instance_id)
    return ids


def _unused(state: State) -> set[str]:
    """Running instances without a lease: they boot for a start, or wait for one."""
    leased = {lease.instance_id for lease in state.leases.open()}
    return {
        each.instance_id
        for each in state.instances.listed.values()
        if each.state is InstanceState.RUNNING and each.instance_id not in leased
    }


def _is_unheard(state: State, instance_id: str) -> bool:
    """Its agent has not called yet, or not for some time: it may have ended."""
    return state.claims.silent_seconds(instance_id) > AGENT_SILENCE


def _is_changing(state: State, kept: Kept) -> bool:
    """It is being stopped or started."""
    instance = state.instances.listed.get(kept.instance_id)
    runs = instance is not None and instance.state is InstanceState.RUNNING
    return bool(kept.started_for or (runs and kept.then == "stop")) or (
        kept.is_of_pool and kept.asked_at is not None
    )


def _is_over(instance: Instance) -> bool:
    return instance.state is InstanceState.TERMINATED
