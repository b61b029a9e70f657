"""The indexes of leases agree with a scan of all of them, whatever was changed."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.segments import Segment
from ec2spawner.provisioner.model.leases.lease import OPEN, Lease, LeaseState
from ec2spawner.provisioner.state.lease_table import LeaseTable, ServedInstances
from ec2spawner.wire import Market
from tests import stored

INSTANCES = ("i-1", "i-2", "i-3")
STATES = st.sampled_from(sorted(LeaseState))
CHANGES = st.tuples(
    st.sampled_from(["put", "put", "put", "forget"]),
    st.sampled_from(["lease-1", "lease-2", "lease-3", "lease-4"]),
    st.sampled_from(["ada", "bob"]),
    STATES,
    st.sampled_from([None, *INSTANCES]),
    st.lists(st.sampled_from(INSTANCES), max_size=2),
)


def a_lease(
    lease_id: str, user: str, state: LeaseState, instance_id: str | None, had: list[str]
) -> Lease:
    segments = tuple(Segment(each, Market.SPOT, 0.2, stored.NOW) for each in had)
    return stored.lease(
        lease_id, user=user, state=state, instance_id=instance_id, segments=segments
    )


@given(st.lists(CHANGES, max_size=30))
def test_indexes_agree_with_a_scan_of_all_leases(
    changes: list[tuple[str, str, str, LeaseState, str | None, list[str]]],
) -> None:
    served = ServedInstances()
    table, plain = LeaseTable(served), dict[str, Lease]()
    for what, lease_id, user, state, instance_id, had in changes:
        if what == "forget":
            assert (lease_id in table) == (lease_id in plain)
            if lease_id in plain:
                del plain[lease_id], table[lease_id]
        elif instance_id is None or not _held_by_another(plain, instance_id, lease_id):
            table[lease_id] = plain[lease_id] = a_lease(lease_id, user, state, instance_id, had)
    assert list(table.items()) == list(plain.items())
    for number in range(1, 4):
        for states in combinations(sorted(LeaseState), number):
            found = [lease for lease in plain.values() if lease.state in states]
            assert table.in_states(states) == found
    for user in ("ada", "bob", "eve"):
        of_user = [lease for lease in plain.values() if lease.user == user]
        found = table.of_server(user, of_user[0].server if of_user else "")
        assert sorted(x.lease_id for x in found) == sorted(x.lease_id for x in of_user)
    for instance_id in INSTANCES:
        held = [x for x in plain.values() if x.instance_id == instance_id and x.state in OPEN]
        assert table.of_instance(instance_id) == (held[0] if held else None)
    assert served.ids == {x.instance_id for lease in plain.values() for x in lease.segments}


def _held_by_another(leases: dict[str, Lease], instance_id: str, lease_id: str) -> bool:
    return any(
        lease.instance_id == instance_id and lease.state in OPEN
        for other, lease in leases.items()
        if other != lease_id
    )
