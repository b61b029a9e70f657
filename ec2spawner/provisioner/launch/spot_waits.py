"""Starts that wait for spot: whose turn it is to ask EC2, and what their users agree to instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.offers.spot_wait import Turn, turn
from ...wire import Market
from ..model.cloud import LaunchSpec
from ..model.launch_key import launch_key_of
from ..model.lease import AttemptOutcome, Lease, LeaseState
from ..offers.offers import Offers
from ..state.lease_registry import LeaseRegistry


class NotWaiting(Exception):
    """The start does not wait, or its profile leaves its user no other market."""


@dataclass(slots=True)
class SpotWaits:
    registry: LeaseRegistry
    offers: Offers
    now: Callable[[], datetime]
    wake: Callable[[], None]
    _waiting: frozenset[str] = frozenset()
    """Ids of the leases that wait since the last pass."""

    def turns(self, missing: Iterable[Lease]) -> list[tuple[Lease, Turn]]:
        """What the leases do for which no instance is on its way, in every pass.

        A hundred that wait for the same cost one scan of the offers.
        """
        now = self.now()
        open_: dict[LaunchSpec, bool] = {}
        turns: list[tuple[Lease, Turn]] = []
        for lease in missing:
            if lease.wait is not None and lease.spec not in open_:
                open_[lease.spec] = self.offers.is_open(lease.spec)
            is_open = open_.get(lease.spec, True)
            found = turn(lease.wait, is_open=is_open, asked_at=_asked_at(lease), now=now)
            turns.append((lease, found))
        self._waiting = frozenset(lease.lease_id for lease, found in turns if found is Turn.WAIT)
        return turns

    def is_waiting(self, lease: Lease) -> bool:
        """True while nothing is bought for it, or on its way, because nothing is to be had."""
        return lease.state is LeaseState.WAITING and lease.lease_id in self._waiting

    async def buy_on_demand(self, lease_id: str, max_usd_per_hour: float | None) -> None:
        """The user of a waiting start agrees to an on-demand price, USD/hour; None is any.

        Raises `NotWaiting`, and `StoreError`: then it holds in memory, and the next pass stores it.
        """
        lease = self.registry.get(lease_id)
        if lease is None or lease.wait is None or not self.is_waiting(lease):
            raise NotWaiting("this start does not wait, or spot has just been found for it")
        if Market.ON_DEMAND not in lease.wait.otherwise:
            raise NotWaiting("its profile is not open for on-demand")
        spec = replace(
            lease.spec,
            markets=(Market.SPOT, Market.ON_DEMAND),
            max_usd_per_hour=max_usd_per_hour,
        )
        try:
            await self.registry.change(
                lease_id, spec=spec, launch_key=launch_key_of(spec), wait=None
            )
        finally:
            self.wake()


def _asked_at(lease: Lease) -> datetime | None:
    """Its last launch call; None where that brought an instance, which is lost now."""
    last = lease.attempts[-1] if lease.attempts else None
    return None if last is None or last.outcome is AttemptOutcome.FOUND else last.at
