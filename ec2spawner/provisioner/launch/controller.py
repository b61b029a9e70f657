"""Launch instances for waiting leases that have none on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence, Set
from datetime import datetime
from typing import Any, Final

from ...core.offers.launch_errors import ErrorClass, LaunchError
from ...core.offers.purchase import MAX_PURCHASES, OfferKey
from ...core.offers.spot_wait import Turn, is_in_vain
from ...core.pricing.money import price_words
from ...core.tags import POOL
from ...wire import Step, Stop
from ..instances.inventory import take_stock
from ..model.cloud.cloud import CloudError
from ..model.cloud.instance import Instance
from ..model.cloud.launch import FleetResponse, Launched, LaunchRequest, LaunchSpec
from ..model.leases.lease import Attempt, AttemptOutcome, Intent, IntentState, Lease, LeaseState
from ..offers.avoided_offer import Avoided, avoided_by
from ..offers.offers import Offers, Order
from ..runtime.task_group import TaskGroup
from ..state.instances.launches import Round
from ..state.state import State
from . import attempts
from .fleet_calls import FleetCalls, is_busy_error
from .fleet_response import Outcome, done_with, is_busy, is_refused, without_summary
from .launch_failure import launch_failure, not_verified, with_placement_group, with_user_limits
from .spot_waits import turns
from .stopped_instances import StoppedInstances

log = logging.getLogger(__name__)

STARTED: Final = "Starting a machine that was prepared"


class LaunchController:
    """One purchase loop for each group of leases that want the same."""

    def __init__(
        self,
        state: State,
        offers: Offers,
        fleet: FleetCalls,
        stopped: StoppedInstances,
        tasks: TaskGroup,
    ) -> None:
        self._state = state
        self._offers = offers
        self._fleet = fleet
        self._stopped = stopped
        self._tasks = tasks
        self._deciding = asyncio.Lock()
        self._failed: list[tuple[Round, Outcome]] = []
        """Rounds that left leases without an instance, until these leases are ending."""
        self._waits_since: float | None = None
        """Since when purchases wait for starts that may join them, by the event loop's clock; None
        where none do."""

    # --- in each pass ---

    async def reconcile(self, now: datetime) -> None:
        """Launch for the leases for which nothing is on the way, but not while it is being found
        out why one did not get ready, nor before prices are read: without them a hub that begins
        would buy on-demand. Ends those that EC2 has nothing for."""
        missing = self._state.stock.missing - self._state.judged
        waiting = [
            lease
            for lease in self._state.leases.open(LeaseState.WAITING)
            if lease.lease_id in missing and not self._offers.awaits_prices(lease.spec)
        ]
        avoided = {x.lease_id: avoided_by(self._state, x, now) for x in waiting}
        found = turns(((x, avoided[x.lease_id]) for x in waiting), self._offers, now)
        self._state.launches.held_back = frozenset(
            lease.lease_id for lease, turn in found if turn is Turn.WAIT
        )
        alike: dict[tuple[LaunchSpec, Avoided | None, bool], list[Lease]] = {}
        asks = not self._waits_for_more(any(turn is Turn.ASK for _, turn in found))
        for lease, turn in found:
            if turn is Turn.ASK and asks:
                key = lease.spec, avoided[lease.lease_id], _takes_places(lease)
                alike.setdefault(key, []).append(lease)
            elif turn is Turn.END:
                stop = self._why_not(lease, Outcome((), missing=1), now)
                self._tasks.spawn(self._end(lease, stop), f"end of the wait of {lease.lease_id}")
        for (spec, avoids, _), leases in alike.items():
            round_ = self._begin_round(spec, leases)
            self._tasks.spawn(self._run(round_, avoids), f"launch of {len(leases)}")

    def _waits_for_more(self, has_purchases: bool) -> bool:
        """Whether purchases wait because starts arrive one after the other: a pass that follows
        each at once would make a call for every few of them."""
        now, settings = asyncio.get_running_loop().time(), self._state.settings
        if not has_purchases:
            self._waits_since = None
            return False
        since = self._waits_since = now if self._waits_since is None else self._waits_since
        quiet = now - self._state.leases.added_at >= settings.batch_window
        if quiet or now - since >= settings.longest_batch:
            self._waits_since = None
            return False
        self._tasks.spawn(self._wake_later(settings.batch_window), "launch of further starts")
        return True

    async def _wake_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._state.wake()

    def replay(self, intent: Intent) -> None:
        """Make a call again that an earlier process may have made."""
        self._tasks.spawn(self._replay(intent), f"replay {intent.client_token}")

    async def _give_up(self) -> None:
        """End the leases that the failed rounds leave without an instance.

        Not in the pass: the user waits, and the store may be away. Rounds that fail within the
        batch window share one stock. They count as supply until these leases are ending: else a
        pass would launch for them again.
        """
        await asyncio.sleep(self._state.settings.batch_window)
        failed, self._failed = self._failed, []
        try:
            without = [round_ for round_, _ in failed]
            missing = take_stock(self._state, without).missing - self._state.judged
            for round_, outcome in failed:
                for lease, stop in self._left(round_, outcome, missing):
                    self._tasks.spawn(self._end(lease, stop), f"end of {lease.lease_id}")
                # A hundred rounds in a row would block the event loop. In memory, these leases are
                # ending after it; storing that may take long.
                await asyncio.sleep(0)
        finally:
            for round_, _ in failed:
                self._state.launches.in_progress.remove(round_)
        self._state.wake()

    def _left(
        self, round_: Round, outcome: Outcome, missing: Set[str]
    ) -> Iterator[tuple[Lease, Stop]]:
        """The leases to end after a failed round, the latest requests, each with the reason.

        A lease that waits for spot continues to wait, unless EC2 refused the request itself; the
        next pass ends it if that is in vain. While AWS verifies the account, all of them wait. A
        lease that arrived during the round is not part of it.
        """
        if self._offers.verification is not None:
            return
        left = [lease for lease in self._waiting(round_) if lease.lease_id in missing]
        if outcome.ended_by is not ErrorClass.REFUSED:
            left = [lease for lease in left if lease.wait is None]
        now = self._state.clock.now()
        stops: dict[object, Stop] = {}
        for lease in left[-outcome.missing :]:
            # All of a round have one spec and avoid the same: their reasons differ by their homes
            # and waits only.
            key = (lease.home_kind, lease.requested_at if lease.wait is not None else None)
            if key not in stops:
                stops[key] = self._why_not(lease, outcome, now)
            yield lease, stops[key]

    async def _end(self, lease: Lease, stop: Stop) -> None:
        # It may have got an instance since this was decided.
        current = self._state.leases.get(lease.lease_id)
        if current is not None and current.state is LeaseState.WAITING:
            await self._state.end(lease.lease_id, stop)

    def _why_not(self, lease: Lease, outcome: Outcome, now: datetime) -> Stop:
        if lease.attempts and lease.attempts[-1].outcome is AttemptOutcome.UNVERIFIED:
            return not_verified()
        spec, zones = lease.spec, self._offers.zones()
        here = [zones[subnet] for subnet in spec.subnets if subnet in zones]
        bound = lease.home_kind == "ebs" and set(here) < set(zones.values())
        offers = self._offers.marked(spec, avoided_by(self._state, lease, now))
        stop = launch_failure(
            outcome,
            offers,
            home_zone=here[0] if bound and here else "",
            now=now,
        )
        every = self._offers.all(spec.instance_types, here, spec.markets)
        in_vain = is_in_vain([mark for _, mark in offers])
        waited = now - lease.requested_at if lease.wait is not None and not in_vain else None
        stop = with_user_limits(stop, every, spec.max_usd_per_hour, waited)
        return with_placement_group(stop) if spec.placement_group else stop

    # --- the purchase loop ---

    async def _run(self, round_: Round, avoided: Avoided | None) -> None:
        """Make one purchase after another until nothing is missing, or nothing is left to try.

        Offers that are known to be sold out are skipped, and no offer is requested twice, unless
        EC2 was too busy to try it.
        """
        errors: list[LaunchError] = []
        asked: set[OfferKey] = set()
        purchases, ended_by, deadline = 0, None, self._fleet.deadline()
        try:
            while purchases < MAX_PURCHASES and ended_by is None:
                order = await self._next_order(round_, asked, avoided)
                if order is None:
                    break
                if prepared := self._stopped.fitting(round_, order):
                    await self._start(round_, prepared)
                    continue  # what is missing now, and what EC2 has, is another question
                intent = await self._fleet.store_intent(round_.spec, order)
                self._note_asking(round_, attempts.asking(order, intent.created_at), order.count)
                response, ended_by = await self._call(round_, intent, order, deadline)
                errors += response.errors
                if not is_busy(response):
                    asked |= done_with(order, response)
                    deadline = self._fleet.deadline()
                    purchases += not order.reservation
                elif asyncio.get_running_loop().time() >= deadline:
                    ended_by = ErrorClass.BUSY
        except BaseException:
            # Without waking a pass: a round that raised would be repeated at its speed.
            self._state.launches.in_progress.remove(round_)
            raise
        if missing := min(round_.outstanding, len(self._waiting(round_))):
            self._failed.append((round_, Outcome(tuple(errors), missing, ended_by)))
            if len(self._failed) == 1:
                await self._give_up()
        else:
            self._state.launches.in_progress.remove(round_)
            self._state.wake()

    async def _start(self, round_: Round, prepared: Sequence[Instance]) -> None:
        """Start stopped instances of the pool for the leases that have waited longest."""
        round_.outstanding -= len(prepared)
        started: Sequence[Instance] = ()
        try:
            started = await self._stopped.start(prepared)
        finally:
            round_.outstanding += len(prepared) - len(started)
        for instance, lease in zip(started, self._waiting(round_), strict=False):
            note = f"{STARTED}, {instance.instance_type}, {instance.market}, {instance.zone}"
            events = self._state.leases.story(lease.lease_id, Step.BOOT, note, instance.instance_id)
            marks = self._state.leases.times.bought(lease, instance.instance_id)
            self._state.leases.remember(lease.lease_id, events=events, marks=marks)
            round_.lease_ids = tuple(x for x in round_.lease_ids if x != lease.lease_id)
        self._state.wake()

    async def _replay(self, intent: Intent) -> None:
        """Repeat a stored call exactly: EC2 answers with what it did the first time."""
        request = intent.request
        waiting = [x for x in self._state.leases.open(LeaseState.WAITING) if x.spec == request.spec]
        again = attempts.asking_again(request, self._offers.zones(), intent.created_at)
        for lease in waiting:
            if not attempts.is_open(lease.attempts, request):
                self._begin_attempt(lease, again)
        round_ = self._begin_round(request.spec, waiting, count=request.count)
        round_.pool = request.tags.get(POOL, "")
        round_.markets = frozenset({request.market})
        try:
            await self._call(round_, intent, None, self._fleet.deadline())
        finally:
            self._state.launches.in_progress.remove(round_)
        self._state.wake()

    def _begin_round(
        self, spec: LaunchSpec, leases: Collection[Lease], count: int | None = None
    ) -> Round:
        """Count `count` instances as supply, so that no other round asks for them as well."""
        zones = self._offers.zones()
        round_ = Round(
            spec=spec,
            zones=frozenset(zones[subnet] for subnet in spec.subnets if subnet in zones),
            outstanding=len(leases) if count is None else count,
            markets=frozenset(spec.markets),
            lease_ids=tuple(lease.lease_id for lease in leases),
        )
        self._state.launches.in_progress.append(round_)
        return round_

    async def _next_order(
        self, round_: Round, asked: Set[OfferKey], avoided: Avoided | None
    ) -> Order | None:
        """What to ask for now, for leases that still wait; None where nothing is left.

        Rounds decide one at a time and yield to the event loop in between: a hundred decisions in
        a row would block it.
        """
        async with self._deciding:
            await asyncio.sleep(0)
            waiting = self._waiting(round_)
            round_.outstanding = min(round_.outstanding, len(waiting))
            if round_.outstanding <= 0:
                return None
            if not all(map(_takes_places, waiting)):
                asked = asked | self._offers.places_for(round_.spec)
            taken = self._state.launches.discount_places_of_others(round_)
            count = round_.outstanding
            order = self._offers.next_order(round_.spec, asked, count, taken, avoided)
            if order is not None:
                round_.markets = order.markets
                round_.discount_places = order.discount_places
            return order

    # --- one call and its response ---

    async def _call(
        self, round_: Round, intent: Intent, order: Order | None, deadline: float
    ) -> tuple[FleetResponse, ErrorClass | None]:
        """Call until EC2 answers, then apply and store the response.

        With BUSY or REFUSED where that ends the round. `order` is None for a replayed call.
        """
        request = intent.request
        round_.client_token = intent.client_token
        state, ended_by = IntentState.ANSWERED, None
        try:
            response = await self._call_until_answered(round_, request, deadline)
        except CloudError as error:
            state = IntentState.FAILED
            response = FleetResponse((), (LaunchError(error.code, error.message),))
            ended_by = ErrorClass.BUSY if is_busy_error(error) else None
        verdict = without_summary(response)
        if ended_by is None:
            self._offers.learn(request, verdict)
            ended_by = ErrorClass.REFUSED if is_refused(verdict, request) else None
        intent = self._fleet.respond(intent, state, response)
        self._note_response(round_, request, verdict, order)
        round_.outstanding -= len(response.instances)
        round_.client_token, round_.discount_places = "", {}
        if response.instances:
            self._state.wake()
        await self._fleet.store_response(intent)
        return verdict, ended_by

    async def _call_until_answered(
        self, round_: Round, request: LaunchRequest, deadline: float
    ) -> FleetResponse:
        """EC2's response. Raises `CloudError` where it refuses, or is busy until the deadline."""
        failure = CloudError("Busy", "EC2 was busy with other launches", retryable=True)
        while True:
            try:
                return await self._fleet.create(request, deadline)
            except TimeoutError:
                raise failure from None
            except CloudError as error:
                if not is_busy_error(error) or asyncio.get_running_loop().time() >= deadline:
                    raise
                failure = error
            if not self._waiting(round_):  # what it may have launched serves no lease
                raise failure
            log.warning("EC2 is busy, retrying soon: %s", failure)
            for lease in self._asking(round_, request):
                busy = LaunchError(failure.code, failure.message)
                self._end_attempt(lease, attempts.busy(lease.attempts[-1], busy))

    # --- what the leases' users see of it ---

    def _waiting(self, round_: Round) -> list[Lease]:
        """Leases of the round that still lack an instance and still want the same: a home that is
        created meanwhile restricts its lease to one zone."""
        return [
            lease
            for lease in self._state.leases.open(LeaseState.WAITING)
            if lease.lease_id in round_.lease_ids and lease.spec == round_.spec
        ]

    def _asking(self, round_: Round, request: LaunchRequest) -> Iterator[Lease]:
        """Leases of the round that wait for the response to this call."""
        for lease in self._state.leases.open(LeaseState.WAITING, LeaseState.STARTING):
            if lease.lease_id in round_.lease_ids and attempts.is_open(lease.attempts, request):
                yield lease

    def _note_asking(self, round_: Round, attempt: Attempt, count: int) -> None:
        for lease in self._waiting(round_)[:count]:
            self._begin_attempt(lease, attempt)

    def _note_response(
        self, round_: Round, request: LaunchRequest, response: FleetResponse, order: Order | None
    ) -> None:
        """Instances go to those who waited longest; the others see why there were no more."""
        rest = list(response.instances)
        for lease in self._asking(round_, request):
            if rest:
                self._note_found(lease, rest.pop(0), order)
                round_.lease_ids = tuple(x for x in round_.lease_ids if x != lease.lease_id)
            else:
                zones = self._offers.zones()
                attempt = attempts.not_found(lease.attempts[-1], response, zones)
                self._end_attempt(lease, attempt)

    def _note_found(self, lease: Lease, launched: Launched, order: Order | None) -> None:
        usd = self._usd_per_hour(launched, order)
        changes: dict[str, Any] = {}
        if lease.state is LeaseState.WAITING:
            changes["marks"] = self._state.leases.times.bought(lease, launched.instance_id)
            market = order.offers[0].market_name if order is not None else str(launched.market)
            parts = [launched.instance_type, market, launched.zone]
            parts += [price_words(usd)] if usd is not None else []
            changes["events"] = self._state.leases.story(
                lease.lease_id,
                Step.BOOT,
                f"Found one: {', '.join(part for part in parts if part)}",
                launched.instance_id,
            )
        self._end_attempt(lease, attempts.found(lease.attempts[-1], launched, usd), **changes)

    def _usd_per_hour(self, launched: Launched, order: Order | None) -> float | None:
        """The price of the offer, USD/hour; for a replayed call, the current price."""
        key = OfferKey(launched.market, launched.instance_type, launched.zone)
        for offer in order.offers if order is not None else ():
            if offer.key._replace(reservation="") == key:
                return offer.usd_per_hour
        return self._offers.usd_per_hour(key)

    def _begin_attempt(self, lease: Lease, attempt: Attempt) -> None:
        begun = attempts.begun(lease.attempts, attempt)
        self._state.leases.remember(lease.lease_id, attempts=begun)

    def _end_attempt(self, lease: Lease, attempt: Attempt, **changes: Any) -> None:
        ended = (*lease.attempts[:-1], attempt)
        self._state.leases.remember(lease.lease_id, attempts=ended, **changes)


def _takes_places(lease: Lease) -> bool:
    """Whether it is launched into capacity reservations. EC2 would start an instance that is kept
    stopped in the same reservation only, and its user's files are on it."""
    return lease.after_stop.then != "stop"
