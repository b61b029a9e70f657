"""What a listing says of the end of an instance."""

from __future__ import annotations

from ...core.ledger.instance_end import InstanceEnd
from .cloud.instance import GONE, SPOT_TERMINATION, STOPPED, Instance


def instance_end(instance: Instance | None) -> InstanceEnd | None:
    """How its cost ended; None while it runs, and where no listing shows it."""
    if instance is None or instance.state not in GONE | STOPPED:
        return None
    return InstanceEnd(
        instance_id=instance.instance_id,
        launched_at=instance.launched_at,
        ended_at=instance.ended_at,
        was_interrupted=instance.state_reason == SPOT_TERMINATION,
    )
