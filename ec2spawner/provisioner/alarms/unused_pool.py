"""Alarms of instances of the warm pool that no server takes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ...core.alarms.alarm import Alarm
from ...core.alarms.pool_rules import pool_unused
from ...core.pool.unused import Waiting, unused
from ..pool.standing import WarmPool


def unused_pool(pool: WarmPool, after: float, now: datetime) -> Iterator[Alarm]:
    """Of each profile whose instances have waited for `after` seconds since they could be taken."""
    members = {each.instance.instance_id: (group, each) for group, each in pool.members()}
    waiting = [
        Waiting(instance_id, group.profile, member.waiting_since)
        for instance_id, (group, member) in members.items()
        if member.waiting_since is not None
    ]
    for each in unused(waiting, after, now):
        prices = [members[instance_id][1].rate.usd_per_hour for instance_id in each.instances]
        known = [usd for usd in prices if usd is not None]
        yield pool_unused(each, sum(known) if len(known) == len(prices) else None, now)
