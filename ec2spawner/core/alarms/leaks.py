"""The alarm of what outlived its instance. Pure."""

from __future__ import annotations

from datetime import datetime

from .alarm import Alarm, Kind


def leak(what: str, resource_id: str, why: str, now: datetime) -> Alarm:
    """`what` was deleted because nothing needed it; `why` nothing did."""
    return Alarm(
        Kind.LEAK,
        resource_id,
        "",
        f"A {what} was left over: {resource_id}",
        f"The hub has deleted {resource_id}: {why}. It was attached to nothing for several minutes "
        "and cost money meanwhile. If this happens often, EC2 or something else in the account "
        "detaches what the hub made: `ec2spawner reap` lists what is there.",
        now,
    )
