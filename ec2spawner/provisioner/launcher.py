"""Turns missing instances into launch calls: spot first, on-demand for what is missing.

A call is stored before it is made, with its token and its exact content, and replayed
identically after a crash. What a call brings is never remembered as a step: it shows up in the
answer, or in the next listing under the call's tag.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from ..core.matching import Supply
from ..core.names import client_token
from ..core.tags import HUB, INTENT, LAUNCH_KEY, STORE
from ..wire import Market
from .cloud import (
    SOLD_OUT,
    Cloud,
    CloudError,
    Instance,
    LaunchAnswer,
    Launched,
    LaunchError,
    LaunchRequest,
    LaunchSpec,
)
from .keys import base_key_of, launch_key_of
from .lease import Intent, IntentState
from .settings import Settings
from .store import Store

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
    client_token: str = ""
    """Of the call under way: an instance with this intent is no longer a promise."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round brought. `errors` of all its calls, oldest first."""

    launched: tuple[Launched, ...]
    errors: tuple[LaunchError, ...]
    missing: int


class Launcher:
    """Makes launch calls; `rounds` tells what is under way."""

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        settings: Settings,
        *,
        now: Callable[[], datetime],
        zones_of: Callable[[LaunchSpec], frozenset[str]],
        launched: Callable[[Launched, Intent], Awaitable[None]],
    ) -> None:
        self._cloud = cloud
        self._store = store
        self._settings = settings
        self._now = now
        self._zones_of = zones_of
        self._launched = launched
        self.rounds: list[Round] = []
        self.intents: dict[str, Intent] = {}
        """By client token: those of this run and the recent ones of the store."""

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

    def forget_old(self, before: datetime, instances: Iterable[Instance]) -> None:
        """Drop ended calls of before then that no instance carries in its tags."""
        carried = {instance.tags.get(INTENT) for instance in instances}
        for token, intent in list(self.intents.items()):
            ended = intent.state is not IntentState.OPEN
            if ended and intent.created_at < before and token not in carried:
                del self.intents[token]

    def promises(self, arrived: Mapping[str, int]) -> Iterator[Supply]:
        """The instances that running calls may still bring.

        `arrived` counts by client token those that are known already: a listing can be faster
        than the call's answer.
        """
        for number, round_ in enumerate(self.rounds):
            failed = self.is_given_up(round_.client_token)  # what it brought serves nobody
            kept = 0 if failed else arrived.get(round_.client_token, 0)
            for place in range(round_.outstanding - kept):
                yield Supply(
                    supply_id=f"promise-{number}-{place}",
                    base_key=base_key_of(round_.spec),
                    instance_types=frozenset(round_.spec.instance_types),
                    zones=round_.zones,
                    markets=round_.markets,
                )

    def promise(self, spec: LaunchSpec, count: int, *markets: Market) -> Round:
        """Announce `count` instances, so that no other pass asks for them as well."""
        allowed = frozenset(markets or spec.markets)
        round_ = Round(spec, self._zones_of(spec), count, allowed)
        self.rounds.append(round_)
        return round_

    async def launch(self, round_: Round) -> Outcome:
        """Keep a promise: ask each market in turn until all instances are on their way."""
        spec, count = round_.spec, round_.outstanding
        launched: list[Launched] = []
        errors: list[LaunchError] = []
        try:
            for market in spec.markets:
                intent = self._intent(spec, market, count - len(launched))
                # Before the await: what the call before has brought is no longer outstanding.
                round_.client_token = intent.client_token
                await asyncio.shield(self._store.save_intent(intent))
                answer = await self._call(round_, intent)
                launched += answer.instances
                errors += answer.errors
                round_.outstanding = count - len(launched)
                if round_.outstanding <= 0 or _is_fatal(answer):
                    break
        finally:
            self.rounds.remove(round_)
        return Outcome(tuple(launched), tuple(errors), max(count - len(launched), 0))

    async def replay(self, intent: Intent) -> Outcome:
        """Make a stored call again, exactly: EC2 answers with what it did the first time."""
        round_ = self.promise(intent.request.spec, intent.request.count, intent.market)
        try:
            answer = await self._call(round_, intent)
        finally:
            self.rounds.remove(round_)
        missing = max(intent.request.count - len(answer.instances), 0)
        return Outcome(answer.instances, answer.errors, missing)

    def _intent(self, spec: LaunchSpec, market: Market, count: int) -> Intent:
        token = client_token(market)
        tags = {
            HUB: self._settings.hub,
            STORE: self._store.store_id,
            LAUNCH_KEY: launch_key_of(spec),
            INTENT: token,
        }
        request = LaunchRequest(token, market, count, spec, tags)
        return Intent(request, launch_key_of(spec), IntentState.OPEN, self._now())

    async def _call(self, round_: Round, intent: Intent) -> LaunchAnswer:
        """Call until there is an answer, then apply and store it."""
        round_.client_token = intent.client_token
        self.intents[intent.client_token] = intent
        state = IntentState.ANSWERED
        try:
            answer = await self._call_with_retries(intent.request)
        except CloudError as failure:
            state = IntentState.FAILED
            answer = LaunchAnswer((), (LaunchError(failure.code, failure.message),))
        intent = replace(
            intent,
            state=state,
            instance_ids=tuple(launched.instance_id for launched in answer.instances),
            errors=answer.errors,
        )
        self.intents[intent.client_token] = intent
        log.info(
            "Launched %d of %d x %s: %s",
            len(intent.instance_ids),
            intent.request.count,
            intent.market,
            ", ".join(intent.instance_ids) or "none",
        )
        for launched in answer.instances:
            await self._launched(launched, intent)
        await asyncio.shield(self._store.save_intent(intent))
        for error in answer.errors:
            log.warning(
                "Launching %s x %s: %s %s %s: %s",
                intent.request.count,
                intent.market,
                error.instance_type or "any type",
                error.zone or error.subnet or "any zone",
                error.code,
                error.message,
            )
        return answer

    async def _call_with_retries(self, request: LaunchRequest) -> LaunchAnswer:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, CloudError) and e.retryable),
            stop=stop_after_delay(self._settings.launch_patience),
            wait=wait_random_exponential(
                multiplier=self._settings.launch_pause, max=15 * self._settings.launch_pause
            ),
            reraise=True,
        ):
            with attempt:
                try:
                    async with asyncio.timeout(LAUNCH_TIMEOUT):
                        return await self._cloud.launch(request)
                except TimeoutError:
                    message = f"no answer to CreateFleet within {LAUNCH_TIMEOUT:.0f} s"
                    raise CloudError("Timeout", message, retryable=True) from None
        raise AssertionError("unreachable: the last attempt raises")


def _is_fatal(answer: LaunchAnswer) -> bool:
    """True where nothing came, and no market can bring more."""
    refused = [error.code for error in answer.errors]
    return bool(refused) and not answer.instances and SOLD_OUT.isdisjoint(refused)
