"""Claims: an instance calls the hub, proves its identity, binds its key and waits for a lease.

The first valid claim binds its key to its instance for good, before any user's code runs there.
The same key always gets the same answer; another key is refused, and is a security alert.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...core.instances.retention_rules import Kept, may_rebind
from ...core.names import sha256_hex
from ...core.tags import HUB, INTENT, STORE
from ...wire import PROTOCOL
from ..model.cloud.instance import GONE, Instance
from ..model.leases.lease import Home, Lease
from ..state.state import State
from ..store.store import KeyAlreadyBound

log = logging.getLogger(__name__)

LAUNCH_TIME_TOLERANCE = timedelta(minutes=5)
"""The identity document's `pendingTime` and EC2's `LaunchTime` agree to the second on EC2;
the slack is for a store of another time zone's making or a stopped and started instance."""

LISTING_PAUSE = 1.0
"""Maximum seconds a claim waits for a listing that shows its instance, before it checks again."""

LISTING_LAG = timedelta(minutes=5)
"""EC2's listings show an instance within seconds of its launch; minutes would be an outage."""


class ClaimRefused(Exception):
    """403: this claim will never be granted."""


class SecondKey(ClaimRefused):
    """Another program on that instance tries to act as its agent: a security alert."""


class Rebooted(ClaimRefused):
    """AWS has rebooted the instance, as it had announced: its new agent's key is no alert."""


class InstanceUnwanted(Exception):
    """410: no lease needs this instance; it must power off."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A verified identity: what the signed document says. `pending_time` in UTC."""

    instance_id: str
    region: str
    account_id: str
    pending_time: datetime
    protocol: int = PROTOCOL
    """Version of the agent's protocol."""
    reads_ahead: bool = False
    """Not of the document: its agent says that it reads files ahead while it waits."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What a claim is answered with."""

    lease: Lease
    home: Home | None
    """The home that the instance mounts; None for a lease that keeps no files."""
    token: str
    """The lease token: goes to the agent and nowhere else."""


@dataclass(slots=True)
class Claims:
    """Checks who claims, and with which key."""

    state: State

    async def admit(self, claimant: Claimant, key: str, timeout: float) -> Instance | None:
        """Check a verified claim and bind its key on the first one.

        None while the instance is in no listing yet: the agent asks again. Raises
        `ClaimRefused`, `InstanceUnwanted`.
        """
        key_sha256 = sha256_hex(key)
        booted_anew = self._booted_anew(claimant, key_sha256)
        if booted_anew is None:
            if self._is_unexplained(claimant.instance_id, key_sha256):
                return None
            self._check_key(claimant.instance_id, key_sha256)
        self._check_wanted(claimant.instance_id)
        instances, instance_id = self.state.instances, claimant.instance_id
        instance = instances.listed.get(instance_id)
        if instance is None and await instances.next_listing(timeout, about=instance_id):
            instance = instances.listed.get(instance_id)
            if instance is None and self._should_be_listed(claimant):
                raise ClaimRefused("this instance does not carry this hub's tag")
        if instance is None:
            return None
        if instance.state in GONE:
            raise InstanceUnwanted("this instance is being terminated")
        self.state.claims.heard(instance.instance_id, reads_ahead=claimant.reads_ahead)
        if booted_anew is not None:
            if instance.launched_at <= booted_anew.launched_at:
                return None  # the listing is older than the start
            self._check_ours(claimant, instance)
            await self.state.claims.rebind(instance.instance_id, key_sha256)
        elif not self.state.claims.is_bound(instance.instance_id):
            self._check_origin(claimant, instance)
            if self.state.launches.is_open(instance.tags[INTENT]):
                return None  # EC2 has not said yet which instances the call brought
            await self._bind(instance.instance_id, key_sha256)
        # Another claim may have bound its key while this one waited for a listing.
        self._check_key(instance.instance_id, key_sha256)
        # While its key was stored, a pass may have had it terminated.
        self._check_wanted(instance.instance_id)
        return instance

    async def admit_in_time(self, claimant: Claimant, key: str, wait: float) -> Instance | None:
        """The instance of a verified claim; None where no listing shows it within `wait` seconds.

        Raises `ClaimRefused`, `InstanceUnwanted`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while (instance := await self.admit(claimant, key, LISTING_PAUSE)) is None:
            if loop.time() > deadline:
                return None
            await self.state.claims.wait(claimant.instance_id, LISTING_PAUSE)
        return instance

    def _booted_anew(self, claimant: Claimant, key_sha256: str) -> Kept | None:
        """Set for the first claim of a stopped instance that we had EC2 start."""
        binding = self.state.claims.binding(claimant.instance_id)
        if binding and hmac.compare_digest(binding.key_sha256, key_sha256):
            return None
        kept = self.state.retained.get(claimant.instance_id)
        bound_at = binding.bound_at if binding else None
        if kept is None or not may_rebind(kept, bound_at, claimant.pending_time):
            return None
        return kept

    def _check_wanted(self, instance_id: str) -> None:
        if instance_id in self.state.claims.unwanted:
            raise InstanceUnwanted("this instance is being terminated")

    def _should_be_listed(self, claimant: Claimant) -> bool:
        """Old enough to be listed, and not missing from a single listing only."""
        age = self.state.clock.now() - claimant.pending_time
        if claimant.instance_id in self.state.instances.asked:
            return False  # the listing was of others
        return age > LISTING_LAG and not self.state.claims.is_bound(claimant.instance_id)

    def _is_unexplained(self, instance_id: str, key_sha256: str) -> bool:
        """Whether another key claims, and a hub that has just started cannot say yet if AWS has
        rebooted the instance."""
        binding = self.state.claims.binding(instance_id)
        is_other = binding and not hmac.compare_digest(binding.key_sha256, key_sha256)
        return bool(is_other) and self.state.scheduled_events.is_awaited

    def _check_key(self, instance_id: str, key_sha256: str) -> None:
        binding = self.state.claims.binding(instance_id)
        if binding and not hmac.compare_digest(binding.key_sha256, key_sha256):
            if hmac.compare_digest(self.state.claims.former_key(instance_id), key_sha256):
                raise ClaimRefused("this instance has booted anew since")
            if self.state.scheduled_events.has_rebooted(instance_id, self.state.clock.now()):
                raise Rebooted("AWS has rebooted this instance, as it had announced")
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
        brought = self.state.launches.may_have_launched(token, instance.instance_id)
        self._check_ours(claimant, instance, stored=brought)

    def _check_ours(self, claimant: Claimant, instance: Instance, *, stored: bool = True) -> None:
        """What document and listing say; `stored`: so does what we stored, a launch call or a
        kept instance."""
        ours = (
            stored
            and claimant.region == self.state.settings.region
            and (not instance.account_id or claimant.account_id == instance.account_id)
            and instance.tags.get(HUB) == self.state.settings.hub
            and instance.tags.get(STORE) == self.state.store_id
            and abs(claimant.pending_time - instance.launched_at) <= LAUNCH_TIME_TOLERANCE
        )
        if not ours:
            log.error("ALARM: %s claims, but this hub did not launch it", claimant)
            raise ClaimRefused("this hub did not launch this instance")

    async def _bind(self, instance_id: str, key_sha256: str) -> None:
        try:
            await self.state.claims.bind(instance_id, key_sha256)
        except KeyAlreadyBound as error:  # by an old binding, which is not kept in memory
            log.critical("ALARM: a second key claims instance %s", instance_id)
            raise SecondKey(str(error)) from error
