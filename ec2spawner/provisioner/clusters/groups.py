"""The groups that each cluster has in EC2: a security group, so that its nodes and nobody else
reach each other, and a placement group where its profile asks for workers close together.

They are made for the first workers that a server wants, before any worker is launched with them,
and deleted once no worker is left. What a killed hub leaves is found by its tags
(`garbage_collection`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from ...core.backoff import Backoff
from ...core.names import tag_value
from ...core.tags import HUB, LEASE, NAME, PAYER, STORE, USER
from ...wire import Stop
from ..model.cloud.cloud import Cloud, CloudError
from ..model.error_hints import describe_error, shortened
from ..model.launch_key import launch_key_of
from ..model.leases.cluster import Cluster
from ..model.leases.costs import payer_of
from ..model.leases.lease import LIVE, OPEN, Lease, LeaseState
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.store import StoreError
from .attempts import Attempts
from .membership import GroupMembership

log = logging.getLogger(__name__)

PAUSE: Final = Backoff(first=2.0, longest=120.0, jitter=0.5)
"""Between attempts: EC2 refuses to delete a group for as long as an instance in it shuts
down, a minute or more."""

Work = Literal["provide", "remove"]

NOT_PERMITTED: Final = "UnauthorizedOperation"

FIX: Final = "give the hub's role the policy in configs/clusters-policy.json"


def group_name(head_id: str) -> str:
    """By which a second attempt finds what a first one has made, of both kinds."""
    return f"ec2spawner-{head_id}"


@dataclass(slots=True)
class ClusterGroups:
    """Makes and deletes the groups; workers are launched once theirs are there."""

    state: State
    cloud: Cloud
    tasks: TaskGroup
    membership: GroupMembership
    _attempts: dict[tuple[str, Work], Attempts] = field(default_factory=dict)
    """By the id of the server's lease: a new cluster does not wait for a removal's next attempt."""
    _under_way: set[str] = field(default_factory=set)
    """Those with a task: one at a time, so that no group is attached while it is deleted."""
    _deleted: set[str] = field(default_factory=set)
    """Those that have ended and whose groups are gone: nothing is left to do for them."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the calls are made in the background."""
        heads = [x for x in self.state.leases.in_memory() if x.cluster is not None and not x.head]
        for head in heads:
            await self._fit(head)
        known = {head.lease_id for head in heads}
        self._deleted &= known
        self._attempts = {x: tries for x, tries in self._attempts.items() if x[0] in known}

    async def _fit(self, head: Lease) -> None:
        cluster = head.cluster
        assert cluster is not None
        if head.lease_id in self._under_way:
            return
        if head.state is LeaseState.READY and cluster.workers:
            if cluster.worker_groups:
                await self._let_workers_start(head, cluster.worker_groups)
            else:
                self._begin(head.lease_id, "provide")
        elif (cluster.security_group or cluster.placement_group) and self._is_unused(head):
            self._begin(head.lease_id, "remove")

    def _is_unused(self, head: Lease) -> bool:
        if head.lease_id in self._deleted or (head.state in OPEN and head.state not in LIVE):
            return False  # while it is ending, its instance may still run
        return all(x.state not in OPEN for x in self.state.leases.workers_of(head.lease_id))

    async def _let_workers_start(self, head: Lease, groups: tuple[str, ...]) -> None:
        """With the security group in their spec, workers are a launch of their own."""
        changes = []
        for worker in self.state.leases.workers_of(head.lease_id):
            if worker.state is LeaseState.WAITING and worker.spec.security_groups != groups:
                spec = replace(worker.spec, security_groups=groups)
                key = launch_key_of(spec)
                changes.append(self.state.leases.change(worker.lease_id, spec=spec, launch_key=key))
        for refused in await asyncio.gather(*changes, return_exceptions=True):
            if isinstance(refused, StoreError):  # the next pass stores what has changed
                log.error("The workers of %s are not stored yet: %s", head.lease_id, refused)
            elif isinstance(refused, BaseException):
                raise refused

    # --- in the background ---

    def _begin(self, head_id: str, work: Work) -> None:
        tries = self._attempts.setdefault((head_id, work), Attempts())
        if tries.is_due(self.state.clock.uptime()):
            self._under_way.add(head_id)
            self.tasks.spawn(self._attempted(head_id, work), f"groups of {head_id}")

    async def _attempted(self, head_id: str, work: Work) -> None:
        tries = self._attempts.setdefault((head_id, work), Attempts())
        tries.begin(self.state.clock.uptime(), PAUSE)
        try:
            await (self._provide(head_id) if work == "provide" else self._remove(head_id))
            self._attempts.pop((head_id, work), None)
        except CloudError as error:
            log.warning("The groups of the cluster of %s: %s; trying again", head_id, error)
            pause = tries.not_before - self.state.clock.uptime()
            self.tasks.spawn(self._wake_after(pause), f"next attempt for groups of {head_id}")
        except StoreError as error:
            log.error("The groups of the cluster of %s are not stored yet: %s", head_id, error)
        finally:
            self._under_way.discard(head_id)
            self.state.wake()

    async def _wake_after(self, seconds: float) -> None:
        """The next pass by itself may be much later."""
        await asyncio.sleep(seconds)
        self.state.wake()

    async def _provide(self, head_id: str) -> None:
        """Make what is missing, and then store it; what was made for a cluster that EC2 refuses
        for good does not stay."""
        head = self.state.leases.get(head_id)
        if head is None or head.cluster is None:
            return
        cluster, made = head.cluster, _Made(head.cluster)
        doing = "Its workers could not be placed close together"
        try:
            if not cluster.groups_ready or cluster.spec.placement_group != cluster.placement_group:
                await self._place(head, made)
            doing = "Its nodes could not be connected"
            if not cluster.groups_ready:
                await self._connect(head, made)
        except CloudError as error:
            if error.retryable:
                raise
            await self._give_up(head_id, made, f"{doing}: {_said(error)}")
            return
        await self._change_cluster(
            head_id,
            placement_group=made.placement_group,
            security_group=made.security_group,
            groups_ready=True,
        )

    async def _place(self, head: Lease, made: _Made) -> None:
        """Make the placement group that its spec names, if it names one."""
        assert head.cluster is not None
        if name := head.cluster.spec.placement_group:
            await self.cloud.create_placement_group(name, self._tags(head))
            made.placement_group = name

    async def _connect(self, head: Lease, made: _Made) -> None:
        """Make the security group, and give it to the server's instance."""
        assert head.cluster is not None
        made.security_group = await self.cloud.create_security_group(
            group_name(head.lease_id),
            "Lets the nodes of one ec2spawner cluster reach each other",
            head.cluster.spec.subnets[0],
            self._tags(head),
        )
        await self.membership.add(head, made.security_group)

    def _tags(self, head: Lease) -> Mapping[str, str]:
        head = self.state.accounts.displayed(head)
        name = f"{head.user} {head.server}".strip()
        return {
            HUB: self.state.settings.hub,
            STORE: self.state.store_id,
            LEASE: head.lease_id,
            USER: tag_value(head.user),
            PAYER: tag_value(payer_of(head)),
            NAME: tag_value(f"{name} cluster"),
        }

    async def _give_up(self, head_id: str, made: _Made, words: str) -> None:
        """Asking again cannot help: the cluster ends, and its user reads why."""
        # What an error leaves, the garbage collection deletes.
        if made.security_group != made.before.security_group:
            with contextlib.suppress(CloudError):
                await self.cloud.delete_security_group(made.security_group)
        if made.placement_group != made.before.placement_group:
            with contextlib.suppress(CloudError):
                await self.cloud.delete_placement_group(made.placement_group)
        log.error("The cluster of %s ends. %s", head_id, words)
        stop = Stop(reason="failed", message=words[:500])
        workers = self.state.leases.workers_of(head_id)
        # Together: a pass between the two would end the workers for another reason, or add some.
        await asyncio.gather(
            self._change_cluster(head_id, workers=0, stopped_because=words),
            *(self.state.end(each.lease_id, stop) for each in workers if each.state in LIVE),
        )

    async def _remove(self, head_id: str) -> None:
        """Take the server's instance out of the security group, and delete both groups. Stored
        step by step: the next cluster of the server must not rely on what is gone already."""
        await self._change_open(head_id, groups_ready=False)
        head = self.state.leases.get(head_id)
        if head is None or head.cluster is None or (head.state in LIVE and head.cluster.workers):
            return  # it wants workers again
        if group := head.cluster.security_group:
            await self.membership.remove(head, group)
            await self.cloud.delete_security_group(group)
            await self._change_open(head_id, security_group="")
        if group := head.cluster.placement_group:
            await self.cloud.delete_placement_group(group)
            await self._change_open(head_id, placement_group="")
        head = self.state.leases.get(head_id)
        if head is not None and head.state is LeaseState.ENDED:
            self._deleted.add(head_id)

    async def _change_open(self, head_id: str, **changes: Any) -> None:
        """What has ended is not stored again: its groups are deleted, or found deleted."""
        head = self.state.leases.get(head_id)
        if head is not None and head.state is not LeaseState.ENDED:
            await self._change_cluster(head_id, **changes)

    async def _change_cluster(self, head_id: str, **changes: Any) -> None:
        """Of the cluster as it is now: its user may have changed it meanwhile."""
        head = self.state.leases.get(head_id)
        if head is None or head.cluster is None:
            return
        cluster: Cluster = replace(head.cluster, **changes)
        await self.state.leases.change(head_id, cluster=cluster)


@dataclass(slots=True)
class _Made:
    """The groups of a cluster while the missing ones are being made."""

    before: Cluster
    placement_group: str = field(init=False)
    security_group: str = field(init=False)

    def __post_init__(self) -> None:
        self.placement_group = self.before.placement_group
        self.security_group = self.before.security_group


def _said(error: CloudError) -> str:
    """EC2's refusal in words, and what to do about it."""
    if error.code == NOT_PERMITTED:
        return f"{shortened(error.message)} ({error.code}). Please tell an admin: {FIX}"
    return describe_error(error)
