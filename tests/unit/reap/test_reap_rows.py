"""What `ec2spawner reap` says of each thing, and how it says it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console

from ec2spawner.aws.compute.templates import Template
from ec2spawner.core.tags import HUB, INTENT, LEASE, STORE
from ec2spawner.provisioner.model.account_names import AccountNames
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.provisioner.model.cloud.network import PlacementGroup, SecurityGroup
from ec2spawner.provisioner.model.cloud.volume import Volume
from ec2spawner.provisioner.model.leases.cluster import Cluster
from ec2spawner.provisioner.model.leases.lease import IntentState, LeaseState, Snapshot
from ec2spawner.provisioner.model.user_account import Identity, UserAccount
from ec2spawner.provisioner.store.read_only import Peek
from ec2spawner.reap.command import status_of
from ec2spawner.reap.report import Report, as_json, print_table
from ec2spawner.reap.rows import Account, Row, rows_of
from ec2spawner.wire import Market
from tests.stored import NOW, SPEC, intent, lease

OURS = {HUB: "hub", STORE: "store", INTENT: "spot-1"}
HOUR = timedelta(hours=1)
CLUSTER = Cluster(1, "ray", "a10g", "A10G", SPEC)


def instance(age: timedelta = HOUR, **tags: str) -> Instance:
    return Instance(
        "i-1",
        InstanceState.RUNNING,
        "g4dn.xlarge",
        "us-east-1a",
        Market.SPOT,
        NOW - age,
        tags=OURS | tags,
    )


def peek(snapshot: Snapshot = Snapshot(), **lease_states: LeaseState) -> Peek:  # noqa: B008
    return Peek("store", False, snapshot, lease_states)


def row_of(found: Instance | Template, seen: Peek) -> Row:
    if isinstance(found, Template):
        account = Account(templates=[found])
    else:
        account = Account(instances=[found], usd_per_hour={"i-1": 0.1578})
    [row] = rows_of(account, seen, "hub", NOW)
    return row


def test_an_instance_is_protected_by_lease_launch_call_and_age() -> None:
    assert row_of(instance(), peek()).ends
    assert not row_of(instance(timedelta(minutes=9)), peek()).ends
    holding = Snapshot(leases=(lease(instance_id="i-1", state=LeaseState.READY),))
    assert row_of(instance(), peek(holding)).why == "a lease holds it: ada, ready"
    called = Snapshot(intents=(intent("spot-1", IntentState.OPEN, NOW - HOUR),))
    assert "has no answer yet" in row_of(instance(), peek(called)).why


def test_what_holds_a_resource_has_what_its_user_is_called_now() -> None:
    names = AccountNames([UserAccount("ada", "1", "lovelace", Identity(1, None), NOW)])
    of_server = Snapshot(
        leases=(lease(instance_id="i-1", state=LeaseState.READY, cluster=CLUSTER),),
    )
    seen = replace(peek(of_server), names=names)
    assert row_of(instance(), seen).why == "a lease holds it: lovelace, ready"
    group = SecurityGroup("sg-1", "g", OURS | {LEASE: "lease-1"})
    [row] = rows_of(Account(security_groups=[group]), seen, "hub", NOW)
    assert "lovelace" in row.why


def test_an_ended_lease_protects_nothing_and_an_unknown_one_does() -> None:
    of_lease = instance(HOUR, **{LEASE: "x"})
    assert row_of(of_lease, peek(x=LeaseState.ENDED)).ends
    assert not row_of(of_lease, peek(x=LeaseState.ENDING)).ends
    assert "may be an old copy" in row_of(of_lease, peek()).why


def test_a_launch_template_ends_when_it_is_old() -> None:
    old = Template("lt-1", "ec2spawner-a", NOW - timedelta(days=8), OURS)
    young = Template("lt-1", "ec2spawner-a", NOW - timedelta(days=6), OURS)
    foreign = Template("lt-1", "ec2spawner-a", NOW - timedelta(days=8), OURS | {STORE: "other"})
    assert row_of(old, peek()).ends
    assert row_of(young, peek()).why == "younger than 7 days"
    assert "another store" in row_of(foreign, peek()).why


def test_disks_of_existing_instances_are_not_listed() -> None:
    disk = Volume("vol-1", "us-east-1a", 100, "in-use", "i-1", OURS)
    account = Account(instances=[instance()], volumes=[disk])
    assert [row.id for row in rows_of(account, peek(), "hub", NOW)] == ["i-1"]
    assert not rows_of(Account(volumes=[disk]), peek(), "hub", NOW)[0].ends, "in use by a stranger"


def report(outcome: dict[str, str] | None = None, trouble: str = "") -> Report:
    rows = [row_of(instance(HOUR, **{"ec2spawner:user": "[bold]ada"}), peek())]
    return Report("hub", "store", False, rows, outcome, trouble)


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (None, 3, "1 would end, which cost at least $0.158/h (an estimate"),
        ({"i-1": ""}, 0, "1 ended."),
        ({"i-1": "no"}, 1, "0 ended, 1 could not be ended"),
    ],
)
def test_the_table_has_the_reasons_and_the_exit_status_the_result(
    outcome: dict[str, str] | None, status: int, said: str
) -> None:
    written = io.StringIO()
    print_table(report(outcome), Console(file=written, width=220))
    text = " ".join(written.getvalue().split())
    assert said in text
    assert "[bold]ada" in text, "names are text, not markup"
    assert status_of(report(outcome)) == status
    assert json.loads(as_json(report(outcome)))["things"][0]["id"] == "i-1"


def test_a_store_that_cannot_be_read_is_a_failure() -> None:
    assert status_of(Report("hub", "", False, [], None, "broken")) == 1


def test_a_security_group_ends_once_neither_cluster_nor_instance_has_it() -> None:
    group = SecurityGroup("sg-1", "ec2spawner-x", OURS | {LEASE: "lease-x"})
    head = lease(lease_id="lease-x", state=LeaseState.READY, cluster=CLUSTER)
    member = replace(instance(), security_groups=("sg-1",))
    cases = (
        (Account(security_groups=[group]), peek(), "its cluster is gone", True),
        (
            Account(security_groups=[group]),
            peek(Snapshot(leases=(head,))),
            "the cluster of ada has it",
            False,
        ),
        (
            Account(security_groups=[group], instances=[member]),
            peek(),
            "i-1 has it",
            False,
        ),
        (
            Account(security_groups=[replace(group, tags=OURS | {STORE: "other"})]),
            peek(),
            "another store made it: other",
            False,
        ),
    )
    for account, seen, why, ends in cases:
        [row] = [x for x in rows_of(account, seen, "hub", NOW) if x.id == "sg-1"]
        assert (row.why, row.ends) == (why, ends)
    lost = Account(security_groups=[replace(group, tags=OURS | {STORE: "other"})])
    [row] = rows_of(lost, None, "hub", NOW, other_store="other")
    assert row.ends


def test_a_placement_group_ends_once_no_cluster_has_it() -> None:
    ours = OURS | {LEASE: "lease-x"}
    group = PlacementGroup("ec2spawner-lease-x", "available", ours)
    head = lease(lease_id="lease-x", state=LeaseState.READY, cluster=CLUSTER)
    account = Account(placement_groups=[group])
    foreign = Account(placement_groups=[replace(group, tags=ours | {STORE: "other"})])
    for found, seen, why, ends in (
        (account, peek(), "its cluster is gone", True),
        (account, peek(Snapshot(leases=(head,))), "the cluster of ada has it", False),
        (foreign, peek(), "another store made it: other", False),
    ):
        [row] = rows_of(found, seen, "hub", NOW)
        assert (row.kind, row.id, row.why, row.ends) == (
            "placement group",
            group.name,
            why,
            ends,
        )
