"""One row for each resource with the hub's tag: what it is, and whether it is deleted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..aws.compute.templates import Template
from ..core.instances.leaks import GRACE, Kind, Known, Resource, Verdict, verdict
from ..core.instances.retention_rules import Kept
from ..core.tags import HOME, INTENT, LEASE, SERVER, STORE, USER
from ..provisioner.garbage_collection import TEMPLATES_KEPT
from ..provisioner.model.cloud.instance import GONE, Instance, InstanceState
from ..provisioner.model.cloud.network import Interface, PlacementGroup, SecurityGroup
from ..provisioner.model.cloud.volume import Volume, VolumeSnapshot
from ..provisioner.model.leases.lease import IntentState, Lease, LeaseState
from ..provisioner.store.read_only import Peek


@dataclass(frozen=True, slots=True)
class Account:
    """What EC2 lists with the hub's tag, and the price of what runs there."""

    instances: Sequence[Instance] = ()
    volumes: Sequence[Volume] = ()
    interfaces: Sequence[Interface] = ()
    """Those that are attached to nothing."""
    templates: Sequence[Template] = ()
    snapshots: Sequence[VolumeSnapshot] = ()
    security_groups: Sequence[SecurityGroup] = ()
    placement_groups: Sequence[PlacementGroup] = ()
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    """By instance id, as far as it is known: an estimate, at list prices."""


@dataclass(frozen=True, slots=True)
class Row:
    """A resource with the hub's tag and what happens to it."""

    kind: str
    id: str
    state: str
    ends: bool
    why: str
    user: str = ""
    """Whose it is or was, with the server's name; as the tags say it."""
    age_seconds: float | None = None
    """Since it was made; None if EC2 does not report it."""
    usd_per_hour: float | None = None
    """An estimate; None is unknown."""
    store: str = ""
    """Id of the store that made it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the verdict on each resource depends on."""

    known: Known
    now: datetime
    grace: float = GRACE
    """Seconds; what is younger stays."""
    other_store: str = ""
    """Id of one that the operator named as lost."""

    def verdict(self, resource: Resource) -> Verdict:
        """Whether a resource is deleted, by the rules of the hub's own garbage collection."""
        return verdict(resource, self.known, self.grace, self.other_store)

    def age(self, since: datetime | None) -> float | None:
        """Seconds since an instant; None if EC2 does not say."""
        return None if since is None else (self.now - since).total_seconds()


def rows_of(
    account: Account,
    peek: Peek | None,
    hub: str,
    now: datetime,
    grace: float = GRACE,
    other_store: str = "",
) -> list[Row]:
    """Everything, what ends first. What is younger than `grace` seconds stays."""
    asked = Question(_known(account, peek, hub, other_store), now, grace, other_store)
    rows = [
        *(_instance_row(each, account, asked) for each in _alive(account)),
        *(_volume_row(each, asked) for each in _disks_and_homes(account)),
        *(_interface_row(each, asked) for each in account.interfaces),
        *(_template_row(each, asked) for each in account.templates),
        *(_snapshot_row(each, asked) for each in account.snapshots),
        *(_security_group_row(each, asked) for each in account.security_groups),
        *(_placement_group_row(each, asked) for each in account.placement_groups),
    ]
    order = list(Kind)
    return sorted(rows, key=lambda row: (not row.ends, order.index(Kind(row.kind)), row.id))


def _alive(account: Account) -> list[Instance]:
    return [each for each in account.instances if each.state not in GONE]


def _disks_and_homes(account: Account) -> list[Volume]:
    """Without the disks of instances that are listed: those go with them."""
    alive = {each.instance_id for each in _alive(account)}
    return [each for each in account.volumes if HOME in each.tags or each.attached_to not in alive]


def _known(account: Account, peek: Peek | None, hub: str, other_store: str) -> Known:
    groups = _groups_in_use(account, peek)
    if peek is None:
        return Known(hub, "", groups)
    homes = frozenset(home.volume_id for home in peek.snapshot.homes if home.volume_id)
    return Known(hub, peek.store_id, groups | _held(account, peek, other_store), homes)


def _held(account: Account, peek: Peek, other_store: str) -> dict[str, str]:
    """Instance id -> who holds it, in words."""
    held = {
        instance.instance_id: said
        for instance in account.instances
        if instance.tags.get(STORE) != other_store and (said := _held_by_tags(instance, peek))
    }
    for kept in peek.snapshot.kept:
        whom = "the warm pool" if kept.is_of_pool else _server_of(peek, kept)
        held[kept.instance_id] = f"it is kept for {whom}"
    for lease in peek.snapshot.leases:
        if lease.instance_id is not None:
            held[lease.instance_id] = f"a lease holds it: {_server_of(peek, lease)}, {lease.state}"
    return held


