"""Starts that wait: when each asks EC2 again, and when its user accepts on-demand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.offers.sold_out import Mark
from ...core.offers.spot_wait import Turn, turn
from ...wire import Market
from ..limits.admission import Admission
from ..model.cloud.launch import LaunchSpec
from ..model.launch_key import launch_key_of
from ..model.leases.lease import AttemptOutcome, Lease, LeaseState
from ..offers.avoided_offer import Avoided
from ..offers.offers import Offers
from ..state.state import State


class NotWaiting(Exception):
    """The start does not wait, or its profile leaves its user no other market."""


def turns(
    missing: Iterable[tuple[Lease, Avoided | None]], offers: Offers, now: datetime
) -> list[tuple[Lease, Turn]]:
    """What each of these leases, which lack an instance, does now: ask EC2, wait or end.

    A hundred leases with the same spec cost one scan of the offers.
    """
    marks: dict[tuple[LaunchSpec, Avoided | None], list[Mark | None]] = {}
    found: list[tuple[Lease, Turn]] = []
    is_verified = offers.verification is None
    for lease, avoided in missing:
        wanted = lease.spec, avoided
        if lease.wait is not None and wanted not in marks:
            marks[wanted] = [mark for _, mark in offers.marked(*wanted)]
        of_spec = marks.get(wanted, [])
        its_turn = turn(lease.wait, of_spec, _asked_at(lease), now, is_verified=is_verified)
        found.append((lease, its_turn))
    return found


@dataclass(frozen=True, slots=True)
class SpotWaits:
    """The starts that wait, for their users."""

    state: State
    admission: Admission

    def is_waiting(self, lease: Lease) -> bool:
        """True while nothing is requested for it because all its offers are sold out, or AWS is
        still verifying the account."""
        return lease.state is LeaseState.WAITING and lease.lease_id in self.state.launches.held_back

    async def buy_on_demand(self, lease_id: str, max_usd_per_hour: float | None) -> None:
        """Let a waiting start buy on-demand, up to the price in USD/hour that its user accepts.

        None accepts any price. Raises `NotWaiting`, `LimitReached`, and `StoreError`: then it holds
        in memory, and the next pass stores it.
        """
        asked = self.state.leases.get(lease_id)
        await self.admission.prepare(asked.spec.instance_types if asked else ())
        lease = self.state.leases.get(lease_id)
        if lease is None or lease.wait is None or not self.is_waiting(lease):
            raise NotWaiting("this start does not wait, or spot has just been found for it")
        if Market.ON_DEMAND not in lease.wait.otherwise:
            raise NotWaiting("its profile is not open for on-demand")
        spec = replace(
            lease.spec,
            markets=(Market.SPOT, Market.ON_DEMAND),
            max_usd_per_hour=max_usd_per_hour,
        )
        admitted = self.admission.admit(
            replace(lease, spec=spec, launch_key=launch_key_of(spec), wait=None)
        )
        try:
            await self.state.leases.change(
                lease_id, spec=admitted.spec, launch_key=admitted.launch_key, wait=None
            )
        finally:
            self.state.wake()


def _asked_at(lease: Lease) -> datetime | None:
    """When its last launch call was made; None if that brought an instance, since lost."""
    last = lease.attempts[-1] if lease.attempts else None
    return None if last is None or last.outcome is AttemptOutcome.FOUND else last.at
