"""Which claim gets which lease, and how many instances are missing or surplus. Pure.

A *need* is a waiting lease or a place of the warm pool; a *supply* is an instance that is
nobody's yet, booting or waiting, or one that a running launch call is expected to bring. Leases
come first: a place never takes what a lease needs, nor makes it wait for a call of the pool's.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from typing import NamedTuple

from ...wire import Market


class Shape(NamedTuple):
    """What decides whether a need and a supply fit. Many of either have the same."""

    base_key: str
    instance_types: frozenset[str]
    zones: frozenset[str]
    markets: frozenset[Market]
    is_place: bool = False
    """Of a need: it is a place. Of a supply: only a place may count on it."""
    priced_key: str = ""
    """Of a need: see there."""
    usd_per_hour: float | None = None
    """Of a need, the most that it pays; of a supply, what it costs."""


@dataclass(frozen=True, slots=True)
class Need:
    """A lease that waits for an instance, or a place of the pool."""

    lease_id: str
    base_key: str
    """Hash of what admits no choice: image, user-data, disk, network."""
    instance_types: frozenset[str]
    zones: frozenset[str]
    markets: frozenset[Market]
    requested_at: datetime
    is_place: bool = False
    """A place of the pool, which comes after all leases; `lease_id` is its own id."""
    priced_key: str = ""
    """The base key without the lease's price limit; empty without a limit."""
    usd_per_hour: float | None = None
    """The most that it pays: with `priced_key`, it also takes an instance of the pool that has
    that key and costs no more now."""

    @property
    def shape(self) -> Shape:
        """What decides which supply fits: equal shapes need one comparison."""
        return Shape(
            self.base_key,
            self.instance_types,
            self.zones,
            self.markets,
            self.is_place,
            self.priced_key,
            self.usd_per_hour,
        )


@dataclass(frozen=True, slots=True)
class Supply:
    """An instance, or the promise of one, that can still take a lease.

    A promise does not know yet what it will be: it carries what its launch call allows. It
    counts for a need only when *all* it may become would fit.
    """

    supply_id: str
    base_key: str
    instance_types: frozenset[str]
    zones: frozenset[str]
    markets: frozenset[Market]
    is_place: bool = False
    """Only a place may count on it: the pool's own call, which may fail."""
    usd_per_hour: float | None = None
    """What an instance of the pool costs now; None for all others, and while it is unknown."""

    @property
    def shape(self) -> Shape:
        """What decides which need fits: equal shapes need one comparison."""
        return Shape(
            self.base_key,
            self.instance_types,
            self.zones,
            self.markets,
            self.is_place,
            usd_per_hour=self.usd_per_hour,
        )


@dataclass(frozen=True, slots=True)
class Balance:
    """Demand against supply: ids of needs with no supply, and of supplies with no need."""

    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    in_places: tuple[str, ...] = ()
    """Ids of the supplies that fill places of the pool."""


def fits(need: Need | Shape, supply: Supply | Shape) -> bool:
    """Whether *everything* that the supply may become serves the need."""
    return (
        (need.base_key == supply.base_key or _is_within_limit(need, supply))
        and (need.is_place or not supply.is_place)
        and supply.instance_types <= need.instance_types
        and supply.zones <= need.zones
        and supply.markets <= need.markets
    )


def _is_within_limit(need: Need | Shape, supply: Supply | Shape) -> bool:
    """Whether an instance that was bought without a limit costs no more than the lease may pay.

    Its price is known and is that of now, to which the user has agreed.
    """
    most, price = need.usd_per_hour, supply.usd_per_hour
    is_priced = bool(need.priced_key) and need.priced_key == supply.base_key
    return is_priced and most is not None and price is not None and price <= most


def balance(needs: Iterable[Need], supplies: Sequence[Supply]) -> Balance:
    """Match as many needs as possible: leases before places, those who waited longest first.

    A maximum matching (augmenting paths): a flexible lease makes room for one that can only
    have the instance it would otherwise have taken, so no instance is launched in vain.
    """
    matching = _Matching(supplies)
    missing = [
        need.lease_id for need in sorted(needs, key=_first_served) if not matching.place(need.shape)
    ]
    return Balance(
        tuple(missing),
        tuple(supplies[number].supply_id for number in matching.free()),
        tuple(supplies[number].supply_id for number in matching.in_places()),
    )


