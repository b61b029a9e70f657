"""The phases of starts: stored with what ends the start, and read while a hub holds the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sqlalchemy import text

from ec2spawner.core.starts.outcome import Outcome
from ec2spawner.core.starts.phases import Marks, Phase
from ec2spawner.core.starts.summary import GroupOfStarts
from ec2spawner.provisioner.model.leases.lease import Attempt, AttemptOutcome, Lease, LeaseState
from ec2spawner.provisioner.model.user_account import Identity, UserAccount
from ec2spawner.provisioner.store.read_only import SlowStart, read_starts
from ec2spawner.provisioner.store.store import Store
from ec2spawner.wire import Market, Stop
from tests.stored import NOW, lease, other_program

MARKS = Marks(
    asked=0.5,
    answered=2.0,
    running=8.0,
    agent_started=28.0,
    claimed=29.0,
    granted=29.25,
    mounted=32.0,
    notebook_started=32.5,
    listening=35.0,
    routed=35.5,
)
FOUND = Attempt(Market.SPOT, ("g4dn.xlarge",), ("us-east-1a",), NOW, outcome=AttemptOutcome.FOUND)
READY = lease(
    state=LeaseState.READY, ready_at=NOW, attempts=(FOUND,), instance_id="i-1", marks=MARKS
)
FAILED = lease(
    "lease-2",
    user="bob",
    profile="l4",
    state=LeaseState.ENDED,
    stop=Stop(reason="capacity"),
    ended_at=NOW + timedelta(seconds=90),
    marks=Marks(ended=90.0),
)


async def read(
    url: str, profile: str = "", days: int = 1
) -> tuple[dict[str, GroupOfStarts], list[SlowStart]]:
    until = NOW + timedelta(days=days)
    groups, slowest = await read_starts(url, NOW, until, profile, slowest=2)
    return {group.profile: group for group in groups}, list(slowest)


async def test_a_start_is_stored_with_the_write_that_ends_it(store: Store, url: str) -> None:
    await store.save_lease(replace(READY, marks=replace(MARKS, routed=None)))
    assert await read(url) == ({}, []), "it is not over"
    await store.save_lease(READY)
    [(profile, group)] = (await read(url))[0].items()
    assert (profile, group.market) == ("t4", "spot")
    assert {phase: found.median for phase, found in group.phases.items()} == {
        Phase.QUEUE: 0.5,
        Phase.BUY: 1.5,
        Phase.PENDING: 6.0,
        Phase.BOOT: 20.0,
        Phase.AGENT: 1.0,
        Phase.CLAIM: 0.25,
        Phase.HOME: 2.75,
        Phase.NOTEBOOK: 0.5,
        Phase.LISTEN: 2.5,
        Phase.ROUTE: 0.5,
    }
    assert group.total is not None
    assert group.total.median == 35.5


async def test_what_a_start_has_reached_survives_a_restart(store: Store, url: str) -> None:
    reached = lease(marks=Marks(asked=0.5, answered=2.0, lost=0.25))
    await store.save_lease(reached)
    assert (await store.load()).leases == (reached,)


async def test_later_writes_of_a_server_change_nothing(store: Store, url: str) -> None:
    await store.save_lease(READY)
    before = await read(url)
    end = NOW + timedelta(hours=2)
    ended = replace(READY, state=LeaseState.ENDED, ended_at=end, stop=Stop(reason="idle"))
    await store.save_lease(ended)
    assert await read(url) == before


async def test_a_failed_start_counts_by_what_became_of_it(store: Store, url: str) -> None:
    await store.save_lease(READY)
    await store.save_lease(FAILED)
    groups, slowest = await read(url)
    assert (groups["l4"].market, groups["l4"].outcomes) == ("", {Outcome.SOLD_OUT: 1})
    assert groups["l4"].total is None
    [slow] = slowest
    assert (slow.start.lease_id, slow.user, slow.instance_id) == ("lease-1", "ada", "i-1")
    assert set((await read(url, "l4"))[0]) == {"l4"}


async def test_the_slowest_starts_have_what_their_users_are_called_now(
    store: Store, url: str
) -> None:
    await store.save_lease(READY)
    await store.save_user_accounts([UserAccount("ada", "1", "lovelace", Identity(1, None), NOW)])
    assert [slow.user for slow in (await read(url))[1]] == ["lovelace"]


async def test_starts_outside_the_period_are_left_out(store: Store, url: str) -> None:
    await store.save_lease(READY)
    await store.save_lease(replace(READY, lease_id="old", requested_at=NOW - timedelta(seconds=1)))
    await store.save_lease(replace(READY, lease_id="new", requested_at=NOW + timedelta(days=1)))
    assert (await read(url))[0]["t4"].count == 1
    assert (await read(url, days=2))[0]["t4"].count == 2


async def test_what_nobody_asked_for_or_nothing_measured_is_no_start(
    store: Store, url: str
) -> None:
    """A server that continues on another instance, and one of a version that measured nothing."""
    for other in (replace(READY, continues="lease-0"), _ended(replace(READY, marks=Marks()))):
        await store.save_lease(other)
    assert await read(url) == ({}, [])


async def test_the_column_of_a_phase_has_its_seconds(store: Store, url: str) -> None:
    """Admins query the table themselves."""
    await store.save_lease(READY)
    with other_program(url) as database:
        row = database.execute(text("SELECT boot, total, unfinished FROM start_phases")).one()
    assert tuple(row) == (20.0, 35.5, "")


def _ended(of: Lease) -> Lease:
    return replace(of, state=LeaseState.ENDED, ended_at=NOW, stop=Stop(reason="user"))
