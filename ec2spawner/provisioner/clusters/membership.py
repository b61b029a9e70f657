"""Adds and removes the security group of a cluster on the instance of its server.

The instance runs already, and EC2's call replaces all groups of an instance: they are read right
before, and only the cluster's own is added or removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import GONE
from ..model.leases.lease import Lease


@dataclass(slots=True)
class GroupMembership:
    """Whether the instances of servers are members of security groups. Raises `CloudError`."""

    cloud: Cloud
    hub: str
    _changing: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By instance id: one change at a time."""

    async def add(self, head: Lease, group: str) -> None:
        """Give the server's instance the group. Raises a retryable error while it is not listed."""
        found = await self._change(head, lambda others: (*others, group), group)
        if not found:
            what = f"{head.instance_id} is not listed"
            raise CloudError("InvalidInstanceID.NotFound", what, retryable=True)

    async def remove(self, head: Lease, group: str) -> None:
        """Take the group from the server's instance, where that still runs or is retained."""
        if _last_instance(head):
            await self._change(head, tuple, group)

    async def _change(
        self, head: Lease, changed: Callable[[Sequence[str]], Sequence[str]], group: str
    ) -> bool:
        """Set what `changed` makes of the groups that EC2 lists now, apart from this one. False
        where there is no such instance."""
        instance_id = _last_instance(head)
        async with self._changing.setdefault(instance_id, asyncio.Lock()):
            listed = await self.cloud.list_instances(self.hub, [instance_id])
            living = [each for each in listed if each.state not in GONE]
            for each in living:
                groups = changed([x for x in each.security_groups if x != group])
                if groups and set(groups) != set(each.security_groups):
                    await self.cloud.set_security_groups(instance_id, groups)
        return bool(living)


def _last_instance(head: Lease) -> str:
    """Also of a lease that has ended: its instance may be retained."""
    if head.instance_id or not head.segments:
        return head.instance_id or ""
    return head.segments[-1].instance_id
