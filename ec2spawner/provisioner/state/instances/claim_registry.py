"""Which key speaks for which instance, who waits for a lease, and who is turned away."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from ...model.leases.lease import Binding
from ...runtime.clock import Clock
from ...store.store import KeyAlreadyBound, Store, StoreError

FORGET_AFTER: Final = 300.0
"""Seconds of uptime after its last call for which an unlisted instance stays in memory."""


class ClaimRegistry:
    """The key bindings of instances, and one waiter for each that waits for a lease."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._bindings: dict[str, Binding] = {}
        self._former: dict[str, str] = {}
        """By instance id: SHA-256 of the key before the last boot. EC2 closes no connection of an
        instance that it stops, so a claim of that boot may still wait here: it is no attack."""
        self.waiting: dict[str, asyncio.Event] = {}
        """By instance id: set to make the waiter check again."""
        self._last_claim: dict[str, float] = {}
        """By instance id: uptime at which its agent last claimed, in seconds."""
        self._reads_ahead: set[str] = set()
        """Ids of those whose agent reads files ahead, by its last claim."""
        self.unwanted: dict[str, float] = {}
        """Instances that are being terminated, and since when (uptime, in seconds): their claims
        are answered 410."""

    def load(self, bindings: tuple[Binding, ...]) -> None:
        """Take over the bindings that an earlier process has stored."""
        self._bindings = {binding.instance_id: binding for binding in bindings}
        # No agent could claim while no hub ran: their silence begins now.
        self._last_claim = dict.fromkeys(self._bindings, self._clock.uptime())

    # --- reading ---

    def binding(self, instance_id: str) -> Binding | None:
        """Which key the instance is bound to; None before its first claim."""
        return self._bindings.get(instance_id)

    def is_bound(self, instance_id: str) -> bool:
        """Whether its agent has claimed."""
        return instance_id in self._bindings

    def former_key(self, instance_id: str) -> str:
        """SHA-256 of the key before the instance's last boot; empty for none."""
        return self._former.get(instance_id, "")

    def is_waiting(self, instance_id: str) -> bool:
        """True for a claim that waits and has not been woken yet."""
        event = self.waiting.get(instance_id)
        return event is not None and not event.is_set()

    def silent_seconds(self, instance_id: str) -> float:
        """Uptime for which its agent has not claimed; infinite for one that never did."""
        return self._clock.uptime() - self._last_claim.get(instance_id, float("-inf"))

    def reads_ahead(self, instance_id: str) -> bool:
        """Whether its agent still reads files ahead, by its last claim."""
        return instance_id in self._reads_ahead

    # --- changing ---

    def heard(self, instance_id: str, *, reads_ahead: bool = False) -> None:
        """Its agent has called: its silence begins at zero."""
        self._last_claim[instance_id] = self._clock.uptime()
        if reads_ahead:
            self._reads_ahead.add(instance_id)
        else:
            self._reads_ahead.discard(instance_id)

    def turn_away(self, instance_ids: Iterable[str]) -> None:
        """Answer the claims of these with 410 from now on, also those that wait."""
        for instance_id in instance_ids:
            self.unwanted[instance_id] = self._clock.uptime()
            self.wake(instance_id)

    def forget_gone(self, here: Collection[str]) -> None:
        """Drop what is known of instances that are not `here` and have not been heard for long.

        The store keeps every binding: a key that is not in memory is still binding.
        """
        latest = self._clock.uptime() - FORGET_AFTER
        last = self.unwanted | self._last_claim
        for instance_id in [x for x, at in last.items() if at < latest and x not in here]:
            for known in (self.unwanted, self._last_claim, self._bindings, self._former):
                known.pop(instance_id, None)
            self._reads_ahead.discard(instance_id)

    async def bind(self, instance_id: str, key_sha256: str) -> None:
        """Bind the first key, permanently. Raises `StoreError`, `KeyAlreadyBound`."""
        self._bindings[instance_id] = binding = self._binding(instance_id, key_sha256)
        try:
            await asyncio.shield(self._store.save_binding(binding))
        except (StoreError, KeyAlreadyBound):
            del self._bindings[instance_id]  # only a stored binding counts
            raise

    async def rebind(self, instance_id: str, key_sha256: str) -> None:
        """Bind the key of a new boot in place of the previous one: once for each start of ours.

        Raises `StoreError`.
        """
        before = self._bindings.get(instance_id)
        if before is not None:
            self._former[instance_id] = before.key_sha256
        self._bindings[instance_id] = binding = self._binding(instance_id, key_sha256)
        try:
            await asyncio.shield(self._store.rebind(binding))
        except StoreError:
            if before is None:
                del self._bindings[instance_id]
            else:
                self._bindings[instance_id] = before
            raise

    def _binding(self, instance_id: str, key_sha256: str) -> Binding:
        return Binding(instance_id, key_sha256, self._clock.now())

    # --- waiting ---

    def wake(self, instance_id: str) -> None:
        """Let the claim of this instance check again, if one waits."""
        if event := self.waiting.get(instance_id):
            event.set()

    async def wait(self, instance_id: str, timeout: float) -> bool:
        """Wait until something changes for this instance, `timeout` seconds at most.

        False when a newer waiter has replaced this one, which must not wait again.
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
