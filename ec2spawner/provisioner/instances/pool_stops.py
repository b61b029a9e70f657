"""Instances that wait stopped in the warm pool, or were started again. Reads the state only.

Each has a record that names no user (`Kept.is_of_pool`), from before its first stop until a lease
gets it or it ends. One that was started again is supply like any other instance of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from ...core.instances.retention_rules import CLAIM_SILENCE, Kept
from ...core.offers.launch_errors import SOLD_OUT
from ...core.tags import INTENT
from ..model.cloud.cloud import CloudError
from ..model.cloud.instance import GONE, STOPPED, Instance, InstanceState
from ..state.instances.pool_holds import Part
from ..state.state import State

SLOW_BOOT: Final = 180.0
"""Seconds after which an instance that the pool bought and that has not called yet is not counted
on for a lease: one that is bought now would be up sooner. Usual boots take a minute or two."""

NOT_STOPPED: Final = "EC2 refuses to stop it"
BY_ITSELF: Final = "it stopped by itself after its start"
NEVER_CALLED: Final = "its agent has not called since its start"
SILENT: Final = "its agent has fallen silent"

FAILED_PARTS: Final = {
    NOT_STOPPED: Part.STOP,
    BY_ITSELF: Part.START,
    NEVER_CALLED: Part.START,
    SILENT: Part.START,
}
"""Why an instance is useless -> what would most likely fail for the next one as well."""


def stopped_in_pool(state: State) -> Iterator[tuple[Kept, Instance]]:
    """Those that are stopped, or about to be: they fill places, the longest wait first."""
    for kept, instance in _unleased(state):
        rests = kept.asked_at is None or instance.state in STOPPED
        is_starting = state.pool_starts.is_starting(kept.instance_id)
        if rests and not is_starting and not why_useless(state, kept, instance):
            yield kept, instance


def started_of_pool(state: State) -> Iterator[Instance]:
    """Those that were started again and have no lease yet: they boot, or wait running."""
    for kept, instance in _unleased(state):
        is_up = kept.asked_at is not None and instance.state not in STOPPED
        is_starting = state.pool_starts.is_starting(kept.instance_id)
        if (is_up or is_starting) and not why_useless(state, kept, instance):
            yield instance


def why_useless(state: State, kept: Kept, instance: Instance) -> str:
    """Why no start can have it any more; empty where one can."""
    claims, instance_id = state.claims, kept.instance_id
    if instance_id in claims.unwanted:
        return "it was turned away"
    if state.clock.now() >= kept.until:
        return NOT_STOPPED
    if instance.state in STOPPED:
        return BY_ITSELF if _has_started(kept, instance) and not undone(kept, instance) else ""
    if kept.asked_at is None:
        return ""
    if called_at(state, instance_id) is None:
        late = state.pool_starts.boot_seconds(instance_id) > state.settings.boot_timeout
        return NEVER_CALLED if late else ""
    return SILENT if claims.silent_seconds(instance_id) > CLAIM_SILENCE else ""


def undone(kept: Kept, instance: Instance) -> CloudError | None:
    """Why EC2 stopped it again right after it had accepted its start: it had no capacity for it.
    None where it did not."""
    code = instance.state_reason.removeprefix("Server.")
    is_stopped = instance.state is InstanceState.STOPPED and _has_started(kept, instance)
    if not is_stopped or code not in SOLD_OUT:
        return None
    return CloudError(code, instance.state_message, retryable=False)


def _has_started(kept: Kept, instance: Instance) -> bool:
    return kept.asked_at is not None and instance.launched_at > kept.launched_at


def may_start_for(state: State, profile: str) -> bool:
    """Whether the last starts of this profile's instances came up: a start that waited for one
    after the other would wait for its whole time."""
    if state.pool_starts.holds.holds_starts(profile):
        return False
    return not any(
        kept.profile == profile
        and kept.asked_at is not None
        and instance.state not in STOPPED
        and called_at(state, kept.instance_id) is None
        and state.pool_starts.boot_seconds(kept.instance_id) > SLOW_BOOT
        for kept, instance in _unleased(state)
    )


def called_at(state: State, instance_id: str) -> datetime | None:
    """When the agent of its present boot first called, UTC; None before."""
    binding, kept = state.claims.binding(instance_id), state.retained.get(instance_id)
    if binding is None:
        return None
    if kept is not None and kept.is_of_pool and kept.asked_at is not None:
        return binding.bound_at if binding.bound_at >= kept.asked_at else None
    return binding.bound_at


def is_in_reservation(state: State, instance: Instance) -> bool:
    """Whether it was launched into a capacity reservation: it can start nowhere else, so the pool
    stops none of them."""
    intent = state.launches.intents.get(instance.tags.get(INTENT, ""))
    return bool(instance.reservation or (intent is not None and intent.request.reservation))


def _unleased(state: State) -> Iterator[tuple[Kept, Instance]]:
    leased = {lease.instance_id for lease in state.leases.open()} | state.leases.served
    for kept in sorted(state.retained.of_pool(), key=lambda each: each.kept_at):
        instance = state.instances.listed.get(kept.instance_id)
        is_here = instance is not None and instance.state not in GONE
        if instance is not None and is_here and kept.instance_id not in leased:
            yield kept, instance
