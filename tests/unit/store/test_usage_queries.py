"""What the pages about money read of the store, on both databases, also of a hundred thousand
leases."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from functools import partial
from statistics import median
from typing import Any

import pytest
from sqlalchemy import text

from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.store.cost_backfill import complete_ledger
from ec2spawner.provisioner.store.store import Store
from ec2spawner.provisioner.usage import IDLE_PART, Usage
from ec2spawner.wire import Stop
from tests.bare_state import bare_state
from tests.harness import BUSY
from tests.seeded_ledger import seed
from tests.stored import HOME_ROW, NOW, dump, lease, other_program

TODAY = NOW.date()
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
QUERY_SECONDS = 0.1
REPLAY_SECONDS = 1.0
BLOCKED_SECONDS = 0.05
REPLAY_BYTES = 32 * 2**20

PAGE_DIMENSIONS = (
    Dimension.DAY,
    Dimension.USER,
    Dimension.PAYER,
    Dimension.PROFILE,
    Dimension.INSTANCE_TYPE,
    Dimension.ZONE,
    Dimension.MARKET,
    Dimension.CAUSE,
)
"""By which the page of admins shows costs."""


async def test_past_leases_are_the_users_own_the_newest_first(store: Store, url: str) -> None:
    seed(url, 60, users=3, days=10)
    found = await store.past_leases("user0001", NOW, 15)
    assert {each.user for each in found} == {"user0001"}
    ended = [each.ended_at for each in found if each.ended_at]
    assert len(ended) == 15
    assert ended == sorted(ended, reverse=True)
    assert all(each.segments for each in found)
    rest = await store.past_leases("user0001", ended[-1], 15)
    assert len(rest) == 5
    assert not {each.lease_id for each in rest} & {each.lease_id for each in found}
    assert await store.past_leases("nobody", NOW, 15) == ()


async def test_idle_sessions_have_their_periods_and_price(store: Store, url: str) -> None:
    seed(url, 30, users=3, days=10)
    ended, found = await store.ledger.idle_sessions(NOW - 11 * DAY, NOW)
    assert (ended, len(found)) == (30, 10)
    assert {each.is_idle_stop for each in found} == {True}
    periods = {tuple(each.idle_microseconds) for each in found}
    assert periods == {(9 * 60 * 10**6,)}, "the last one ends with it"
    prices = {round(each.idle_usd_per_hour or 0, 2) for each in found}
    beside = 0.01 + 0.005  # the disk, for a month of 720 hours, and the address
    assert prices == {round(0.526 + beside, 2), round(0.3 * 0.526 + beside, 2)}
    lately, some = await store.ledger.idle_sessions(NOW - 2 * DAY, NOW)
    assert {each.ended_at >= NOW - 2 * DAY for each in some} == {True}
    assert len(some) < lately < 30


async def test_an_idle_stop_lasts_until_the_servers_next_start(store: Store) -> None:
    idle = Stop(reason="idle", message="It was idle")

    async def saved(name: str, began: float, ended: float | None = None, **changes: Any) -> None:
        known: dict[str, Any] = {
            "requested_at": NOW - HOUR * began,
            "state": LeaseState.READY if ended is None else LeaseState.ENDED,
            "ready_at": NOW - HOUR * began,
            "ended_at": None if ended is None else NOW - HOUR * ended,
            "stop": idle,
        }
        each = lease(name, **known | changes)
        await store.save_lease(each, [HOME_ROW] if ended is not None else [])

    await saved("first", 20, 18)
    await saved("other user", 17.5, 17, user="bob", stop=None)
    await saved("other server", 17.5, 17, server="b", stop=None)
    await saved("never idle", 16, 14, stop=None)
    await saved("second", 12, 11)
    await saved("never ready", 13, 12.5, server="c", ready_at=None, stop=None)
    await saved("runs", 10)
    _, found = await store.ledger.idle_sessions(NOW - DAY, NOW)
    starts = {NOW - each.ended_at: each.next_start for each in found}
    assert starts == {18 * HOUR: NOW - 16 * HOUR, 11 * HOUR: NOW - 10 * HOUR}
    await saved("first", 20, 18, stop=None)  # written again
    ended, found = await store.ledger.idle_sessions(NOW - DAY, NOW)
    assert (ended, [NOW - each.ended_at for each in found]) == (5, [11 * HOUR])


async def test_idle_sessions_of_an_older_schema_are_made_from_its_leases(
    store: Store, url: str
) -> None:
    seed(url, 30, users=3, days=10)
    written = dict(dump(url))["idle_session"]
    assert len(written) == 10
    with other_program(url) as database, database.begin():
        database.execute(text("DELETE FROM idle_session"))
        complete_ledger(database, 10)
    made = dict(dump(url))["idle_session"]
    assert sorted(row[:6] for row in made) == sorted(row[:6] for row in written)
    prices = {row[0]: row[6] for row in written}
    assert {row[0]: row[6] for row in made} == pytest.approx(prices)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_queries_of_the_pages_take_a_tenth_of_a_second(store: Store, url: str) -> None:
    """A thousand users, a hundred thousand leases in a year; the replay of idle limits, which is
    read in parts, in a second."""
    seed(url, 100_000, users=1000, days=365)
    # One that is not a multiple of any period, and without some that end during the reads.
    year, ended = (TODAY - 363 * DAY, TODAY - 2 * DAY), [f"lease-{n}" for n in range(3)]
    by = (Dimension.DAY, Dimension.PURPOSE)
    own = {Dimension.USER: ["user0007"]}
    queries: dict[str, Callable[[], Awaitable[object]]] = {
        **{
            f"year by {name}": partial(
                store.ledger.costs, *year, (name, Dimension.PURPOSE), None, ended
            )
            for name in PAGE_DIMENSIONS
        },
        "year of a user": lambda: store.ledger.costs(*year, by, own),
        "sessions of a user": lambda: store.past_leases("user0007", NOW, 51),
        "idle sessions of a part": lambda: store.ledger.idle_sessions(NOW - IDLE_PART, NOW),
    }
    taken: dict[str, float] = {}
    for name, query in queries.items():
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            await query()
            seconds.append(time.perf_counter() - began)
        taken[name] = median(seconds)
        print(f"{name}: {1000 * taken[name]:.0f} ms")
    await _replay_year(store, year)
    assert {name for name, s in taken.items() if s > BUSY * QUERY_SECONDS} == set()


async def _replay_year(store: Store, year: tuple[date, date]) -> None:
    """What idle limits save, as the page asks for it."""
    state = bare_state(Settings(hub="hub", region="us-east-1", subnets=()), lambda: NOW)
    usage = Usage(state, store)
    reading = asyncio.create_task(usage.idle_savings(*year))
    began = last = time.perf_counter()
    blocked = 0.0
    while not reading.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        last, blocked = now, max(blocked, now - last)
    taken = last - began
    tracemalloc.start()
    found = await usage.idle_savings(*year)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(
        f"year of idle savings: {1000 * taken:.0f} ms, the event loop blocked for "
        f"{1000 * blocked:.0f} ms, {peak / 2**20:.0f} MiB"
    )
    assert found == reading.result()
    assert 3 * found.idle_stops == pytest.approx(found.sessions, rel=0.01)
    assert found.replays[-1].stops == found.idle_stops, "nine minutes are more than five"
    assert taken < BUSY * REPLAY_SECONDS
    assert blocked < BUSY * BLOCKED_SECONDS
    assert peak < REPLAY_BYTES
