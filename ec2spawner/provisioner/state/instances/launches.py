"""Launch calls, the rounds that make them, and the instances that they named.

A call is never remembered as a step: what it brought shows in its response, or in the next listing
under its client token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ....core.instances.matching import Supply
from ....core.tags import INTENT, POOL, STORE
from ....wire import Market
from ...model.cloud.instance import GONE, Instance, InstanceState
from ...model.cloud.launch import FleetResponse, Launched, LaunchSpec
from ...model.launch_key import base_key_of
from ...model.leases.lease import Intent, IntentState, Lease
from ...store.store import Store
from .instance_cache import InstanceCache

RESPONSE_GRACE = timedelta(seconds=120)
"""How long an instance that a launch response named counts before a listing shows it: EC2's
listings lag its responses by seconds."""

INTENTS_KEPT = timedelta(hours=1)
"""Launch calls that were answered stay in memory so long, and while an instance carries them."""


@dataclass(slots=True, eq=False)
class Round:
    """Purchases for leases that want the same. What is still outstanding counts as supply."""

    spec: LaunchSpec
    zones: frozenset[str]
    outstanding: int
    """Instances that it may still bring."""
    markets: frozenset[Market]
    """Those of the current call and of the calls that may follow it."""
    lease_ids: tuple[str, ...] = ()
    """Leases that still wait for an instance of this round, the longest waiting first."""
    client_token: str = ""
    """Of the current call; empty between two calls. An instance with this token in its tags is
    supply by itself, and no longer outstanding."""
    discount_places: Mapping[str, int] = field(default_factory=dict)
    """Instance type, or id of a capacity reservation -> paid places that the current call may
    take."""
    pool: str = ""
    """For which profile of the pool, as a tag's value; empty for leases."""

    @property
    def is_for_pool(self) -> bool:
        """Only places of the pool count on it: a lease must not wait for a call of the pool's."""
        return bool(self.pool)


@dataclass(frozen=True, slots=True)
class Expected:
    """An instance that a launch response named."""

    launched: Launched
    intent: Intent
    responded_at: datetime


