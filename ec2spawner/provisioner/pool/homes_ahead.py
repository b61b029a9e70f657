"""Keeps instances of the warm pool for users who are expected, with their homes attached.

Whoever gets an instance is root there, and reads every volume on it. So an instance to which a home
may ever be attached is first stored as one that is kept for the server of that home. Like one that
is kept after a stop it serves that server or nobody, whatever becomes of the calls for the volume,
and never returns to the pool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ...core.instances.retention_rules import Kept
from ...core.names import tag_value
from ...core.pool.homes_ahead import (
    AHEAD,
    LATE,
    Expected,
    expected,
    in_their_zones,
    most_homes,
)
from ...core.pool.rules import PoolRule
from ...core.tags import SERVER
from ..homes.volumes import HomeVolumes
from ..instances.demand import AHEAD_SILENCE, has_served, was_kept_ahead
from ..instances.pool_stops import called_at
from ..instances.taken_ahead import number_ahead, taken_ahead
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import Instance
from ..model.cloud.launch import LaunchSpec
from ..model.launch_key import fit_key_of
from ..model.leases.lease import Home, LeaseState
from ..model.leases.past_start import PastStart
from ..runtime.task_group import TaskGroup
from ..state.pool import Group
from ..state.state import State
from .standing import filled_places
from .targets import USUAL_BOOT

log = logging.getLogger(__name__)

AT_A_TIME: Final = 2
"""Attachments in progress: EC2's tokens for AttachVolume are for starts."""

RETRY_PAUSE: Final = 300.0
"""Seconds after an attachment that failed. The instance waits for its user without the home."""

DETACH_PAUSE: Final = 5.0
"""Seconds after a failed call, until the instance is gone."""

LISTING_SECONDS: Final = 10.0
"""For a listing of the instance after the attachment. Where none comes in time, a start makes its
usual calls."""


