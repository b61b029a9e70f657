"""Which claim gets which lease, and how many instances are missing or surplus. Pure.

A *need* is a waiting lease (or a place in the warm pool); a *supply* is an instance that is
nobody's yet, booting or waiting, or one that a running launch call is expected to bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..wire import Market


@dataclass(frozen=True, slots=True)
class Need:
    """A lease that waits for an instance."""

    lease_id: str
    base_key: str
    """Hash of what admits no choice: image, user-data, disk, network."""
    instance_types: frozenset[str]
    zones: frozenset[str]
    markets: frozenset[Market]
    requested_at: datetime


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


@dataclass(frozen=True, slots=True)
class Balance:
    """Demand against supply: ids of needs with no supply, and of supplies with no need."""

    missing: tuple[str, ...]
    surplus: tuple[str, ...]


def fits(need: Need, supply: Supply) -> bool:
    return (
        need.base_key == supply.base_key
        and supply.instance_types <= need.instance_types
        and supply.zones <= need.zones
        and supply.markets <= need.markets
    )


def balance(needs: Iterable[Need], supplies: Sequence[Supply]) -> Balance:
    """Match as many needs as possible, those who waited longest first.

    A maximum matching (augmenting paths): a flexible lease makes room for one that can only
    have the instance it would otherwise have taken, so no instance is launched in vain.
    """
    holder: dict[str, Need] = {}
    hopeless: set[str] = set()
    missing = [
        need.lease_id
        for need in sorted(needs, key=_waited_longest)
        if not _place(need, supplies, holder, hopeless)
    ]
    surplus = (s.supply_id for s in supplies if s.supply_id not in holder)
    return Balance(tuple(missing), tuple(surplus))


def _place(
    need: Need, supplies: Sequence[Supply], holder: dict[str, Need], hopeless: set[str]
) -> bool:
    """Give `need` a supply, moving others along one augmenting path where that helps.

    Supplies that a failed search has seen can never be freed by a later one (`hopeless`), so
    the whole matching costs one look at each pair.
    """
    reached: dict[str, tuple[Need, str | None]] = {}
    queue: list[tuple[Need, str | None]] = [(need, None)]
    for candidate, gives_up in queue:
        for supply in supplies:
            found: str | None = supply.supply_id
            if found in reached or found in hopeless or not fits(candidate, supply):
                continue
            reached[supply.supply_id] = (candidate, gives_up)
            if found in holder:
                queue.append((holder[found], found))
                continue
            while found is not None:
                holder[found], found = reached[found]
            return True
    hopeless.update(reached)
    return False


def lease_for(
    claimant: Supply, needs: Iterable[Need], others: Sequence[Supply] = ()
) -> Need | None:
    """The need that this instance serves: the most constrained first, then the longest waiting.

    Most constrained: the one that the fewest of the `others` could serve as well.
    """
    fitting = [need for need in needs if fits(need, claimant)]
    if not fitting:
        return None
    return min(
        fitting,
        key=lambda need: (sum(fits(need, other) for other in others), *_waited_longest(need)),
    )


def _waited_longest(need: Need) -> tuple[datetime, str]:
    return need.requested_at, need.lease_id
