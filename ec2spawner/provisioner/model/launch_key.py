"""Launch keys: equal keys mean interchangeable instances.

A key has two halves: the *base* hashes what admits no choice (image, user-data, disk, network),
the rest hashes what a launch may choose from (types, subnets, markets).
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import lru_cache

from ...core.names import launch_key
from ...wire import Then
from .cloud.launch import LaunchSpec

SPECS_KEPT = 1024
"""Keys in memory: every lease of a profile and its options has the same launch spec."""

_CHOICES = ("instance_types", "subnets", "markets")

_LATER = {"data_volumes": (), "max_usd_per_hour": None, "placement_group": ""}
"""Fields that an older version did not know, and what its instances have there: left out of the
key, so that what it launched still serves a start that was under way at the upgrade."""


@lru_cache(maxsize=SPECS_KEPT)
def base_key_of(spec: LaunchSpec) -> str:
    """Hash of what a lease has no choice in; equal keys need equal instances."""
    fixed = {
        key: value
        for key, value in asdict(spec).items()
        if key not in _CHOICES and (key not in _LATER or value != _LATER[key])
    }
    return launch_key(json.dumps(fixed, sort_keys=True))


@lru_cache(maxsize=SPECS_KEPT)
def unlimited_key_of(spec: LaunchSpec) -> str:
    """The base key of the same spec without its price limit; empty for a spec without one."""
    if spec.max_usd_per_hour is None:
        return ""
    return base_key_of(replace(spec, max_usd_per_hour=None))


@lru_cache(maxsize=SPECS_KEPT)
def launch_key_of(spec: LaunchSpec) -> str:
    """Hash of the whole spec: leases with equal keys share a launch call."""
    chosen = {key: value for key, value in asdict(spec).items() if key in _CHOICES}
    return f"{base_key_of(spec)}.{launch_key(json.dumps(chosen, sort_keys=True))}"


@lru_cache(maxsize=SPECS_KEPT)
def fit_key_of(spec: LaunchSpec, then: Then) -> str:
    """Equal keys mean that a kept instance is what a lease would launch.

    One that lingers must not be out of date. One that was stopped is kept *for* its disk: a newer
    image or another way to install the agent does not make that another disk. And a price limit
    is for what is bought: a kept instance is there already.
    """
    spec = replace(spec, max_usd_per_hour=None)
    if then == "linger":
        return base_key_of(spec)
    return base_key_of(replace(spec, image_id="", user_data=""))


def base_of(key: str) -> str:
    """The base half of a launch key, as an instance's tag carries it."""
    return key.partition(".")[0]