class _Handover(NamedTuple):
    """A supply, by its number, that one need lets go for a need of shape `taker`."""

    number: int
    supply: Shape
    taker: Shape


class _Matching:
    """Who holds which supply, by shapes: a supply does not distinguish needs of one shape.

    Supplies are numbered in their order, and the first that will do is taken.
    """

    def __init__(self, supplies: Iterable[Supply]) -> None:
        self._free: defaultdict[Shape, deque[int]] = defaultdict(deque)
        for number, supply in enumerate(supplies):
            self._free[supply.shape].append(number)
        self._held: dict[Shape, defaultdict[Shape, list[int]]] = {
            shape: defaultdict(list) for shape in self._free
        }
        """By the shapes of supply and holder, each a heap."""
        self._hopeless: set[Shape] = set()
        """Supplies that a failed search has seen: no later one can ever free them."""

    def free(self) -> list[int]:
        """Numbers of the supplies that nobody holds, in order."""
        return sorted(number for numbers in self._free.values() for number in numbers)

    def in_places(self) -> list[int]:
        """Numbers of the supplies that places of the pool hold, in order."""
        return sorted(
            number
            for by_holder in self._held.values()
            for holder, numbers in by_holder.items()
            if holder.is_place
            for number in numbers
        )

    def place(self, need: Shape) -> bool:
        """Give a need a supply, moving others along one augmenting path where that helps."""
        lets_go: dict[Shape, _Handover | None] = {need: None}
        queue, seen = [need], set(self._hopeless)
        for candidate in queue:
            fitting = [s for s in self._free if s not in seen and fits(candidate, s)]
            if free := [(self._free[s][0], s) for s in fitting if self._free[s]]:
                number, supply = min(free)
                self._free[supply].popleft()
                self._hand_over(_Handover(number, supply, candidate), lets_go)
                return True
            seen.update(fitting)
            for number, supply, holder in self._holders(fitting):
                if holder not in lets_go:
                    lets_go[holder] = _Handover(number, supply, candidate)
                    queue.append(holder)
        self._hopeless = seen
        return False

    def _holders(self, supplies: Iterable[Shape]) -> list[tuple[int, Shape, Shape]]:
        """The first supply of each pair of shapes, supply and holder, in the supplies' order."""
        return sorted(
            (numbers[0], supply, holder)
            for supply in supplies
            for holder, numbers in self._held[supply].items()
            if numbers
        )

    def _hand_over(self, last: _Handover, lets_go: dict[Shape, _Handover | None]) -> None:
        """Each along the path takes a supply and lets go of another, down to who had none."""
        step: _Handover | None = last
        while step is not None:
            number, supply, taker = step
            heappush(self._held[supply][taker], number)
            step = lets_go[taker]
            if step is not None:
                # The one that `_holders` found: no path has two supplies of one shape.
                heappop(self._held[step.supply][taker])


def lease_for(
    claimant: Supply, needs: Iterable[Need], others: Sequence[Supply] = ()
) -> Need | None:
    """The need that this instance serves: the most constrained first, then the longest waiting.

    Most constrained: the one that the fewest of the `others` could serve as well.
    """
    shapes = Counter(other.shape for other in others)
    serving: dict[Shape, int] = {}

    def constraint(need: Need) -> tuple[int, datetime, str]:
        shape = need.shape
        if shape not in serving:
            serving[shape] = sum(n for other, n in shapes.items() if fits(shape, other))
        return serving[shape], *_waited_longest(need)

    return min((need for need in needs if fits(need, claimant)), key=constraint, default=None)


def _first_served(need: Need) -> tuple[bool, datetime, str]:
    return need.is_place, *_waited_longest(need)


def _waited_longest(need: Need) -> tuple[datetime, str]:
    return need.requested_at, need.lease_id
