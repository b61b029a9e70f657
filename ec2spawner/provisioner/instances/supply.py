"""An instance, or the promise of one, as supply: what it is, or may become. Pure."""

from __future__ import annotations

from ...core.instances.matching import Supply
from ...core.tags import LAUNCH_KEY
from ..model.cloud import Instance
from ..model.launch_key import base_key_of, base_of
from ..state.launches import Expected
from ..state.zones import Zones


def supply_of(instance: Instance) -> Supply:
    """An instance as supply: it is what it is."""
    return Supply(
        supply_id=instance.instance_id,
        base_key=base_of(instance.tags.get(LAUNCH_KEY, "")),
        instance_types=frozenset({instance.instance_type}),
        zones=frozenset({instance.zone}),
        markets=frozenset({instance.market}),
    )


def supply_of_expected(expected: Expected, zones: Zones) -> Supply:
    """What a launch answered with, as far as the answer says what it is."""
    launched, spec = expected.launched, expected.intent.request.spec
    return Supply(
        supply_id=launched.instance_id,
        base_key=base_key_of(spec),
        instance_types=frozenset(
            {launched.instance_type} if launched.instance_type else spec.instance_types
        ),
        zones=frozenset({launched.zone}) if launched.zone else zones.of(spec),
        markets=frozenset({launched.market}),
    )
