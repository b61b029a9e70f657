"""What each pass has found: what can still take a lease, what is missing, what is surplus."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.instances.matching import Supply
from ...model.cloud.instance import Instance


@dataclass(frozen=True, slots=True)
class Stock:
    """All our instances without a lease, compared with waiting leases and the pool's places."""

    supplies: tuple[Supply, ...] = ()
    """What can still take a lease."""
    dead: tuple[Instance, ...] = ()
    """Instances that never will take one."""
    unknown: tuple[Instance, ...] = ()
    """Instances that serve a lease which this store does not hold: it may be an old copy."""
    silent: tuple[Instance, ...] = ()
    """Of the dead, those whose agent never called."""
    missing: frozenset[str] = frozenset()
    """Ids of the waiting leases for which no instance is being launched."""
    surplus: tuple[Instance, ...] = ()
    """Instances that could take a lease, that no lease needs and no place of the pool."""
    missing_places: frozenset[str] = frozenset()
    """Ids of the pool's places for which no instance is being launched."""
    in_places: tuple[Instance, ...] = ()
    """Listed instances that fill places of the pool: booting or waiting."""
