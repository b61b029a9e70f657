"""What the pages about money read of the store, on both databases, also of a hundred thousand
leases."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from statistics import median

import pytest

from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.provisioner.store.store import Store
from ec2spawner.provisioner.usage import PART
from tests.harness import BUSY
from tests.postgresql_server import PostgreSQL
from tests.seeded_ledger import seed
from tests.stored import NOW

TODAY = NOW.date()
DAY = timedelta(days=1)
QUERY_SECONDS = 0.1


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ec2spawner.sqlite'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    opened = await Store.open(url, now=NOW)
    yield opened
    await opened.close()


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
    found = await store.idle_sessions(NOW - 11 * DAY, NOW)
    assert len(found) == 30
    idle = [each for each in found if each.stopped_as_idle]
    assert len(idle) == 10
    assert {each.idle for each in idle} == {(timedelta(minutes=9),)}, "the last one ends with it"
    prices = {round(each.idle_usd_per_hour or 0, 4) for each in idle}
    assert prices == {0.526, round(0.3 * 0.526, 4)}
    assert all(each.idle == () for each in found if not each.stopped_as_idle)
    lately = await store.idle_sessions(NOW - 2 * DAY, NOW)
    assert {each.ended_at >= NOW - 2 * DAY for each in lately} == {True}
    assert len(lately) < 30


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_queries_of_the_pages_take_a_tenth_of_a_second(store: Store, url: str) -> None:
    """A thousand users, a hundred thousand leases in a year; a longer range is read in parts."""
    seed(url, 100_000, users=1000, days=365)
    first = TODAY - PART + DAY
    by = (Dimension.DAY, Dimension.PURPOSE)
    by_user = (Dimension.USER, Dimension.PURPOSE)
    own = {Dimension.USER: ["user0007"]}
    queries: dict[str, Callable[[], Awaitable[object]]] = {
        "part by day": lambda: store.costs(first, TODAY, by),
        "part by user": lambda: store.costs(first, TODAY, by_user),
        "year of a user": lambda: store.costs(TODAY - 365 * DAY, TODAY, by, own),
        "sessions of a user": lambda: store.past_leases("user0007", NOW, 51),
        "idle sessions of a part": lambda: store.idle_sessions(NOW - PART, NOW),
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
    assert {name for name, s in taken.items() if s > BUSY * QUERY_SECONDS} == set()
