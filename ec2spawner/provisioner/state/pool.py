"""The warm pool as it is known now: what it should have, what fills it, and what failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from ...core.backoff import Backoff
from ...core.pool.targets import Override, PoolTarget
from ...core.tags import POOL
from ...wire import Market
from ..model.cloud.instance import Instance
from ..model.cloud.launch import LaunchSpec
from ..model.leases.past_start import PastStart
from ..model.pool_override import SetByHand
from ..runtime.clock import Clock
from ..store.store import Store

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 300.0
"""Seconds after a failure until more is bought for the same group. What is sold out is asked for
again after some minutes anyway, see `core.offers.sold_out`."""


class Group(NamedTuple):
    """What a target of the pool is for."""

    profile: str
    """Slug."""
    market: Market


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the pool: an instance of this spec shall wait in it."""

    place_id: str
    group: Group
    spec: LaunchSpec
    is_to_stop: bool = False
    """Whether its instance runs only until it is prepared, and then waits stopped."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Which group each instance in a place is for, derived from exactly these two."""

    in_places: tuple[Instance, ...]
    places: tuple[Place, ...]
    by_group: Mapping[Group, Sequence[Instance]]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the pool lacks instances of a group, and when it tries again."""

    message: str
    """For admins."""
    at: datetime
    """UTC."""
    again_at: float
    """Uptime in seconds."""


class PoolState:
    """Plain memory, but for what an admin has set by hand: that is stored before it holds."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.specs: Mapping[str, LaunchSpec] | None = None
        """By profile, what a start with default choices would launch now. None until the hub has
        said it."""
        self.holds_surplus = False
        """Whether nothing is surplus yet: places are unknown until `specs` are. As of the last
        pass, as places are."""
        self.problems: Mapping[str, str] = {}
        """By profile, why there is no spec of it."""
        self.targets: tuple[PoolTarget, ...] = ()
        """As of the last pass."""
        self.places: tuple[Place, ...] = ()
        """In which an instance runs: to wait, or until it is prepared and can be stopped."""
        self.unwanted_stopped: frozenset[str] = frozenset()
        """Ids of stopped instances for which there is no place, as of the last pass."""
        self.filled = Filled((), (), {})
        """As it was read last: pages ask for it much more often than a pass changes it."""
        self.failures: dict[Group, Failure] = {}
        self.homes_bind = False
        """Whether a home is in one zone, so that its servers need an instance there."""
        self.starts: Mapping[str, Sequence[PastStart]] = {}
        """By profile: those of the last weeks that got ready."""
        self.known_since: datetime | None = None
        """When this store began to record starts; None for an empty one."""
        self.boot_seconds: dict[str, float] = {}
        """By tag of the profile: from launch to claim, of the slowest of its latest instances."""
        self._pauses: dict[Group, Backoff] = {}
        self._by_hand: dict[Group, SetByHand] = {}
        self.specs_wanted = asyncio.Event()
        """Set when the hub shall say `specs` again: a profile was added by hand."""
        self._prices: Mapping[str, float] = {}
        self._filled: set[str] = set()

    def load(self, by_hand: Iterable[SetByHand]) -> None:
        """Take over what an earlier process has stored."""
        self._by_hand = {_group(each): each for each in by_hand}

    def target(self, group: Group) -> PoolTarget | None:
        """As of the last pass; None where nothing asks for it any more."""
        return next((x for x in self.targets if (x.profile, x.market) == group), None)

    # --- set by hand ---

    @property
    def overrides(self) -> tuple[Override, ...]:
        """Those that are stored, also those that have ended since."""
        return tuple(each.override for each in self._by_hand.values())

    def by_hand(self, group: Group) -> SetByHand | None:
        """What an admin has set for a group, while it holds."""
        found = self._by_hand.get(group)
        return found if found and self._clock.now() < found.override.until else None

    async def set_by_hand(self, override: Override, by: str) -> None:
        """`by` is who sets it. Raises `StoreError`, and then nothing has changed."""
        found = SetByHand(override, by, self._clock.now())
        await asyncio.shield(self._store.save_pool_override(found))
        self._by_hand[_group(found)] = found
        self.specs_wanted.set()

    async def clear(self, profile: str) -> bool:
        """What is set by hand for a profile, in all markets; False where nothing is. Raises
        `StoreError`."""
        groups = [group for group in self._by_hand if group.profile == profile]
        if not groups:
            return False
        await asyncio.shield(self._store.forget_pool_overrides(profile))
        for group in groups:
            self._by_hand.pop(group, None)
        return True

    # --- what fills it ---

    def note_filled(self, instances: Iterable[Instance], listed: Collection[str]) -> None:
        """These fill places now; ids that are not `listed` any more are forgotten."""
        self._filled = {each for each in self._filled if each in listed}
        self._filled |= {each.instance_id for each in instances}

    def is_of_pool(self, instance: Instance) -> bool:
        """Whether its time without a lease is the pool's: it was bought for the pool, or has filled
        a place after another start had no use for it."""
        return POOL in instance.tags or instance.instance_id in self._filled

    # --- prices ---

    def note_prices(self, prices: Mapping[str, float]) -> None:
        """What the pool's instances cost now, USD/hour by instance id, where that is known."""
        self._prices = prices

    def usd_per_hour(self, instance_id: str) -> float | None:
        """The price of an instance of the pool; None for others, and while it is unknown."""
        return self._prices.get(instance_id)

    # --- failures ---

    def failed(self, group: Group, message: str) -> None:
        """Nothing is bought for the group for a while, which grows with each failure."""
        seconds = self._pauses.setdefault(group, Backoff(FIRST_PAUSE, LONGEST_PAUSE)).next()
        log.warning("The pool of %s, %s: %s. Again in %.0f s", *group, message, seconds)
        again_at = self._clock.uptime() + seconds
        self.failures[group] = Failure(message, self._clock.now(), again_at)

    def bought(self, group: Group) -> None:
        """A purchase has brought all that was wanted; whether it works shows at its claim."""
        self.failures.pop(group, None)

    def nothing_missing(self, group: Group) -> None:
        """Forget why the group lacked instances, once that holds up nothing any more: one that
        ended a moment ago may still count as if it were there."""
        if not self.seconds_until_retry(group):
            self.failures.pop(group, None)

    def works(self, group: Group) -> None:
        """An instance of the group waits for a lease: the next failure is a first one."""
        self._pauses.pop(group, None)

    def seconds_until_retry(self, group: Group) -> float:
        """How long a failure still holds up purchases for the group; 0 if none does."""
        failure = self.failures.get(group)
        return max(failure.again_at - self._clock.uptime(), 0.0) if failure else 0.0


def _group(found: SetByHand) -> Group:
    return Group(found.override.profile, found.override.market)
