"""What a listing says of the end of an instance."""

from __future__ import annotations

from collections.abc import Set

from ...core.ledger.instance_end import InstanceEnd
from .cloud.instance import GONE, SPOT_TERMINATION, STOPPED, Instance


def instance_end(instance: Instance | None, rehearsed: Set[str]) -> InstanceEnd | None:
    """How its cost ended; None while it runs, and where no listing shows it.

    EC2 gives the same reason where it was asked for the interruption: `rehearsed` has the ids of
    such instances, of which it did not need the capacity.
    """
    if instance is None or instance.state not in GONE | STOPPED:
        return None
    return InstanceEnd(
        instance_id=instance.instance_id,
        launched_at=instance.launched_at,
        ended_at=instance.ended_at,
        was_interrupted=instance.state_reason == SPOT_TERMINATION
        and instance.instance_id not in rehearsed,
    )
