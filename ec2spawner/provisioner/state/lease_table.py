"""Leases by id, in the order of their requests, and found by state, server, head and instance.

A hub with thousands of running servers asks for the few leases that wait, or for that of one
instance, with every call of an agent: no such question may scan all leases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, MutableMapping, Set
from itertools import count

from ..model.leases.lease import Lease, LeaseState


class ServedInstances:
    """How many of the leases that were counted have had each instance."""

    def __init__(self) -> None:
        self._leases: Counter[str] = Counter()

    @property
    def ids(self) -> Set[str]:
        """Of the instances that at least one lease has had."""
        return self._leases.keys()

    def replace(self, old: Lease | None, new: Lease | None) -> None:
        """Count `new` in place of `old`."""
        if old is not None and new is not None and old.segments == new.segments:
            return
        for instance_id in _instances_of(new):
            self._leases[instance_id] += 1
        for instance_id in _instances_of(old):
            self._leases[instance_id] -= 1
            if not self._leases[instance_id]:
                del self._leases[instance_id]


class LeaseTable(MutableMapping[str, Lease]):
    """By lease id. Each change is one assignment, so that no index can disagree with it."""

    def __init__(self, served: ServedInstances) -> None:
        self._served = served
        self._leases: dict[str, Lease] = {}
        self._numbers: dict[str, int] = {}
        """By lease id: its place in the order of requests."""
        self._next_number = count()
        self._in_state: defaultdict[LeaseState, set[str]] = defaultdict(set)
        self._of_server: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._of_head: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._of_instance: dict[str, str] = {}
        """By instance id: the open lease that holds it."""

    def __getitem__(self, lease_id: str) -> Lease:
        return self._leases[lease_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def __len__(self) -> int:
        return len(self._leases)

    def __setitem__(self, lease_id: str, lease: Lease) -> None:
        old = self._leases.get(lease_id)
        if old is None:
            self._numbers[lease_id] = next(self._next_number)
        else:
            self._leave_indexes(lease_id, old)
        self._leases[lease_id] = lease
        self._in_state[lease.state].add(lease_id)
        self._of_server[lease.user, lease.server][lease_id] = None
        if lease.head:
            self._of_head[lease.head][lease_id] = None
        if lease.instance_id is not None and lease.state is not LeaseState.ENDED:
            self._of_instance[lease.instance_id] = lease_id
        self._served.replace(old, lease)

    def __delitem__(self, lease_id: str) -> None:
        old = self._leases.pop(lease_id)
        del self._numbers[lease_id]
        self._leave_indexes(lease_id, old)
        self._served.replace(old, None)

    def in_states(self, states: Collection[LeaseState]) -> list[Lease]:
        """Those in one of the states, in the order of their requests."""
        ids = [lease_id for state in states for lease_id in self._in_state[state]]
        return [self._leases[x] for x in sorted(ids, key=self._numbers.__getitem__)]

    def of_server(self, user: str, server: str) -> list[Lease]:
        """Those of a server, the one that was changed last at the end."""
        return [self._leases[x] for x in self._of_server.get((user, server), ())]

    def of_head(self, head_id: str) -> list[Lease]:
        """The workers of a server's lease, open and ended ones."""
        return [self._leases[x] for x in self._of_head.get(head_id, ())]

    def of_instance(self, instance_id: str) -> Lease | None:
        """The open lease that holds the instance."""
        lease_id = self._of_instance.get(instance_id)
        return None if lease_id is None else self._leases[lease_id]

    def _leave_indexes(self, lease_id: str, lease: Lease) -> None:
        self._in_state[lease.state].discard(lease_id)
        of_server = self._of_server[lease.user, lease.server]
        del of_server[lease_id]
        if not of_server:
            del self._of_server[lease.user, lease.server]
        if lease.head:
            del self._of_head[lease.head][lease_id]
            if not self._of_head[lease.head]:
                del self._of_head[lease.head]
        if self._of_instance.get(lease.instance_id or "") == lease_id:
            del self._of_instance[lease.instance_id or ""]


def _instances_of(lease: Lease | None) -> set[str]:
    return {segment.instance_id for segment in lease.segments} if lease is not None else set()