def _groups_in_use(account: Account, peek: Peek | None) -> dict[str, str]:
    """Id of a security group, or name of a placement group -> what uses it, in words. EC2 does not
    delete what an instance has or is in."""
    used = {
        group: f"{each.instance_id} has it"
        for each in account.instances
        if each.state is not InstanceState.TERMINATED
        for group in each.security_groups
    }
    leases = peek.snapshot.leases if peek is not None else ()
    heads = {lease.lease_id: lease for lease in leases if lease.cluster is not None}
    tags_of = {each.group_id: each.tags for each in account.security_groups}
    tags_of |= {each.name: each.tags for each in account.placement_groups}
    of_clusters = {
        group: f"the cluster of {_server_of(peek, head)} has it"
        for group, tags in tags_of.items()
        if peek is not None and (head := heads.get(tags.get(LEASE, ""))) is not None
    }
    return used | of_clusters


def _held_by_tags(instance: Instance, peek: Peek) -> str:
    lease_id = instance.tags.get(LEASE)
    if lease_id and lease_id not in peek.lease_states:
        return (
            f"the store does not know its {lease_id}, so it may be an old copy. Start the hub: "
            "it asks JupyterHub, and ends what nobody knows"
        )
    if lease_id and peek.lease_states[lease_id] is not LeaseState.ENDED:
        return f"a lease that is {peek.lease_states[lease_id]} names it"
    token = instance.tags.get(INTENT, "")
    if any(x.client_token == token and x.state is IntentState.OPEN for x in peek.snapshot.intents):
        return "the launch call that brought it has no answer yet: the hub makes it again"
    return ""


def _instance_row(instance: Instance, account: Account, asked: Question) -> Row:
    age = asked.age(instance.launched_at)
    resource = Resource(Kind.INSTANCE, instance.instance_id, instance.state, instance.tags, age)
    words = f"{instance.state}, {instance.instance_type}, {instance.market}, {instance.zone}"
    usd = account.usd_per_hour.get(instance.instance_id)
    return _row(resource, asked.verdict(resource), age, usd, words)


def _volume_row(volume: Volume, asked: Question) -> Row:
    age = asked.age(volume.created_at)
    resource = Resource(Kind.VOLUME, volume.volume_id, volume.state, volume.tags, age)
    words = f"{volume.state}, {volume.size_gib} GiB, {volume.zone}"
    return _row(resource, asked.verdict(resource), age, None, words)


def _interface_row(interface: Interface, asked: Question) -> Row:
    """EC2 does not report its age: it is checked twice before it is deleted (`termination`)."""
    resource = Resource(
        Kind.INTERFACE, interface.interface_id, interface.state, interface.tags, asked.grace
    )
    return _row(resource, asked.verdict(resource), None, 0.0, interface.state)


def _template_row(template: Template, asked: Question) -> Row:
    age = asked.age(template.created_at)
    old = age is not None and age >= TEMPLATES_KEPT.total_seconds()
    resource = Resource(
        Kind.TEMPLATE, template.template_id, "", template.tags, age if old else None
    )
    found = asked.verdict(resource)
    if found.ends:
        found = Verdict(True, "older than 7 days; a launch that needs it makes it again")
    elif not old and replace(asked, grace=0.0).verdict(replace(resource, unused_seconds=0.0)).ends:
        found = Verdict(False, "younger than 7 days")
    return _row(resource, found, age, 0.0, "")


def _snapshot_row(snapshot: VolumeSnapshot, asked: Question) -> Row:
    age = asked.age(snapshot.started_at)
    resource = Resource(Kind.SNAPSHOT, snapshot.snapshot_id, snapshot.state, snapshot.tags, age)
    words = f"{snapshot.state}, of {snapshot.volume_id}"
    return _row(resource, asked.verdict(resource), age, None, words)


def _security_group_row(group: SecurityGroup, asked: Question) -> Row:
    """EC2 does not report its age. A cluster has one before its instances have it, and EC2 does not
    delete one that they have."""
    resource = Resource(Kind.SECURITY_GROUP, group.group_id, "", group.tags, asked.grace)
    return _row(resource, asked.verdict(resource), None, 0.0, "")


def _placement_group_row(group: PlacementGroup, asked: Question) -> Row:
    """The same: EC2 deletes none that has an instance."""
    resource = Resource(Kind.PLACEMENT_GROUP, group.name, group.state, group.tags, asked.grace)
    return _row(resource, asked.verdict(resource), None, 0.0, group.state)


def _row(
    resource: Resource, found: Verdict, age: float | None, usd_per_hour: float | None, state: str
) -> Row:
    return Row(
        kind=resource.kind,
        id=resource.resource_id,
        state=state,
        ends=found.ends,
        why=found.why,
        user=_server(resource.tags.get(USER, ""), resource.tags.get(SERVER, "")),
        age_seconds=age,
        usd_per_hour=usd_per_hour,
        store=resource.tags.get(STORE, ""),
    )


def _server_of(peek: Peek, record: Lease | Kept) -> str:
    return _server(peek.names.name(record.user), record.server)


def _server(user: str, server: str) -> str:
    return f"{user}/{server}" if server else user


def ids(rows: Sequence[Row], kind: Kind) -> Set[str]:
    """Of what ends."""
    return {row.id for row in rows if row.ends and row.kind == kind}
