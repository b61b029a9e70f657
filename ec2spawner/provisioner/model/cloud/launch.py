"""One launch call: what it asks for, and what EC2 answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....core.offers.launch_errors import LaunchError
from ....wire import Market


@dataclass(frozen=True, slots=True)
class DataVolume:
    """A volume made from a snapshot with each instance, and deleted with it."""

    snapshot: str
    """`snap-...`"""
    path: str
    """Where the user finds it, read-only."""


DATA_DEVICES = tuple(f"/dev/sd{letter}" for letter in "ponmlkjihg")
"""Device names of a spec's data volumes, in its order. From EC2's recommended ones, from the end:
a home is attached under the first one that is free."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything that makes instances interchangeable: equal specs have one launch key."""

    instance_types: tuple[str, ...]
    """Acceptable types, best first."""
    subnets: tuple[str, ...]
    """Acceptable subnets, and so zones; a home bound to a zone leaves those of its zone."""
    image_id: str
    markets: tuple[Market, ...]
    """Markets to try, in order."""
    disk_gib: int
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    key_name: str = ""
    user_data: str = ""
    """Bash; the same for every instance of the spec, and no secret."""
    data_volumes: tuple[DataVolume, ...] = ()
    """At most `len(DATA_DEVICES)`."""
    max_usd_per_hour: float | None = None
    """No offer that costs more is asked for; None is no limit. It is never EC2's maximum price of
    a spot instance, which would only add interruptions."""
    placement_group: str = ""
    """Name of the placement group that its instances are launched into; empty for none."""


MAX_OFFERS = 300
"""Offers in one launch call: EC2's quota for launch specifications of a fleet."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One CreateFleet call. Stored before the call and replayed identically after a crash."""

    client_token: str
    market: Market
    count: int
    spec: LaunchSpec
    tags: Mapping[str, str]
    """For every instance and volume, in the creating call."""
    offers: tuple[tuple[str, str], ...] = ()
    """(instance type, subnet) to ask for, best first, one subnet to a zone: chosen when the call
    was stored, so that a replay asks for the same. At most `MAX_OFFERS`."""
    preferred: int = 0
    """So many of the first offers come before all others, whichever zone EC2 would pick itself:
    it has named their zones as having room."""
    reservation: str = ""
    """Id of the capacity reservation whose places it asks for, and nothing else; empty for the
    market's own capacity."""
    is_block: bool = False
    """Whether that reservation is a Capacity Block, which EC2 wants named as a market."""


@dataclass(frozen=True, slots=True)
class Launched:
    """An instance named in CreateFleet's answer; its address comes with the next listing."""

    instance_id: str
    instance_type: str
    zone: str
    """Empty where the answer does not name it."""
    market: Market


@dataclass(frozen=True, slots=True)
class FleetResponse:
    """Instances and errors: both are applied."""

    instances: tuple[Launched, ...]
    errors: tuple[LaunchError, ...]
