"""Turns missing instances into launch calls, one after the other, until nothing is missing.

What to ask for is the offer book's to say. A call is stored before it is made, with its token and
its exact content, and replayed identically after a crash. What a call brings is never remembered
as a step: it shows up in the answer, or in the next listing under the call's tag.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from ...core.instances.matching import Supply
from ...core.names import client_token
from ...core.offers.launch_errors import ErrorClass, LaunchError, error_class
from ...core.offers.purchase import MAX_PURCHASES, OfferKey
from ...core.offers.quotas import quota_in_log
from ...core.tags import (
    HUB,
    INTENT,
    LAUNCH_KEY,
    STORE,
)
from ...wire import Market
from ..model.cloud import (
    Cloud,
    CloudError,
    FleetResponse,
    Instance,
    Launched,
    LaunchRequest,
    LaunchSpec,
)
from ..model.launch_key import base_key_of, launch_key_of
from ..model.lease import Intent, IntentState
from ..model.settings import Settings
from ..offers.offers import Offers, Order
from ..store.store import Store
from .backoff import Backoff
from .fleet_response import (
    done_with,
    is_busy,
    is_partly_busy,
    is_refused,
    telling,
)

log = logging.getLogger(__name__)

LAUNCH_TIMEOUT = 60.0
"""Seconds for one launch call, the launch template included."""


@dataclass(slots=True, eq=False)
class Round:
    """One demand being served: what is still promised counts as supply."""

    spec: LaunchSpec
    zones: frozenset[str]
    outstanding: int
    markets: frozenset[Market]
    """Those of the call under way and of the calls that may follow it."""
    lease_ids: tuple[str, ...] = ()
    """The leases that still wait for it to bring them something, the longest waiting first."""
    client_token: str = ""
    """Of the call under way, empty between two calls: an instance with this intent is no longer
    a promise."""
    order: Order | None = None
    """What the call under way asks for; None between two calls and in a replay."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a round ended. `errors` of all its calls, oldest first."""

    errors: tuple[LaunchError, ...]
    missing: int
    """Instances that are still wanted, and that it has not brought."""
    ended_by: ErrorClass | None = None
    """BUSY or REFUSED where that ended the round; None where nothing was left to ask for."""


class Audience(Protocol):
    """Who is told of each launch call of a round as it happens. Nothing here may wait."""

    def wanted(self, round_: Round) -> int:
        """How many leases of the round still wait for a machine of it."""

    def asking(self, round_: Round, order: Order) -> None:
        """The call is stored and about to be made."""

    def busy(self, round_: Round, request: LaunchRequest, error: LaunchError) -> None:
        """EC2 is busy: the call waits and is repeated."""

    def answered(self, round_: Round, request: LaunchRequest, answer: FleetResponse) -> None:
        """The call has its answer, or will never have one: then with the error alone."""


