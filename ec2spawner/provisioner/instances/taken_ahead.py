"""Instances of the warm pool that wait for a user who is expected. Reads the state only."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.instances.retention_rules import Kept
from ..model.cloud.instance import GONE, Instance
from ..state.pool import Group
from ..state.state import State
from .demand import has_served


def taken_ahead(state: State) -> Iterator[tuple[Kept, Instance]]:
    """Those that have no lease yet and are not being ended, the longest wait first: each fills a
    place of the pool."""
    kept_ahead = (kept for kept in state.retained.of_users() if kept.is_ahead)
    for kept in sorted(kept_ahead, key=lambda each: each.kept_at):
        instance = state.instances.listed.get(kept.instance_id)
        if instance is None or instance.state in GONE or has_served(state, instance):
            continue
        is_released = kept.instance_id in state.claims.unwanted or kept.until <= state.clock.now()
        if not is_released and state.leases.of_instance(kept.instance_id) is None:
            yield kept, instance


def number_ahead(state: State, group: Group) -> int:
    """How many places of the group they fill."""
    return sum(Group(kept.profile, x.market) == group for kept, x in taken_ahead(state))
