"""The last listing of our instances, read by everything else from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Set
from datetime import datetime, timedelta

from ....core.ledger.instance_end import InstanceEnd
from ...model.cloud.cloud import CloudError
from ...model.cloud.instance import GONE, SPOT_TERMINATION, Instance
from ...model.instance_end import instance_end
from ...model.leases.lease import Lease
from ...model.settings import Settings
from ...runtime.clock import Clock
from .interruptions import Interruptions, interruption_seen

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""Between EC2's clock and the hub's: with more, AWS refuses the signatures of all calls."""


NEVER = (0, float("-inf"))
"""Of an instance that no listing has lacked."""


class InstanceCache:
    """The instances as EC2 listed them last, and the listings in which a known one was missing."""

    def __init__(self, settings: Settings, clock: Clock, interruptions: Interruptions) -> None:
        self._settings = settings
        self._clock = clock
        self._interruptions = interruptions
        self._next = asyncio.Event()
        self.wanted = asyncio.Event()
        """Set to request a listing now."""
        self.asked: set[str] = set()
        """Ids of the instances that somebody waits to see."""
        self.listed: Mapping[str, Instance] = {}
        """By instance id, in any state."""
        self.holders: Mapping[str, Instance] = {}
        """By volume id: the instance to which it is attached."""
        self.listings = 0
        """Number of complete listings; 0 means that nothing is known yet."""
        self.unseen: set[str] = set()
        """Instances of an earlier process that no listing of this one has shown."""
        self.listed_at: float | None = None
        """Uptime of the last complete listing, in seconds; None before the first."""
        self.failure: CloudError | None = None
        """Why the last listing failed; None where it did not."""
        self._seen_at: dict[str, float] = {}
        """By instance id: uptime at which this process first saw it listed, in seconds."""
        self._missing: dict[str, tuple[int, float]] = {}
        """By id: how many listings in a row have lacked it, and when the last one counted, in
        seconds of the loop's clock."""
        self._shown: dict[str, tuple[datetime, float]] = {}
        """By id: EC2's time of the last launch or start, and the uptime at which a listing first
        showed it, in seconds."""
        self._recent: Set[str] = frozenset()
        """Ids of those that a listing may still lack."""

    def refresh_soon(self) -> None:
        """List now, and once more if a listing is in progress."""
        self.wanted.set()

    async def next_listing(self, timeout: float, about: str = "") -> bool:
        """Wait until a listing completes, which may be one of some instances only. False when
        `timeout` seconds passed.

        `about` is the id of the instance that the caller wants to see in it.
        """
        if about:
            self.asked.add(about)
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
        return self.listed.get(lease.instance_id or "")

    def is_gone(self, instance_id: str) -> bool:
        """Seen terminated, or missing from several complete listings in a row."""
        instance = self.listed.get(instance_id)
        if instance is not None:
            return instance.state in GONE
        return self._missing.get(instance_id, NEVER)[0] >= self._settings.missing_listings

    def ended(self, instance_ids: Set[str]) -> set[str]:
        """Those that the last listing shows as ended."""
        listed = self.listed
        return {each for each in instance_ids & listed.keys() if listed[each].state in GONE}

    def is_missing(self, instance_id: str) -> bool:
        """Missing from the last listing, and from too few in a row to be gone."""
        return instance_id not in self.listed and not self.is_gone(instance_id)

    def seen_seconds(self, instance_id: str) -> float:
        """Uptime since this process first asked about it while it was listed."""
        now = self._clock.uptime()
        return now - self._seen_at.setdefault(instance_id, now)

    # --- changing ---

    def track(self, instance_ids: Iterable[str]) -> None:
        """Count the listings that lack these instances, and forget all others."""
        self._missing = {each: self._missing.get(each, NEVER) for each in instance_ids}

    def forget_gone(self) -> None:
        """Drop what is known of instances that the last listing does not show."""
        self._seen_at = {each: at for each, at in self._seen_at.items() if each in self.listed}

    def replace(self, listing: Iterable[Instance]) -> None:
        """Replace the last listing by another complete one."""
        found = {instance.instance_id: instance for instance in listing}
        self._count_missing(found, self._missing.keys())
        self._take(found, found)
        self.asked.clear()
        self.listings += 1
        self.listed_at = self._clock.uptime()

    def update(self, listing: Iterable[Instance], among: Set[str]) -> None:
        """Take in a listing of these instances only: it says nothing of others."""
        found = {instance.instance_id: instance for instance in listing}
        self._count_missing(found, among & self._missing.keys())
        others = {each: known for each, known in self.listed.items() if each not in among}
        self._take(found, {**others, **found})
        self.asked -= among

    def _take(self, found: Mapping[str, Instance], listed: Mapping[str, Instance]) -> None:
        self.failure = None
        self._record_interruptions(found)
        self.listed = listed
        self.holders = {x: each for each in listed.values() for x in each.volumes.values()}
        self._forget_shown()
        self.unseen -= found.keys()
        done, self._next = self._next, asyncio.Event()
        done.set()

    def end_of(self, instance: Instance | None) -> InstanceEnd | None:
        """How the cost of an instance ended; None while it runs, and where no listing shows it."""
        return instance_end(instance, self._interruptions.rehearsed)

    def _record_interruptions(self, found: Mapping[str, Instance]) -> None:
        """Those that this process has seen running."""
        for instance_id, before in self.listed.items():
            after = found.get(instance_id, before)
            if after.state_reason == SPOT_TERMINATION and before.state_reason != SPOT_TERMINATION:
                self._interruptions.record(interruption_seen(after, self._clock.now()))

    def _count_missing(self, found: Mapping[str, Instance], among: Set[str]) -> None:
        """Listings in quick succession are one: they may come from the same stale copy. One that
        lacks an instance which was just launched says nothing of it."""
        now = asyncio.get_running_loop().time()
        new = self._new(found)
        for instance_id in among:
            count, counted_at = self._missing[instance_id]
            fresh = now - counted_at >= self._settings.busy_interval
            counts = instance_id not in found and instance_id not in new
            self._missing[instance_id] = (
                count + fresh if counts else 0,
                now if fresh else counted_at,
            )

    def _new(self, found: Mapping[str, Instance]) -> Set[str]:
        """Ids of those that a listing may still lack.

        Also those that are not tracked yet: the next listing may lack them. Counted by uptime
        since a listing first showed the launch: EC2's clock is not the hub's.
        """
        uptime, lag = self._clock.uptime(), self._settings.listing_lag
        oldest = self._clock.now() - timedelta(seconds=lag) - MAX_CLOCK_SKEW
        for instance_id, instance in found.items():
            shown = self._shown.get(instance_id)
            if shown is None or shown[0] != instance.launched_at:
                self._shown[instance_id] = instance.launched_at, uptime
        self._recent = {
            instance_id
            for instance_id, (launched_at, since) in self._shown.items()
            if uptime - since < lag and launched_at > oldest
        }
        return self._recent

    def _forget_shown(self) -> None:
        keep = self.listed.keys() | self._recent
        self._shown = {each: shown for each, shown in self._shown.items() if each in keep}