@dataclass(slots=True)
class HomesAhead:
    """Acts on the stock of the pass: it says which instances wait in places of the pool."""

    state: State
    cloud: Cloud
    volumes: HomeVolumes
    tasks: TaskGroup
    _checked: dict[Group, Mapping[str, Sequence[PastStart]]] = field(default_factory=dict)
    """By group: the starts of the last weeks that were checked last."""
    _attaching: set[str] = field(default_factory=set)
    """Ids of the instances to which this process is attaching a home."""
    _detached: set[str] = field(default_factory=set)
    """Ids of released instances from which the home was detached."""
    _not_before: dict[tuple[str, str], float] = field(default_factory=dict)
    """By user and server: uptime in seconds before which no other instance is kept for it."""
    _again_at: dict[str, float] = field(default_factory=dict)
    """By instance id: uptime in seconds before which its home is not attached again."""

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`; calls to EC2 are made in the background."""
        self._detach_released()
        self._forget_attached()
        pool = self.state.pool
        if pool.specs is None or not self._is_wanted():
            return  # what the pool should have is not known yet, or nothing is kept ahead
        rules = self._rules(now)
        await self._release(rules, now)
        self._attach()
        if pool.homes_bind:
            for group, rule in rules.items():
                await self._keep_some(group, rule, now)

    def _is_wanted(self) -> bool:
        is_allowed = any(rule.homes_ahead for rule in self.state.settings.pool.rules)
        return is_allowed or next(taken_ahead(self.state), None) is not None

    def _rules(self, now: datetime) -> Mapping[Group, PoolRule]:
        rules, boots = self.state.settings.pool, self.state.pool.boot_seconds
        profiles = {rule.profile for rule in rules.rules}
        leads = {each: boots.get(tag_value(each), USUAL_BOOT) for each in profiles}
        return {Group(*group): rule for group, rule in most_homes(rules, now, leads).items()}

    # --- which instances are kept ---

    async def _keep_some(self, group: Group, rule: PoolRule, now: datetime) -> None:
        state = self.state
        spec = (state.pool.specs or {}).get(group.profile)
        room, waiting = self._room(group, rule), self._waiting(group)
        if spec is None or room <= 0 or not waiting or not self._has_new_starts(group):
            return
        starts = state.pool.starts.get(group.profile, ())
        usual = expected(starts, now, state.settings.time_zone)
        at_rest = self._at_rest(usual, group, spec)
        homes = ((home.zone or "", (each, home)) for each, home in at_rest)
        for (each, home), instance_id in in_their_zones(homes, waiting, room):
            instance = state.instances.listed.get(instance_id)
            # As it is now: the store was written for others meanwhile.
            if instance is not None and self._is_free(instance) and self._is_unused(home):
                await self._keep(each, rule, spec, instance)

    def _has_new_starts(self, group: Group) -> bool:
        """Whether starts were read since they were last checked, as they are now."""
        starts = self.state.pool.starts
        if self._checked.get(group) is starts:
            return False
        self._checked[group] = starts
        return True

    async def _keep(
        self, each: Expected, rule: PoolRule, spec: LaunchSpec, instance: Instance
    ) -> None:
        kept = Kept(
            instance_id=instance.instance_id,
            user=each.user,
            server=each.server,
            lease_id="",
            profile=rule.profile,
            profile_name=rule.profile_name,
            then="linger",
            fit_key=fit_key_of(spec, "linger"),
            kept_at=self.state.clock.now(),
            until=each.until,
            launched_at=instance.launched_at,
            disk_gib=spec.disk_gib,
        )
        again_at = self.state.clock.uptime() + (AHEAD + LATE).total_seconds()
        self._not_before[each.user, each.server] = again_at
        # In memory at once: no start gets it while this is stored.
        await self.state.retained.save(kept)
        until = f"{kept.until:%H:%M} UTC"
        log.info("%s is kept for %r, expected until %s", kept.instance_id, kept.user, until)
        self.state.wake()

    def _room(self, group: Group, rule: PoolRule) -> int:
        target = self.state.pool.target(group)
        most = min(rule.homes_ahead, target.running) if target is not None else 0
        return most - number_ahead(self.state, group)

    def _at_rest(
        self, usual: Sequence[Expected], group: Group, spec: LaunchSpec
    ) -> Iterator[tuple[Expected, Home]]:
        """Those whose home may be attached, and who would most likely take the instance."""
        state, uptime = self.state, self.state.clock.uptime()
        self._not_before = {x: at for x, at in self._not_before.items() if at > uptime}
        retained = {(kept.user, kept.server) for kept in state.retained.of_users()}
        for each in usual:
            server = each.user, each.server
            home = state.homes.of(*server)
            if home is None or server in retained or server in self._not_before:
                continue
            if self._is_unused(home) and self._would_take(*server, group, spec):
                yield each, home

    def _is_unused(self, home: Home) -> bool:
        state = self.state
        is_whole = home.volume_id is not None and home.move is None and not home.is_temporary
        is_there = home.home_id not in state.homes.gone and state.homes.is_recorded(home)
        is_in_use = state.leases.of_server(home.user, home.server) is not None
        return is_whole and is_there and not is_in_use

    def _would_take(self, user: str, server: str, group: Group, spec: LaunchSpec) -> bool:
        """By the last start of the server: with the profile's default choices, and not just now."""
        last = self.state.leases.last_ended(user, server)
        if last is None:
            return True
        is_default = group.market in last.spec.markets and last.spec.disk_gib == spec.disk_gib
        is_usual = last.profile == group.profile and is_default
        return is_usual and self.state.clock.now() - last.requested_at > AHEAD + LATE

    def _waiting(self, group: Group) -> Mapping[str, Sequence[str]]:
        """By zone, ids of the instances that a start would get at once: in places of the pool, so
        none of the starts that wait needs them."""
        found: dict[str, list[str]] = {}
        for each in filter(self._is_free, filled_places(self.state).get(group, ())):
            found.setdefault(each.zone, []).append(each.instance_id)
        return found

    def _is_free(self, instance: Instance) -> bool:
        state, instance_id = self.state, instance.instance_id
        return (
            called_at(state, instance_id) is not None
            and not state.claims.reads_ahead(instance_id)
            and instance_id not in state.claims.unwanted
            and state.claims.silent_seconds(instance_id) <= AHEAD_SILENCE
            and not state.retained.holds(instance_id)
            and state.leases.of_instance(instance_id) is None
            and not has_served(state, instance)
        )

    # --- which are not any more ---

    async def _release(self, rules: Mapping[Group, PoolRule], now: datetime) -> None:
        """Their time is over at once: retention ends them."""
        left: dict[Group, int] = {}
        for kept, instance in list(taken_ahead(self.state)):
            group = Group(kept.profile, instance.market)
            if group not in left:
                rule, target = rules.get(group), self.state.pool.target(group)
                left[group] = min(rule.homes_ahead, target.running) if rule and target else 0
            left[group] -= 1
            if left[group] < 0:
                why = "the pool keeps fewer"
            elif not self._fits(kept):
                why = "the profile has changed"
            elif not self._has_home(kept):
                why = "the home has changed"
            else:
                continue
            if self.state.retained.get(kept.instance_id) is kept:
                log.info("%s is not kept for %r: %s", kept.instance_id, kept.user, why)
                await self.state.retained.save(replace(kept, until=now))

    def _fits(self, kept: Kept) -> bool:
        spec = (self.state.pool.specs or {}).get(kept.profile)
        return spec is not None and fit_key_of(spec, kept.then) == kept.fit_key

    def _has_home(self, kept: Kept) -> bool:
        """Whether it has a home in the instance's zone, which stays there."""
        home = self.state.homes.of(kept.user, kept.server)
        instance = self.state.instances.listed.get(kept.instance_id)
        if home is None or instance is None or home.volume_id is None or home.move is not None:
            return False
        return home.zone == instance.zone and not home.is_temporary

    # --- volumes ---

    def _attach(self) -> None:
        state, uptime = self.state, self.state.clock.uptime()
        self._again_at = {each: at for each, at in self._again_at.items() if at > uptime}
        for kept, instance in taken_ahead(state):
            home = state.homes.of(kept.user, kept.server)
            is_busy = kept.instance_id in self._attaching or kept.instance_id in self._again_at
            if home is None or is_busy or home.home_id in state.homes.ahead:
                continue
            if len(self._attaching) >= AT_A_TIME:
                return
            self._attaching.add(kept.instance_id)
            self.tasks.spawn(self._bring(kept, home, instance), f"home on {kept.instance_id}")

    async def _bring(self, kept: Kept, home: Home, instance: Instance) -> None:
        """Tagged first: a store that lacks the record must not give it to anybody, either."""
        instance_id = instance.instance_id
        try:
            if not was_kept_ahead(instance):
                await self.cloud.tag([instance_id], {SERVER: tag_value(kept.server)})
            await self.volumes.attach_ahead(home, instance, lambda: self._is_kept(kept))
        except CloudError as error:
            log.warning("%s is not attached ahead: %s", home.volume_id, error)
            self._again_at[instance_id] = self.state.clock.uptime() + RETRY_PAUSE
        finally:
            self._attaching.discard(instance_id)
            self.state.wake()
        # A start relies on it once a listing shows it, too.
        await self.state.instances.next_listing(LISTING_SECONDS, about=instance_id)

    def _is_kept(self, kept: Kept) -> bool:
        is_released = kept.instance_id in self.state.claims.unwanted
        return self.state.retained.get(kept.instance_id) is kept and not is_released

    def _detach_released(self) -> None:
        """Where its server has started elsewhere, or not at all. The home may be on it also where
        EC2 has not confirmed that, or an earlier process has asked for it."""
        state = self.state
        released = [
            kept
            for kept in state.retained.of_users()
            if kept.is_ahead
            and kept.instance_id in state.claims.unwanted
            and kept.instance_id not in self._attaching
            and state.leases.of_instance(kept.instance_id) is None
            and not state.instances.is_gone(kept.instance_id)
        ]
        self._detached &= {kept.instance_id for kept in released}
        for kept in released:
            home = state.homes.of(kept.user, kept.server)
            if home is None or home.volume_id is None or kept.instance_id in self._detached:
                continue
            self._detached.add(kept.instance_id)
            self.tasks.spawn(self._detach(home, kept.instance_id), f"detach {home.volume_id}")

    async def _detach(self, home: Home, instance_id: str) -> None:
        try:
            await self.volumes.detach_from(home, instance_id)
        except CloudError as error:
            log.warning("%s is not detached yet: %s", home.volume_id, error)
            await asyncio.sleep(DETACH_PAUSE)
            self._detached.discard(instance_id)
            self.state.wake()

    def _forget_attached(self) -> None:
        """Where the home is the lease's by now, or comes off."""
        state = self.state
        for home_id, (_, instance_id) in list(state.homes.ahead.items()):
            lease = state.leases.of_instance(instance_id)
            # While it starts, what is known here saves it the calls.
            is_starting = lease is not None and lease.state is LeaseState.STARTING
            is_kept = state.retained.holds(instance_id) and instance_id not in state.claims.unwanted
            if not is_starting and (lease is not None or not is_kept):
                del state.homes.ahead[home_id]
