"""One object in memory for equal values.

A thousand leases of a hub have a few launch specs between them, each with 7 kB of user-data, and as
few images and rules. Each request, and each row of the store, makes them anew.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar, cast

Value = TypeVar("Value", bound=Hashable)

MAX_VALUES = 1024
"""A hub with more different values in use has most of them once for each lease, as without this."""


def shared(value: Value) -> Value:
    """The value itself, or an equal one of the same type that was passed before. It must never be
    changed in place."""
    return cast(Value, _first(value))


@lru_cache(MAX_VALUES, typed=True)
def _first(value: Hashable) -> Hashable:
    return value
