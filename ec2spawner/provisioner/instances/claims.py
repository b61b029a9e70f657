"""Instances that phone home: who they are, which key speaks for them, and how long they wait.

The first valid claim binds its key to its instance for good, before any user's code runs there.
The same key always gets the same answer; another key is refused and is an alarm.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...core.instances.retention import Kept, may_rebind
from ...core.names import sha256_hex
from ...core.tags import HUB, INTENT, STORE
from ...wire import PROTOCOL
from ..model.cloud import GONE, Instance
from ..model.lease import Binding, Home, Lease
from ..model.settings import Settings
from ..state.instance_cache import InstanceCache
from ..state.launches import Launches
from ..store.store import KeyAlreadyBound, Store, StoreError

log = logging.getLogger(__name__)

LAUNCH_TIME_TOLERANCE = timedelta(minutes=5)
"""The identity document's `pendingTime` and EC2's `LaunchTime` agree to the second on EC2;
the slack is for a store of another time zone's making or a stopped and started instance."""

FORGET_AFTER = 300.0
"""Seconds awake for which what is known of an instance outlives its last listing."""

LISTING_LAG = timedelta(minutes=5)
"""EC2's listings show an instance within seconds of its launch; minutes would be an outage."""


class ClaimRefused(Exception):
    """403: this claim will never be granted."""


class SecondKey(ClaimRefused):
    """Somebody on that instance tries to act as its agent: an alarm."""


class InstanceUnwanted(Exception):
    """410: nobody needs this instance; it shall power off."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A verified identity: what the signed document says. `pending_time` in UTC."""

    instance_id: str
    region: str
    account_id: str
    pending_time: datetime
    protocol: int = PROTOCOL
    """What its agent speaks."""


@dataclass(frozen=True, slots=True)
class Granted:
    lease: Lease
    home: Home | None
    """What the instance shall mount; None for a lease that keeps no files."""
    token: str
    """The lease token: goes to the agent and nowhere else."""