class Launches:
    """Rounds under way, intents by client token, and instances that no listing shows yet."""

    def __init__(self, store: Store, instances: InstanceCache) -> None:
        self._store = store
        self._instances = instances
        self.in_progress: list[Round] = []
        self.intents: dict[str, Intent] = {}
        """By client token: those of this process, the recent ones of the store, and those that an
        instance carries in its tags."""
        self.expected: dict[str, Expected] = {}
        """By instance id."""
        self.held_back: frozenset[str] = frozenset()
        """Ids of the leases for which the last pass requested nothing: they wait for spot, or for
        AWS to verify the account."""
        self._read_tokens: set[str] = set()
        """Client tokens that were read from the store, found or not."""

    def load(self, intents: Iterable[Intent], waiting: Collection[Lease], now: datetime) -> None:
        """Take over the calls of an earlier process, and expect the instances they named.

        Only instances that may have been bought for a lease in `waiting` or for the pool: one that
        was terminated and left the listing looks the same, and later starts would wait for it in
        vain. No start counts on one of the pool. Type and zone of each were known to the earlier
        process only.
        """
        self.intents = {intent.client_token: intent for intent in intents}
        for intent in self.intents.values():
            if now - intent.created_at > RESPONSE_GRACE or not _may_serve(intent, waiting):
                continue
            for instance_id in intent.instance_ids:
                launched = Launched(instance_id, "", "", intent.market)
                self.expected[instance_id] = Expected(launched, intent, now)

    # --- one launch call ---

    def respond(
        self, intent: Intent, state: IntentState, response: FleetResponse, now: datetime
    ) -> Intent:
        """Apply the response to a call, and expect its instances in the next listing."""
        intent = replace(
            intent,
            state=state,
            instance_ids=tuple(launched.instance_id for launched in response.instances),
            errors=response.errors,
        )
        self.intents[intent.client_token] = intent
        for launched in response.instances:
            self.expected[launched.instance_id] = Expected(launched, intent, now)
        if response.instances:
            self._instances.refresh_soon()
        return intent

    def is_open(self, client_token: str) -> bool:
        """True while the call has no response."""
        intent = self.intents.get(client_token)
        return intent is not None and intent.state is IntentState.OPEN

    def is_failed(self, client_token: str) -> bool:
        """True for a call that failed. Instances that it launched nevertheless serve no lease."""
        intent = self.intents.get(client_token)
        return intent is not None and intent.state is IntentState.FAILED

    def may_have_launched(self, client_token: str, instance_id: str) -> bool:
        """True for an instance that the call's response names, or may still name.

        A tag alone proves nothing: whoever may launch instances can copy it.
        """
        intent = self.intents.get(client_token)
        return intent is not None and (
            intent.state is IntentState.OPEN or instance_id in intent.instance_ids
        )

    def is_copy(self, client_token: str, instance_id: str) -> bool:
        """True for an instance with the tags of an answered call that did not launch it."""
        intent = self.intents.get(client_token)
        return (
            intent is not None
            and intent.state is IntentState.ANSWERED
            and instance_id not in intent.instance_ids
        )

    # --- calls of earlier processes ---

    def unknown_tokens(self, instances: Iterable[Instance]) -> Set[str]:
        """Client tokens in the tags of this store's instances that memory knows nothing of."""
        tagged = {
            instance.tags[INTENT]
            for instance in instances
            if INTENT in instance.tags and instance.tags.get(STORE) == self._store.store_id
        }
        return tagged - self.intents.keys() - self._read_tokens

    async def load_intents(self, client_tokens: Set[str]) -> None:
        """Read these calls from the store. Raises `StoreError`.

        However old a call is, its intent distinguishes its instances from copies of their tags.
        """
        for intent in await self._store.intents(client_tokens):
            self.intents.setdefault(intent.client_token, intent)
        self._read_tokens |= client_tokens

    def forget_old(self, now: datetime) -> None:
        """Drop calls that ended `INTENTS_KEPT` ago and that no instance carries in its tags, and
        expected instances after `RESPONSE_GRACE`: a listing may lack one that an earlier listing
        has shown."""
        listed, before = self._instances.listed, now - INTENTS_KEPT
        tagged = {instance.tags.get(INTENT, "") for instance in listed.values()}
        for token, intent in list(self.intents.items()):
            ended = intent.state is not IntentState.OPEN
            if ended and intent.created_at < before and token not in tagged:
                del self.intents[token]
        self._read_tokens &= tagged
        for instance_id, expected in list(self.expected.items()):
            if now - expected.responded_at > RESPONSE_GRACE:
                del self.expected[instance_id]

    def take_ended(self) -> Set[str]:
        """Ids of the expected instances that a listing shows as ended, each of them once."""
        ended = self._instances.ended(self.expected.keys())
        for instance_id in ended:
            del self.expected[instance_id]
        return ended

    # --- what the rounds may still bring ---

    def outstanding(self, without: Collection[Round] = ()) -> Iterator[Supply]:
        """The instances that rounds may still bring, but those in `without`.

        Instances that are known already do not count: a listing can be faster than the response.
        One that has ended before counts until that, which lets a pass judge the start by it.
        """
        tokens = {each: known.intent.client_token for each, known in self.expected.items()}
        listed = self._instances.listed
        tokens |= {
            each: instance.tags.get(INTENT, "")
            for each, instance in listed.items()
            if instance.state not in GONE
        }
        known = Counter(tokens.values())
        for number, round_ in enumerate(self.in_progress):
            if round_ in without:
                continue
            token = round_.client_token
            arrived = known[token] if token and not self.is_failed(token) else 0
            for place in range(round_.outstanding - arrived):
                yield Supply(
                    supply_id=f"outstanding-{number}-{place}",
                    base_key=base_key_of(round_.spec),
                    instance_types=frozenset(round_.spec.instance_types),
                    zones=round_.zones,
                    markets=round_.markets,
                    is_place=round_.is_for_pool,
                )

    def discount_places_of_others(self, round_: Round) -> Counter[str]:
        """Instance type, or id of a capacity reservation -> paid places that calls of other rounds
        may take."""
        taken: Counter[str] = Counter()
        for other in self.in_progress:
            if other is not round_:
                taken.update(other.discount_places)
        return taken


def _may_serve(intent: Intent, waiting: Iterable[Lease]) -> bool:
    """Whether the call can have been made for one of these leases."""
    if POOL in intent.request.tags:
        return True
    base_key = base_key_of(intent.request.spec)
    return any(
        lease.requested_at <= intent.created_at and base_key_of(lease.spec) == base_key
        for lease in waiting
    )


def as_instance(expected: Expected) -> Instance:
    """What a launch response says of an instance that no listing shows yet."""
    launched = expected.launched
    return Instance(
        instance_id=launched.instance_id,
        state=InstanceState.PENDING,
        instance_type=launched.instance_type,
        zone=launched.zone,
        market=launched.market,
        launched_at=expected.responded_at,
        tags=expected.intent.request.tags,
        reservation=expected.intent.request.reservation,
        in_block=expected.intent.request.is_block,
    )
