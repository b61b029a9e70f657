"""The ledger is read beside the hub that writes it: what has ended, and open leases up to now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, timedelta
from pathlib import Path

import pytest

from ec2spawner.core.ledger.cost_rows import Cause, Dimension
from ec2spawner.core.ledger.lease_costs import overhead_costs
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.starts.outcome import Outcome
from ec2spawner.core.starts.phases import Marks
from ec2spawner.provisioner.model.leases.costs import costs_of
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.store.read_only import LedgerQuery, read_ledger, read_starts_of
from ec2spawner.provisioner.store.store import Store, StoreError
from ec2spawner.wire import Market
from tests.stored import NOW, lease

HOUR = timedelta(hours=1)
USD = 1_000_000_000
SEGMENT = Segment("i-1", Market.SPOT, 1.0, NOW - 5 * HOUR, NOW - 3 * HOUR, gpus=1)
QUERY = LedgerQuery(
    since=NOW.date(),
    until=NOW.date(),
    by=(Dimension.USER,),
    time_zone=UTC,
    segments_between=(NOW - HOUR, NOW),
)


async def fill(store: Store) -> None:
    ended = lease("ended", state=LeaseState.ENDED, ready_at=SEGMENT.start, segments=(SEGMENT,))
    await store.save_lease(ended, costs_of(ended, NOW, UTC))
    running = replace(SEGMENT, instance_id="i-2", start=NOW - 2 * HOUR, end=None)
    await store.save_lease(lease("open", user="bob", state=LeaseState.READY, segments=(running,)))
    spare = replace(SEGMENT, instance_id="i-3")
    costs = overhead_costs([spare], Cause.UNASSIGNED, NOW, UTC)
    await store.ledger.save_overhead([spare], "key", costs)


async def test_what_has_ended_and_what_runs_add_up(url: str) -> None:
    store = await Store.open(url, now=NOW)
    try:
        await fill(store)
        found = await read_ledger(url, QUERY, now=NOW)
        spent = {each.key[0]: each.nano_usd for each in found.costs}
        assert spent == {"": 2 * USD, "ada": 2 * USD, "bob": 2 * USD}
        assert [each.instance_id for each in found.segments] == ["i-2"]
        later = await read_ledger(url, QUERY, now=NOW + HOUR)
        assert {e.key[0]: e.nano_usd for e in later.costs}["bob"] == 3 * USD
    finally:
        await store.close()


async def test_durations_of_what_ended_and_of_what_runs_are_by_resource(url: str) -> None:
    with_disk = replace(SEGMENT, disk_usd_per_month=8.0, address_usd_per_hour=0.005)
    running = replace(with_disk, instance_id="i-2", start=NOW - HOUR, end=None)
    store = await Store.open(url, now=NOW)
    ended = lease("ended", state=LeaseState.ENDED, ready_at=SEGMENT.start, segments=(with_disk,))
    await store.save_lease(ended, costs_of(ended, NOW, UTC))
    await store.save_lease(lease("open", state=LeaseState.READY, segments=(running,)))
    await store.close()
    query = replace(QUERY, by=(Dimension.DAY, Dimension.RESOURCE), durations=True)
    found = await read_ledger(url, query, now=NOW)
    assert found.durations.keys() == {each.key for each in found.costs}
    hours = {key[1]: microseconds / 3.6e9 for key, microseconds in found.durations.items()}
    assert hours == {"instance": 3.0, "disk": 3.0, "address": 3.0}
    of_bob = replace(query, only={Dimension.USER: ["bob"]})
    assert (await read_ledger(url, of_bob, now=NOW)).durations == {}


async def test_other_users_and_other_days_are_left_out(url: str) -> None:
    store = await Store.open(url, now=NOW)
    await fill(store)
    await store.close()
    for user in ("ada", "bob"):
        query = replace(QUERY, only={Dimension.USER: [user]}, segments_between=None)
        found = await read_ledger(url, query, now=NOW)
        assert [each.key for each in found.costs] == [(user,)]
        assert found.segments == ()
    yesterday = replace(QUERY, since=date(2026, 11, 1), until=NOW.date() - timedelta(days=1))
    assert (await read_ledger(url, yesterday, now=NOW)).costs == ()


async def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        await read_ledger(f"sqlite:///{tmp_path / 'none.sqlite'}", QUERY, now=NOW)
    assert list(tmp_path.iterdir()) == []


async def test_the_starts_of_some_users_and_all_that_their_instances_cost(url: str) -> None:
    """Neither what others have cost, nor what an instance has cost while it waited for anybody."""
    store = await Store.open(url, now=NOW)
    try:
        await fill(store)
        mine = replace(SEGMENT, instance_id="i-4", instance_type="g4dn.xlarge", zone="us-east-1a")
        made = {"state": LeaseState.ENDED, "ready_at": mine.start, "segments": (mine,)}
        ended = lease(
            "mine", user="eve", marks=Marks(asked=0.5, listening=30.0, routed=31.0), **made
        )
        await store.save_lease(ended, costs_of(ended, NOW, UTC))
        for key, cause in (("pool", Cause.POOL), ("end", Cause.TERMINATION)):
            waited = replace(mine, start=NOW - HOUR, end=NOW)
            costs = overhead_costs([waited], cause, NOW, UTC)
            await store.ledger.save_overhead([waited], key, costs)
        found = await read_starts_of(url, ["eve", "nobody"])
        [start] = found.starts
        assert (start.user, start.start.outcome) == ("eve", Outcome.READY)
        assert (start.instance_type, start.zone) == ("g4dn.xlarge", "us-east-1a")
        assert (found.nano_usd, found.unknown, found.open_leases) == (3 * USD, 0, 0)
        assert (await read_starts_of(url, ["bob"])).open_leases == 1
    finally:
        await store.close()
