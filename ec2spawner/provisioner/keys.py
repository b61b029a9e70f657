"""Launch keys: equal keys mean interchangeable instances.

A key has two halves: the *base* hashes what admits no choice (image, user-data, disk, network),
the rest hashes what a launch may choose from (types, subnets, markets).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache

from ..core.names import launch_key
from .cloud import LaunchSpec

SPECS_KEPT = 1024
"""Keys in memory: every lease of a profile and its options has the same launch spec."""

_CHOICES = ("instance_types", "subnets", "markets")


@lru_cache(maxsize=SPECS_KEPT)
def base_key_of(spec: LaunchSpec) -> str:
    fixed = {key: value for key, value in asdict(spec).items() if key not in _CHOICES}
    return launch_key(json.dumps(fixed, sort_keys=True))


@lru_cache(maxsize=SPECS_KEPT)
def launch_key_of(spec: LaunchSpec) -> str:
    chosen = {key: value for key, value in asdict(spec).items() if key in _CHOICES}
    return f"{base_key_of(spec)}.{launch_key(json.dumps(chosen, sort_keys=True))}"


def base_of(key: str) -> str:
    """The base half of a launch key, as an instance's tag carries it."""
    return key.partition(".")[0]
