"""What the reaper may end: only this hub's, never a home, and nothing in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.instances.leaks import (
    GRACE,
    Kind,
    Known,
    Thing,
    verdict,
)
from ec2spawner.core.tags import (
    HOME,
    HUB,
    INTENT,
    STORE,
)

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
    Thing,
    kind=st.sampled_from(Kind),
    thing_id=st.sampled_from(["i-held", "vol-home", "x-1"]),
    state=st.sampled_from(
        ["running", "stopped", "terminated", "shutting-down", "available", "in-use", ""]
    ),
    tags=st.dictionaries(st.sampled_from([HUB, STORE, INTENT, HOME]), values),
    nobodys_seconds=st.none() | st.floats(0, 10 * GRACE),
)


@given(thing=things)
def test_only_old_unheld_resources_with_all_our_tags_are_deleted(thing: Thing) -> None:
    if not verdict(thing, KNOWN).ends:
        return
    assert (thing.tags[HUB], thing.tags[STORE]) == ("hub", "store")
    assert thing.nobodys_seconds is not None
    assert thing.nobodys_seconds >= GRACE
    assert thing.kind is not Kind.SNAPSHOT
    if thing.kind is Kind.VOLUME:
        assert HOME not in thing.tags
        assert INTENT in thing.tags
        assert thing.thing_id != "vol-home"
        assert thing.state == "available"
    if thing.kind is Kind.INTERFACE:
        assert thing.state == "available"
    if thing.kind is Kind.INSTANCE:
        assert thing.thing_id != "i-held"
        assert thing.state not in {"terminated", "shutting-down"}


@given(thing=things, name=values)
def test_every_verdict_has_a_reason_and_naming_a_store_selects_only_it(
    thing: Thing, name: str
) -> None:
    found = verdict(thing, KNOWN, store_id=name)
    assert found.why
    if found.ends:
        assert thing.tags[STORE] in {"store", name} - {""}
    if thing.tags.get(STORE) == "store":
        assert found == verdict(thing, KNOWN)


@given(thing=things)
def test_an_unreadable_store_deletes_nothing(thing: Thing) -> None:
    assert not verdict(thing, replace(KNOWN, store_id="")).ends


@pytest.mark.parametrize("kind", STATES)
def test_leftovers_are_deleted_once_they_are_old(kind: Kind) -> None:
    thing = Thing(kind, "x-1", STATES[kind], OURS, GRACE)
    assert verdict(thing, KNOWN).ends
    assert not verdict(replace(thing, nobodys_seconds=GRACE - 1), KNOWN).ends
    assert not verdict(replace(thing, nobodys_seconds=None), KNOWN).ends
