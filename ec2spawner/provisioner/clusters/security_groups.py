"""The security group of each cluster: nodes of one cluster reach each other, and nobody else does.

A group is made for the first workers that a server wants, and its instance gets it before any
worker is launched with it. It is deleted once no worker is left. What a killed hub leaves is found
by its tags (`garbage_collection`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from ...core.backoff import Backoff
from ...core.names import tag_value
from ...core.tags import HUB, LEASE, NAME, PAYER, STORE, USER
from ...wire import Stop
from ..model.cloud import GONE, Cloud, CloudError
from ..model.cluster import Cluster
from ..model.error_hints import describe_error, shortened
from ..model.launch_key import launch_key_of
from ..model.lease import LIVE, OPEN, Lease, LeaseState
from ..model.lease_costs import payer_of
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)

PAUSE: Final = Backoff(first=2.0, longest=120.0, jitter=0.5)
"""Between attempts: EC2 refuses to delete a group for as long as an instance that has it shuts
down, a minute or more."""

NOT_PERMITTED: Final = "UnauthorizedOperation"

FIX: Final = "give the hub's role the policy in configs/clusters-policy.json"


def group_name(head_id: str) -> str:
    """By which a second attempt finds what a first one has made."""
    return f"ec2spawner-{head_id}"


@dataclass(slots=True)
class Attempts:
    """How the calls for one cluster have gone."""

    failures: int = 0
    """In a row."""
    not_before: float = 0.0
    """Uptime in seconds."""


@dataclass(slots=True)
class ClusterSecurityGroups:
    """Makes, attaches and deletes the groups; workers are launched once theirs is there."""

    state: State
    cloud: Cloud
    tasks: TaskGroup
    _attempts: dict[str, Attempts] = field(default_factory=dict)
    """By the id of the server's lease."""
    _under_way: set[str] = field(default_factory=set)
    """Those with a task: one at a time, so that no group is attached while it is deleted."""
    _deleted: set[str] = field(default_factory=set)
    """Those that have ended and whose group is gone: nothing is left to do for them."""
    _changing: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By instance id: a call replaces all groups of an instance."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the calls are made in the background."""
        heads = [x for x in self.state.leases.in_memory() if x.cluster is not None and not x.head]
        for head in heads:
            await self._fit(head)
        known = {head.lease_id for head in heads}
        self._deleted &= known
        self._attempts = {x: tries for x, tries in self._attempts.items() if x in known}

    async def _fit(self, head: Lease) -> None:
        cluster = head.cluster
        assert cluster is not None
        if head.lease_id in self._under_way:
            return
        if head.state is LeaseState.READY and cluster.workers:
            if cluster.worker_groups:
                await self._let_workers_start(head, cluster.worker_groups)
            else:
                self._begin(head.lease_id, self._provide)
        elif cluster.security_group and self._is_unused(head):
            self._begin(head.lease_id, self._remove)

    def _is_unused(self, head: Lease) -> bool:
        if head.lease_id in self._deleted or (head.state in OPEN and head.state not in LIVE):
            return False  # while it is ending, its instance may still run
        return all(x.state not in OPEN for x in self.state.leases.workers_of(head.lease_id))

    async def _let_workers_start(self, head: Lease, groups: tuple[str, ...]) -> None:
        """With the group in their spec, workers are a launch of their own."""
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

    def _begin(self, head_id: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        tries = self._attempts.setdefault(head_id, Attempts())
        if self.state.clock.uptime() >= tries.not_before:
            self._under_way.add(head_id)
            self.tasks.spawn(self._attempted(head_id, work), f"security group of {head_id}")

    async def _attempted(
        self, head_id: str, work: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        tries = self._attempts.setdefault(head_id, Attempts())
        tries.failures += 1
        tries.not_before = self.state.clock.uptime() + PAUSE.pause(tries.failures)
        try:
            await work(head_id)
            self._attempts.pop(head_id, None)
        except CloudError as error:
            log.warning("The security group of %s: %s; trying again", head_id, error)
        finally:
            self._under_way.discard(head_id)
            self.state.wake()

    async def _provide(self, head_id: str) -> None:
        """Make the group and attach it, and then store it; a group of a cluster that EC2 refuses
        for good does not stay."""
        group = ""
        try:
            head = self.state.leases.get(head_id)
            if head is None or head.cluster is None:
                return
            group = await self._create(head)
            default = ""
            if not head.cluster.spec.security_groups:
                default = await self.cloud.default_security_group(head.cluster.spec.subnets[0])
            await self._attach(head, group)
        except CloudError as error:
            if error.retryable:
                raise
            await self._give_up(head_id, group, error)
            return
        await self._change_cluster(head_id, security_group=group, default_group=default)

    async def _create(self, head: Lease) -> str:
        assert head.cluster is not None
        name = f"{head.user} {head.server}".strip()
        tags = {
            HUB: self.state.settings.hub,
            STORE: self.state.store_id,
            LEASE: head.lease_id,
            USER: tag_value(head.user),
            PAYER: tag_value(payer_of(head)),
            NAME: tag_value(f"{name} cluster"),
        }
        return await self.cloud.create_security_group(
            group_name(head.lease_id),
            "Lets the nodes of one ec2spawner cluster reach each other",
            head.cluster.spec.subnets[0],
            tags,
        )

    async def _attach(self, head: Lease, group: str) -> None:
        found = await self._set_groups(head, lambda groups: (*groups, group), group)
        if not found:
            what = f"{head.instance_id} is not listed"
            raise CloudError("InvalidInstanceID.NotFound", what, retryable=True)

    async def _set_groups(
        self, head: Lease, changed: Callable[[Sequence[str]], Sequence[str]], group: str
    ) -> bool:
        """Change the groups of the server's instance, as EC2 lists them now, apart from this one.
        False where there is no such instance."""
        instance_id = _last_instance(head)
        async with self._changing.setdefault(instance_id, asyncio.Lock()):
            listed = await self.cloud.list_instances(self.state.settings.hub, [instance_id])
            living = [each for each in listed if each.state not in GONE]
            for each in living:
                groups = changed([x for x in each.security_groups if x != group])
                if groups and set(groups) != set(each.security_groups):
                    await self.cloud.set_security_groups(instance_id, groups)
        return bool(living)

    async def _give_up(self, head_id: str, group: str, error: CloudError) -> None:
        """Asking again cannot help: the cluster ends, and its user reads why."""
        if group:
            with contextlib.suppress(CloudError):  # else the garbage collection deletes it
                await self.cloud.delete_security_group(group)
        said = describe_error(error)
        if error.code == NOT_PERMITTED:
            said = f"{shortened(error.message)} ({error.code}). Please tell an admin: {FIX}"
        words = f"Its nodes could not be connected: {said}"
        log.error("The cluster of %s ends. %s", head_id, words)
        stop = Stop(reason="failed", message=words[:500])
        workers = self.state.leases.workers_of(head_id)
        # Together: a pass between the two would end the workers for another reason, or add some.
        await asyncio.gather(
            self._change_cluster(head_id, workers=0, stopped_because=words),
            *(self.state.end(each.lease_id, stop) for each in workers if each.state in LIVE),
        )

    async def _remove(self, head_id: str) -> None:
        """Detach the group where the server's instance still runs, and delete it."""
        head = self.state.leases.get(head_id)
        if head is None or head.cluster is None:
            return
        group = head.cluster.security_group
        if _last_instance(head):
            await self._set_groups(head, tuple, group)
        await self.cloud.delete_security_group(group)
        head = self.state.leases.get(head_id)
        if head is not None and head.state is LeaseState.ENDED:
            self._deleted.add(head_id)
        else:
            await self._change_cluster(head_id, security_group="")

    async def _change_cluster(self, head_id: str, **changes: Any) -> None:
        """Of the cluster as it is now: its user may have changed it meanwhile."""
        head = self.state.leases.get(head_id)
        if head is None or head.cluster is None:
            return
        cluster: Cluster = replace(head.cluster, **changes)
        await self.state.leases.change(head_id, cluster=cluster)


def _last_instance(head: Lease) -> str:
    """Also of a lease that has ended: its instance may be retained."""
    if head.instance_id or not head.segments:
        return head.instance_id or ""
    return head.segments[-1].instance_id