class Claims:
    """The bindings, and one waiter for each instance that waits for a lease."""

    def __init__(
        self,
        store: Store,
        instance_cache: InstanceCache,
        launches: Launches,
        settings: Settings,
        *,
        now: Callable[[], datetime],
        uptime: Callable[[], float],
        kept: Callable[[str], Kept | None],
    ) -> None:
        self._kept = kept
        self._uptime = uptime
        self._store = store
        self._instance_cache = instance_cache
        self._launches = launches
        self._settings = settings
        self._now = now
        self._bindings: dict[str, Binding] = {}
        self._former: dict[str, str] = {}
        """By instance id: SHA-256 of the key before the last boot. EC2 cuts no connection of an
        instance that it stops, so a claim of that boot may still wait here: it is no intruder's."""
        self.waiting: dict[str, asyncio.Event] = {}
        """By instance id: set to make the waiter look again."""
        self._last_claim: dict[str, float] = {}
        """By instance id, in seconds awake: when its agent last claimed."""
        self.unwanted: dict[str, float] = {}
        """Instances that are being terminated, and since when (in seconds awake): their claims are
        answered 410."""

    def load(self, bindings: tuple[Binding, ...]) -> None:
        self._bindings = {binding.instance_id: binding for binding in bindings}
        # No agent could claim while no hub ran: their silence begins now.
        self._last_claim = dict.fromkeys(self._bindings, self._uptime())

    def heard(self, instance_id: str) -> None:
        """Its agent is there: its silence begins anew."""
        self._last_claim[instance_id] = self._uptime()

    def silent_seconds(self, instance_id: str) -> float:
        """For how long, awake, its agent has not claimed; infinite for one that never did."""
        return self._uptime() - self._last_claim.get(instance_id, float("-inf"))

    def is_bound(self, instance_id: str) -> bool:
        return instance_id in self._bindings

    def turn_away(self, instance_ids: Iterable[str]) -> None:
        """Answer the claims of these with 410 from now on, also those that wait."""
        for instance_id in instance_ids:
            self.unwanted[instance_id] = self._uptime()
            self.wake(instance_id)

    def forget_gone(self, here: Collection[str]) -> None:
        """Drop what is known of instances that are not `here` and have not been heard for long.

        The store keeps every binding: a key that memory forgot still counts.
        """
        latest = self._uptime() - FORGET_AFTER
        last = self.unwanted | self._last_claim
        for instance_id in [x for x, at in last.items() if at < latest and x not in here]:
            for known in (self.unwanted, self._last_claim, self._bindings, self._former):
                known.pop(instance_id, None)

    def is_waiting(self, instance_id: str) -> bool:
        """True for a claim that waits and has not been woken yet."""
        event = self.waiting.get(instance_id)
        return event is not None and not event.is_set()

    def wake(self, instance_id: str) -> None:
        if event := self.waiting.get(instance_id):
            event.set()

    async def admit(self, claimant: Claimant, key: str, timeout: float) -> Instance | None:
        """Check a verified claim and bind its key on the first one.

        None while the instance is in no listing yet: the agent asks again. Raises
        `ClaimRefused`, `InstanceUnwanted`.
        """
        key_sha256 = sha256_hex(key)
        booted_anew = self._booted_anew(claimant, key_sha256)
        if booted_anew is None:
            self._check_key(claimant.instance_id, key_sha256)
        self._check_wanted(claimant.instance_id)
        instance = self._instance_cache.instances.get(claimant.instance_id)
        if instance is None and await self._instance_cache.next_listing(timeout):
            instance = self._instance_cache.instances.get(claimant.instance_id)
            if instance is None and self._should_be_listed(claimant):
                raise ClaimRefused("this instance does not carry this hub's tag")
        if instance is None:
            return None
        if instance.state in GONE:
            raise InstanceUnwanted("this instance is being terminated")
        self.heard(instance.instance_id)
        if booted_anew is not None:
            if instance.launched_at <= booted_anew.launched_at:
                return None  # the listing is older than the start
            self._check_ours(claimant, instance)
            await self._rebind(instance.instance_id, key_sha256)
        elif not self.is_bound(instance.instance_id):
            self._check_origin(claimant, instance)
            if self._launches.is_open(instance.tags[INTENT]):
                return None  # EC2 has not said yet which instances the call brought
            await self._bind(instance.instance_id, key_sha256)
        # Another claim may have bound its key while this one waited for a listing.
        self._check_key(instance.instance_id, key_sha256)
        # While its key was stored, a pass may have had it terminated.
        self._check_wanted(instance.instance_id)
        return instance

    def _booted_anew(self, claimant: Claimant, key_sha256: str) -> Kept | None:
        """Set for the first agent of a stopped instance that we have had EC2 start."""
        binding = self._bindings.get(claimant.instance_id)
        if binding and hmac.compare_digest(binding.key_sha256, key_sha256):
            return None
        kept = self._kept(claimant.instance_id)
        bound_at = binding.bound_at if binding else None
        if kept is None or not may_rebind(kept, bound_at, claimant.pending_time):
            return None
        return kept

    def _check_wanted(self, instance_id: str) -> None:
        if instance_id in self.unwanted:
            raise InstanceUnwanted("this instance is being terminated")

    def _should_be_listed(self, claimant: Claimant) -> bool:
        """Old enough, and not one that a single listing may lack for once."""
        age = self._now() - claimant.pending_time
        return age > LISTING_LAG and not self.is_bound(claimant.instance_id)

    def _check_key(self, instance_id: str, key_sha256: str) -> None:
        binding = self._bindings.get(instance_id)
        if binding and not hmac.compare_digest(binding.key_sha256, key_sha256):
            if hmac.compare_digest(self._former.get(instance_id, ""), key_sha256):
                raise ClaimRefused("this instance has booted anew since")
            log.critical(
                "ALARM: a second key claims instance %s, which is bound since %s. "
                "Someone on that instance tries to act as its agent.",
                instance_id,
                binding.bound_at.isoformat(timespec="seconds"),
            )
            raise SecondKey("another key speaks for this instance")

    def _check_origin(self, claimant: Claimant, instance: Instance) -> None:
        """The instance is ours by what we stored, not merely by a tag that anyone can set."""
        token = instance.tags.get(INTENT, "")
        brought = self._launches.may_have_launched(token, instance.instance_id)
        self._check_ours(claimant, instance, stored=brought)

    def _check_ours(self, claimant: Claimant, instance: Instance, *, stored: bool = True) -> None:
        """What document and listing say; `stored`: so does what we stored, a launch call or a
        kept instance."""
        ours = (
            stored
            and claimant.region == self._settings.region
            and (not instance.account_id or claimant.account_id == instance.account_id)
            and instance.tags.get(HUB) == self._settings.hub
            and instance.tags.get(STORE) == self._store.store_id
            and abs(claimant.pending_time - instance.launched_at) <= LAUNCH_TIME_TOLERANCE
        )
        if not ours:
            log.error("ALARM: %s claims, but this hub did not launch it", claimant)
            raise ClaimRefused("this hub did not launch this instance")

    async def _rebind(self, instance_id: str, key_sha256: str) -> None:
        """The key of a new boot, in the place of the boot before: once for each start of ours."""
        before = self._bindings.get(instance_id)
        if before is not None:
            self._former[instance_id] = before.key_sha256
        self._bindings[instance_id] = binding = Binding(instance_id, key_sha256, self._now())
        try:
            await asyncio.shield(self._store.rebind(binding))
        except StoreError:
            if before is None:
                del self._bindings[instance_id]
            else:
                self._bindings[instance_id] = before
            raise

    async def _bind(self, instance_id: str, key_sha256: str) -> None:
        binding = Binding(instance_id, key_sha256, self._now())
        self._bindings[instance_id] = binding
        try:
            await asyncio.shield(self._store.save_binding(binding))
        except StoreError:
            del self._bindings[instance_id]  # bound is only what is stored
            raise
        except KeyAlreadyBound as error:
            del self._bindings[instance_id]  # an old one, which is not kept in memory
            log.critical("ALARM: a second key claims instance %s", instance_id)
            raise SecondKey(str(error)) from error

    async def wait(self, instance_id: str, timeout: float) -> bool:
        """Wait until something changes for this instance, `timeout` seconds at most.

        False when a newer waiter has taken this one's place: this one must not come back.
        """
        self.wake(instance_id)
        event = self.waiting[instance_id] = asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            replaced = self.waiting.get(instance_id) is not event
            if not replaced:
                del self.waiting[instance_id]
        return not replaced
