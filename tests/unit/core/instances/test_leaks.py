"""What the reaper may end: only this hub's, never a home, and nothing in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.instances.leaks import GRACE, Kind, Known, Resource, verdict
from ec2spawner.core.tags import HOME, HUB, INTENT, STORE

OURS = {HUB: "hub", STORE: "store", INTENT: "spot-1"}
KNOWN = Known("hub", "store", held={"i-held": "a lease holds it"}, homes={"vol-home"})

STATES = {
    Kind.INSTANCE: "running",
    Kind.VOLUME: "available",
    Kind.INTERFACE: "available",
    Kind.TEMPLATE: "",
}

values = st.sampled_from(["hub", "store", "other", "spot-1", ""])
things = st.builds(
    Resource,
    kind=st.sampled_from(Kind),
    resource_id=st.sampled_from(["i-held", "vol-home", "x-1"]),
    state=st.sampled_from(
        ["running", "stopped", "terminated", "shutting-down", "available", "in-use", ""]
    ),
    tags=st.dictionaries(st.sampled_from([HUB, STORE, INTENT, HOME]), values),
    unused_seconds=st.none() | st.floats(0, 10 * GRACE),
)


@given(resource=things)
def test_only_old_unheld_resources_with_all_our_tags_are_deleted(resource: Resource) -> None:
    if not verdict(resource, KNOWN).ends:
        return
    assert (resource.tags[HUB], resource.tags[STORE]) == ("hub", "store")
    assert resource.unused_seconds is not None
    assert resource.unused_seconds >= GRACE
    assert resource.kind is not Kind.SNAPSHOT
    if resource.kind is Kind.VOLUME:
        assert HOME not in resource.tags
        assert INTENT in resource.tags
        assert resource.resource_id != "vol-home"
        assert resource.state == "available"
    if resource.kind is Kind.INTERFACE:
        assert resource.state == "available"
    if resource.kind is Kind.INSTANCE:
        assert resource.resource_id != "i-held"
        assert resource.state not in {"terminated", "shutting-down"}


@given(resource=things, name=values)
def test_every_verdict_has_a_reason_and_naming_a_store_selects_only_it(
    resource: Resource, name: str
) -> None:
    found = verdict(resource, KNOWN, store_id=name)
    assert found.why
    if found.ends:
        assert resource.tags[STORE] in {"store", name} - {""}
    if resource.tags.get(STORE) == "store":
        assert found == verdict(resource, KNOWN)


@given(resource=things)
def test_an_unreadable_store_deletes_nothing(resource: Resource) -> None:
    assert not verdict(resource, replace(KNOWN, store_id="")).ends


@pytest.mark.parametrize("kind", STATES)
def test_leftovers_are_deleted_once_they_are_old(kind: Kind) -> None:
    resource = Resource(kind, "x-1", STATES[kind], OURS, GRACE)
    assert verdict(resource, KNOWN).ends
    assert not verdict(replace(resource, unused_seconds=GRACE - 1), KNOWN).ends
    assert not verdict(replace(resource, unused_seconds=None), KNOWN).ends
