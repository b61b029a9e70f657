"""From leases that lack a machine to launch calls, and back: what each lease is told of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...core.offers.launch_errors import ErrorClass, LaunchError
from ...core.offers.purchase import OfferKey
from ...core.offers.spot_wait import Turn
from ...wire import Step, Stop
from ..model.cloud import (
    FleetResponse,
    Launched,
    LaunchRequest,
    LaunchSpec,
)
from ..model.lease import (
    Attempt,
    Intent,
    Lease,
    LeaseState,
)
from ..offers.images import ImageCache
from ..offers.offers import Offers, Order
from ..offers.prices import PriceCache
from ..state.lease_registry import LeaseRegistry
from . import attempts
from .failure_message import why_not, with_terms
from .launcher import Launcher, Outcome, Round
from .spot_waits import SpotWaits

IMAGE_GONE = "InvalidAMIID"
"""Codes of EC2 that begin like this say that an image is not there any more."""


@dataclass(slots=True)
class Buying:
    """Runs the launcher's rounds and is their audience."""

    registry: LeaseRegistry
    launcher: Launcher
    offers: Offers
    waits: SpotWaits
    prices: PriceCache
    images: ImageCache
    now: Callable[[], datetime]
    zones: Callable[[], Mapping[str, str]]
    """Of the hub's subnets."""
    missing: Callable[[], Collection[str]]
    """Ids of the leases for which nothing is on its way."""
    fail: Callable[[str, Stop], Coroutine[Any, Any, None]]
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    wake: Callable[[], None]

    def buy(self, lease_ids: Collection[str]) -> None:
        """Get machines for these leases: one round for all that are interchangeable."""
        by_spec: dict[LaunchSpec, list[str]] = {}
        waiting = self.registry.open(LeaseState.WAITING)
        missing = [lease for lease in waiting if lease.lease_id in lease_ids]
        for lease, turn in self.waits.turns(missing):
            match turn:
                case Turn.ASK:
                    by_spec.setdefault(lease.spec, []).append(lease.lease_id)
                case Turn.END:
                    stop = self._why_not(lease, Outcome(errors=(), missing=1))
                    self.spawn_task(self.fail(lease.lease_id, stop), "the end of a wait")
        for spec, alike in by_spec.items():
            round_ = self.launcher.promise(spec, len(alike), lease_ids=alike)
            self.spawn_task(self._launch(round_), f"launch of {len(alike)}")

    def replay(self, intent: Intent) -> None:
        """Make a call again that an earlier process may have made."""
        self.spawn_task(self._replay(intent), f"replay {intent.client_token}")

    async def _launch(self, round_: Round) -> None:
        outcome = await self.launcher.launch(round_, self)
        if outcome.missing:
            await self._give_up(round_, outcome)
        self.wake()

    async def _replay(self, intent: Intent) -> None:
        spec = intent.request.spec
        waiting = [x for x in self.registry.open(LeaseState.WAITING) if x.spec == spec]
        again = attempts.asking_again(intent.request, self.zones(), intent.created_at)
        for lease in waiting:
            if not attempts.is_open(lease.attempts, intent.request):
                self._begin(lease, again)
        await self.launcher.replay(intent, self, [x.lease_id for x in waiting])
        self.wake()

    async def _give_up(self, round_: Round, outcome: Outcome) -> None:
        """End those of its leases for which nothing is on its way, the latest first.

        Who waits for spot waits on, unless EC2 refuses what is asked. Whoever came meanwhile has
        not been asked for yet, and is the next pass's.
        """
        missing = self.missing()
        left = [lease for lease in self._waiting(round_) if lease.lease_id in missing]
        if outcome.ended_by is not ErrorClass.REFUSED:
            left = [lease for lease in left if lease.wait is None]
        for lease in left[-outcome.missing :]:
            # While the end of another was written, this one may have got a machine.
            now = self.registry.get(lease.lease_id)
            if now is not None and now.state is LeaseState.WAITING:
                await self.fail(lease.lease_id, self._why_not(lease, outcome))

    def _why_not(self, lease: Lease, outcome: Outcome) -> Stop:
        spec, zones, now = lease.spec, self.zones(), self.now()
        here = [zones[subnet] for subnet in spec.subnets if subnet in zones]
        bound = lease.home_kind == "ebs" and set(here) < set(zones.values())
        stop = why_not(
            outcome,
            [(offer, self.offers.mark_of(offer)) for offer in self.offers.all_for(spec)],
            home_zone=here[0] if bound and here else "",
            now=now,
        )
        every = self.offers.all(spec.instance_types, here, spec.markets)
        waited = now - lease.requested_at if lease.wait is not None else None
        return with_terms(stop, every, spec.max_usd_per_hour, waited)

    # --- what the launcher tells ---

    def wanted(self, round_: Round) -> int:
        return len(self._waiting(round_))

    def asking(self, round_: Round, order: Order) -> None:
        attempt = attempts.asking(order, self.now())
        for lease in self._waiting(round_)[: order.count]:
            self._begin(lease, attempt)

    def busy(self, round_: Round, request: LaunchRequest, error: LaunchError) -> None:
        for lease in self._told(round_, request):
            self._end(lease, attempts.busy(lease.attempts[-1], error))

    def answered(self, round_: Round, request: LaunchRequest, answer: FleetResponse) -> None:
        """Those who waited longest are told of what came, the others why there is no more."""
        if any(error.code.startswith(IMAGE_GONE) for error in answer.errors):
            self.images.doubt(request.spec.image_id)
        rest = list(answer.instances)
        for lease in self._told(round_, request):
            if rest:
                self._tell_found(lease, round_, rest.pop(0))
                round_.lease_ids = tuple(x for x in round_.lease_ids if x != lease.lease_id)
            else:
                refused = attempts.not_found(lease.attempts[-1], answer, self.zones())
                self._end(lease, refused)

    def _waiting(self, round_: Round) -> list[Lease]:
        """Its leases that still lack a machine, and that want what they wanted: a home that is
        made meanwhile leaves one zone only."""
        return [
            lease
            for lease in self.registry.open(LeaseState.WAITING)
            if lease.lease_id in round_.lease_ids and lease.spec == round_.spec
        ]

    def _begin(self, lease: Lease, attempt: Attempt) -> None:
        begun = attempts.begun(lease.attempts, attempt)
        self.registry.remember(lease.lease_id, attempts=begun)

    def _told(self, round_: Round, request: LaunchRequest) -> Iterator[Lease]:
        """The leases of a round that are waiting for this call's answer."""
        for lease in self.registry.open(LeaseState.WAITING, LeaseState.STARTING):
            if lease.lease_id in round_.lease_ids and attempts.is_open(lease.attempts, request):
                yield lease

    def _end(self, lease: Lease, attempt: Attempt, **changes: Any) -> None:
        self.registry.remember(lease.lease_id, attempts=(*lease.attempts[:-1], attempt), **changes)

    def _tell_found(self, lease: Lease, round_: Round, launched: Launched) -> None:
        usd = self._usd(round_.order, launched)
        changes: dict[str, Any] = {}
        if lease.state is LeaseState.WAITING:
            parts = [launched.instance_type, str(launched.market), launched.zone]
            parts += [attempts.price_words(usd)] if usd is not None else []
            changes["events"] = self.registry.story(
                lease.lease_id,
                Step.BOOT,
                f"Found one: {', '.join(part for part in parts if part)}",
                launched.instance_id,
            )
        self._end(lease, attempts.found(lease.attempts[-1], launched, usd), **changes)

    def _usd(self, order: Order | None, launched: Launched) -> float | None:
        """What it was offered for, USD/hour; after a crash, what anybody pays for it now."""
        key = OfferKey(launched.market, launched.instance_type, launched.zone)
        for offer in order.offers if order is not None else ():
            if offer.key == key:
                return offer.usd_per_hour
        price = self.prices.price(*key)
        return price.usd_per_hour if price else None