class Launcher:
    """Makes launch calls; `rounds` tells what is under way."""

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        settings: Settings,
        offers: Offers,
        *,
        now: Callable[[], datetime],
        zones: Callable[[], Mapping[str, str]],
        launched: Callable[[Launched, Intent], Awaitable[None]],
    ) -> None:
        """`zones` are those of the hub's subnets."""
        self._cloud = cloud
        self._store = store
        self._settings = settings
        self._offers = offers
        self._now = now
        self._zones = zones
        self._launched = launched
        self._backoff = Backoff(settings.launch_pause)
        self._deciding = asyncio.Lock()
        self.rounds: list[Round] = []
        self.intents: dict[str, Intent] = {}
        """By client token: those of this run, the recent ones of the store, and those that an
        instance carries in its tags."""
        self._looked_up: set[str] = set()
        """Client tokens for which the store has been asked, also those that it does not know."""

    def is_open(self, client_token: str) -> bool:
        """True while the call has no answer."""
        intent = self.intents.get(client_token)
        return intent is not None and intent.state is IntentState.OPEN

    def is_given_up(self, client_token: str) -> bool:
        """True for a call that failed. What it may have brought all the same is nobody's."""
        intent = self.intents.get(client_token)
        return intent is not None and intent.state is IntentState.FAILED

    def may_have_brought(self, client_token: str, instance_id: str) -> bool:
        """True for an instance that the call's answer names, or may still name.

        A tag alone proves nothing: whoever may launch instances can copy it.
        """
        intent = self.intents.get(client_token)
        return intent is not None and (
            intent.state is IntentState.OPEN or instance_id in intent.instance_ids
        )

    def is_copy(self, client_token: str, instance_id: str) -> bool:
        """True for an instance with the tags of an answered call that did not bring it."""
        intent = self.intents.get(client_token)
        return (
            intent is not None
            and intent.state is IntentState.ANSWERED
            and instance_id not in intent.instance_ids
        )

    def not_looked_up(self, instances: Iterable[Instance]) -> Set[str]:
        """Client tokens in the tags of this store's instances of which memory knows nothing."""
        carried = {
            instance.tags[INTENT]
            for instance in instances
            if INTENT in instance.tags and instance.tags.get(STORE) == self._store.store_id
        }
        return carried - self.intents.keys() - self._looked_up

    async def look_up(self, client_tokens: Set[str]) -> None:
        """Read these calls from the store. Raises `StoreError`.

        A call that an earlier process made long ago still tells its instances from copies of them.
        """
        for intent in await self._store.intents(client_tokens):
            self.intents.setdefault(intent.client_token, intent)
        self._looked_up |= client_tokens

    def forget_old(self, before: datetime, instances: Iterable[Instance]) -> None:
        """Drop ended calls of before then that no instance carries in its tags."""
        carried = {instance.tags.get(INTENT, "") for instance in instances}
        for token, intent in list(self.intents.items()):
            ended = intent.state is not IntentState.OPEN
            if ended and intent.created_at < before and token not in carried:
                del self.intents[token]
        self._looked_up &= carried

    def promises(self, arrived: Mapping[str, int]) -> Iterator[Supply]:
        """The instances that running calls may still bring.

        `arrived` counts by client token those that are known already: a listing can be faster
        than the call's answer.
        """
        for number, round_ in enumerate(self.rounds):
            token = round_.client_token
            failed = self.is_given_up(token)  # what it brought serves nobody
            kept = arrived.get(token, 0) if token and not failed else 0
            for place in range(round_.outstanding - kept):
                yield Supply(
                    supply_id=f"promise-{number}-{place}",
                    base_key=base_key_of(round_.spec),
                    instance_types=frozenset(round_.spec.instance_types),
                    zones=round_.zones,
                    markets=round_.markets,
                )

    def promise(
        self,
        spec: LaunchSpec,
        count: int,
        *,
        markets: Collection[Market] = (),
        lease_ids: Iterable[str] = (),
    ) -> Round:
        """Announce `count` instances, so that no other pass asks for them as well."""
        zones = self._zones()
        round_ = Round(
            spec=spec,
            zones=frozenset(zones[subnet] for subnet in spec.subnets if subnet in zones),
            outstanding=count,
            markets=frozenset(markets or spec.markets),
            lease_ids=tuple(lease_ids),
        )
        self.rounds.append(round_)
        return round_

    async def launch(self, round_: Round, audience: Audience) -> Outcome:
        """Keep a promise: make one purchase after the other until nothing is missing or left.

        What is known to be sold out is not asked for, and no offer is asked for twice, unless EC2
        was too busy to say anything about it.
        """
        errors: list[LaunchError] = []
        asked: set[OfferKey] = set()
        purchases, ended_by, deadline = 0, None, self._deadline()
        try:
            while purchases < MAX_PURCHASES and ended_by is None:
                order = await self._next_order(round_, asked, audience)
                if order is None:
                    break
                answer, ended_by = await self._buy(round_, order, audience, deadline)
                errors += answer.errors
                round_.outstanding -= len(answer.instances)
                round_.client_token = ""
                if not is_busy(answer):
                    asked |= done_with(order, answer)
                    purchases, deadline = purchases + 1, self._deadline()
                elif asyncio.get_running_loop().time() >= deadline:
                    ended_by = ErrorClass.BUSY
        finally:
            self.rounds.remove(round_)
        missing = min(round_.outstanding, audience.wanted(round_))
        return Outcome(tuple(errors), missing, ended_by)

    async def _next_order(
        self, round_: Round, asked: Set[OfferKey], audience: Audience
    ) -> Order | None:
        """What to ask for now, as far as it is still wanted; None where nothing is left.

        Rounds decide one after the other, and whatever else the loop has to do comes between: a
        hundred decisions in a row would stall it.
        """
        async with self._deciding:
            await asyncio.sleep(0)
            round_.outstanding = min(round_.outstanding, audience.wanted(round_))
            if round_.outstanding <= 0:
                return None
            taken = self._places_taken(round_)
            order = self._offers.next_order(round_.spec, asked, round_.outstanding, taken)
            if order is not None:
                round_.order, round_.markets = order, order.markets
            return order

    def _places_taken(self, round_: Round) -> Counter[str]:
        """Places of discounts that calls of other rounds may use up, by instance type."""
        taken: Counter[str] = Counter()
        for other in self.rounds:
            if other is not round_ and other.order is not None and other.order.is_paid:
                taken.update(dict.fromkeys(other.order.instance_types, other.order.count))
        return taken

    async def _buy(
        self, round_: Round, order: Order, audience: Audience, deadline: float
    ) -> tuple[FleetResponse, ErrorClass | None]:
        """One purchase: stored, made, applied. BUSY or REFUSED where it ends the round."""
        intent = self._intent(round_.spec, order)
        await asyncio.shield(self._store.save_intent(intent))
        audience.asking(round_, order)
        return await self._call(round_, intent, audience, deadline)

    async def replay(self, intent: Intent, audience: Audience, lease_ids: Iterable[str]) -> None:
        """Make a stored call again, exactly: EC2 answers with what it did the first time."""
        request = intent.request
        round_ = self.promise(
            request.spec, request.count, markets=(request.market,), lease_ids=lease_ids
        )
        try:
            await self._call(round_, intent, audience, self._deadline())
        finally:
            self.rounds.remove(round_)

    def _deadline(self) -> float:
        """Until when a call may be repeated, on the loop's clock."""
        return asyncio.get_running_loop().time() + self._settings.launch_timeout

    def _intent(self, spec: LaunchSpec, order: Order) -> Intent:
        token = client_token(order.market)
        tags = {
            HUB: self._settings.hub,
            STORE: self._store.store_id,
            LAUNCH_KEY: launch_key_of(spec),
            INTENT: token,
        }
        request = LaunchRequest(
            client_token=token,
            market=order.market,
            count=order.count,
            spec=spec,
            tags=tags,
            offers=order.pairs,
            preferred=order.preferred,
        )
        return Intent(request, launch_key_of(spec), IntentState.OPEN, self._now())

    async def _call(
        self, round_: Round, intent: Intent, audience: Audience, deadline: float
    ) -> tuple[FleetResponse, ErrorClass | None]:
        """Call until there is an answer, then apply, remember and store it."""
        request = intent.request
        round_.client_token = intent.client_token
        self.intents[intent.client_token] = intent
        state, ended_by = IntentState.ANSWERED, None
        try:
            answer = await self._call_until_answered(round_, request, audience, deadline)
        except CloudError as failure:
            state = IntentState.FAILED
            answer = FleetResponse((), (LaunchError(failure.code, failure.message),))
            ended_by = ErrorClass.BUSY if failure.retryable else None
        told = telling(answer)
        if ended_by is None:
            self._offers.learn(request, told, self._zones())
            ended_by = ErrorClass.REFUSED if is_refused(told) else None
        intent = replace(
            intent,
            state=state,
            instance_ids=tuple(launched.instance_id for launched in answer.instances),
            errors=answer.errors,
        )
        self.intents[intent.client_token] = intent
        for launched in answer.instances:
            await self._launched(launched, intent)
        audience.answered(round_, request, told)
        round_.order = None  # the places that it took are counted by what it has brought
        _report(request, answer)
        await self._store.write_behind.sooner_or_later(
            f"the answer to {intent.client_token}", lambda: self._store.save_intent(intent)
        )
        return told, ended_by

    async def _call_until_answered(
        self, round_: Round, request: LaunchRequest, audience: Audience, deadline: float
    ) -> FleetResponse:
        """EC2's answer. Raises `CloudError` where it refuses, or is busy until the deadline."""
        failure = CloudError("Busy", "EC2 was busy with other launches", retryable=True)
        while True:
            try:
                async with self._backoff.turn(deadline) as turn:
                    return await self._call_in_turn(request, turn)
            except TimeoutError:
                raise failure from None
            except CloudError as error:
                if not error.retryable or asyncio.get_running_loop().time() >= deadline:
                    raise
                failure = error
            if not audience.wanted(round_):  # what it may have brought all the same is nobody's
                raise failure
            log.warning("EC2 is busy, asking again soon: %s", failure)
            audience.busy(round_, request, LaunchError(failure.code, failure.message))

    async def _call_in_turn(self, request: LaunchRequest, turn: int) -> FleetResponse:
        """One call; the next one, whoever's it is, waits for what it has shown of EC2."""
        try:
            async with asyncio.timeout(LAUNCH_TIMEOUT):
                answer = await self._cloud.launch(request)
        except TimeoutError:
            self._backoff.tell(turn, busy=True)
            message = f"no answer to CreateFleet within {LAUNCH_TIMEOUT:.0f} s"
            raise CloudError("Timeout", message, retryable=True) from None
        except CloudError as error:
            busy = error.retryable or error_class(error.code) is ErrorClass.BUSY
            self._backoff.tell(turn, busy=busy)
            raise
        self._backoff.tell(turn, busy=is_partly_busy(answer))
        return answer


def _report(request: LaunchRequest, answer: FleetResponse) -> None:
    """A line for what came and one for each kind of error: a call may ask for 300 offers."""
    ids = ", ".join(launched.instance_id for launched in answer.instances)
    wanted = f"{request.count} x {request.market}"
    log.info("Launched %d of %s: %s", len(answer.instances), wanted, ids or "none")
    by_code: dict[str, list[LaunchError]] = {}
    for error in answer.errors:
        by_code.setdefault(error.code, []).append(error)
    for code, alike in by_code.items():
        types = {error.instance_type for error in alike} - {""}
        places = {error.zone or error.subnet for error in alike} - {""}
        log.warning(
            "Launching %s (%s in %s): %s: %s",
            wanted,
            ", ".join(sorted(types)) or "any type",
            ", ".join(sorted(places)) or "any zone",
            code,
            alike[0].message,
        )
        if error_class(code) is ErrorClass.QUOTA:
            asked = types or {kind for kind, _ in request.offers}
            used_up = {quota_in_log(request.market, each) for each in asked}
            log.warning("%s", "; ".join(sorted(used_up)))
