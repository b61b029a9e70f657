"""Instances, and launched ones that no listing shows yet, as supply. Pure."""

from __future__ import annotations

from ...core.instances.matching import Supply
from ...core.tags import LAUNCH_KEY, POOL
from ..model.cloud.instance import Instance
from ..model.launch_key import base_key_of, base_of
from ..state.instances.launches import Expected
from ..state.zones import Zones


def supply_of(instance: Instance, usd_per_hour: float | None = None) -> Supply:
    """A listed instance: type, zone and market are known; of one of the pool, its price."""
    return Supply(
        supply_id=instance.instance_id,
        base_key=base_of(instance.tags.get(LAUNCH_KEY, "")),
        instance_types=frozenset({instance.instance_type}),
        zones=frozenset({instance.zone}),
        markets=frozenset({instance.market}),
        usd_per_hour=usd_per_hour,
    )


def supply_of_expected(expected: Expected, zones: Zones) -> Supply:
    """An instance in a launch response: a replayed call does not say its type and zone."""
    launched, spec = expected.launched, expected.intent.request.spec
    return Supply(
        supply_id=launched.instance_id,
        base_key=base_key_of(spec),
        instance_types=frozenset(
            {launched.instance_type} if launched.instance_type else spec.instance_types
        ),
        zones=frozenset({launched.zone}) if launched.zone else zones.of(spec),
        markets=frozenset({launched.market}),
        # An earlier process launched it for the pool, and it may have ended since.
        is_place=POOL in expected.intent.request.tags and not launched.instance_type,
    )
