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
    found = [
        (group.profile, each.instance.instance_id, each.waiting_since, each.rate)
        for group, each in pool.members()
        if each.waiting_since is not None
    ]
    found += [
        (group.profile, each.instance.instance_id, each.kept.kept_at, each.rate)
        for group, each in pool.stopped()
    ]
    rates = {instance_id: rate for _, instance_id, _, rate in found}
    waiting = (Waiting(instance_id, profile, since) for profile, instance_id, since, _ in found)
    for each in unused(waiting, after, now):
        prices = [rates[instance_id].usd_per_hour for instance_id in each.instances]
        known = [usd for usd in prices if usd is not None]
        yield pool_unused(each, sum(known) if len(known) == len(prices) else None, now)
