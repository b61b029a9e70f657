"""Totals of the ledger say what its lines say, however the lines have changed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import pytest
from sqlalchemy import Engine, event, insert, text

from ec2spawner.core.ledger.cost_rows import CostRow, Dimension, Purpose, Resource, sum_rows
from ec2spawner.core.ledger.segments import OverheadKey, Segment
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.store.cost_backfill import complete_ledger
from ec2spawner.provisioner.store.ledger import cost_totals
from ec2spawner.provisioner.store.ledger.cost_queries import row_values
from ec2spawner.provisioner.store.ledger.cost_totals import dimension_of
from ec2spawner.provisioner.store.store import Store
from ec2spawner.provisioner.store.tables import cost_table
from ec2spawner.wire import Market
from tests.stored import HOME_ROW, NOW, dump, lease, other_program

SEGMENT = Segment("i-1", Market.SPOT, 1.0, NOW)

DAY = timedelta(days=1)
FIRST = date(2026, 1, 1)
DAYS = 200
EVER = date(2000, 1, 1), date(2100, 1, 1)

BY = [
    (),
    (Dimension.PURPOSE,),
    (Dimension.DAY, Dimension.PURPOSE),
    (Dimension.DAY, Dimension.PROFILE),
    (Dimension.PURPOSE, Dimension.USER),
    (Dimension.PAYER,),
    (Dimension.CAUSE, Dimension.PURPOSE, Dimension.DAY),
    (Dimension.RESOURCE,),
]


def drawn(randomness: random.Random, count: int) -> list[CostRow]:
    return [_row(randomness) for _ in range(count)]


def _row(randomness: random.Random) -> CostRow:
    user = randomness.choice(["", "ada", "größe", "'; --"])
    return CostRow(
        day=FIRST + randomness.randrange(DAYS) * DAY,
        user=user,
        server="",
        payer=randomness.choice(["hub", "group:research", f"user:{user}"]),
        profile=randomness.choice(["t4", "a100"]),
        instance_type="g4dn.xlarge",
        zone="us-east-1a",
        market=randomness.choice(list(Market)).value,
        resource=randomness.choice(list(Resource)),
        purpose=randomness.choice(list(Purpose)),
        cause=randomness.choice(["", "start"]),
        microseconds=randomness.randrange(10**10),
        gpus=randomness.choice([0.0, 0.125, 1.0, 8.0]),
        nano_usd=randomness.choice([None, randomness.randrange(10**12)]),
        on_demand_nano_usd=randomness.choice([None, randomness.randrange(10**12)]),
        gpu_measured=randomness.randrange(10**9),
        gpu_busy=randomness.randrange(10**9),
    )


async def is_the_sum_of(
    store: Store,
    rows: list[CostRow],
    randomness: random.Random,
    without: tuple[str, ...] = (),
    without_overhead: tuple[OverheadKey, ...] = (),
) -> None:
    for by in BY:
        assert dimension_of(by, None) is not None
        since = FIRST + randomness.randrange(-5, DAYS) * DAY
        until = since + randomness.choice([0, 1, 3, 17, 70, 365]) * DAY
        left_out = without, without_overhead
        found = await store.ledger.costs(since, until, by, None, *left_out)
        assert tuple(found) == sum_rows([r for r in rows if since <= r.day <= until], by)


async def test_totals_follow_the_lines(store: Store, url: str) -> None:
    """Written, written again with others, and refunded."""
    randomness = random.Random(7)
    leases: dict[str, list[CostRow]] = {}
    overhead: dict[str, list[CostRow]] = {}
    for number in range(40):
        name = f"lease-{randomness.randrange(12)}"
        leases[name] = drawn(randomness, randomness.randrange(6))
        ended = lease(name, state=LeaseState.ENDED, ended_at=NOW)
        # A lease that has ended never loses all of its lines.
        leases[name] = leases[name] or drawn(randomness, 1)
        await store.save_lease(ended, leases[name])
        key = f"boot lease-{randomness.randrange(5)}"
        overhead[key] = drawn(randomness, randomness.randrange(3))
        await store.ledger.save_overhead([SEGMENT], key, overhead[key])
        if number % 13 == 12:
            await store.ledger.refund_overhead("i-1", "boot", "free")
            overhead = {
                key: [
                    replace(row, nano_usd=0) if row.resource is Resource.INSTANCE else row
                    for row in rows
                ]
                for key, rows in overhead.items()
            }
        rows = [row for some in (*leases.values(), *overhead.values()) for row in some]
        await is_the_sum_of(store, rows, randomness)
    rest = [row for name, some in leases.items() if name != "lease-3" for row in some]
    rest += [row for some in overhead.values() for row in some]
    await is_the_sum_of(store, rest, randomness, without=("lease-3", "unknown"))
    rest = [row for name, some in leases.items() if name != "lease-3" for row in some]
    rest += [row for key, some in overhead.items() if key != "boot lease-2" for row in some]
    assert overhead["boot lease-2"]
    left_out = ("i-1", "boot lease-2"), ("i-2", "boot lease-1"), ("i-1", "unknown")
    await is_the_sum_of(store, rest, randomness, ("lease-3",), left_out)
    kept = _totals(url)
    assert kept
    with other_program(url) as database, database.begin():
        cost_totals.rebuild(database)
    assert _totals(url) == kept


async def test_lines_of_homes_are_not_left_out_with_overhead(store: Store, url: str) -> None:
    """They have neither a lease nor a key."""
    boot = replace(HOME_ROW, resource=Resource.INSTANCE, payer="hub")
    await store.ledger.save_overhead([SEGMENT], "boot", [boot])
    with other_program(url) as database, database.begin():
        database.execute(insert(cost_table), [row_values(HOME_ROW)])
    days, by = (HOME_ROW.day, HOME_ROW.day), (Dimension.SERVER, Dimension.PAYER)
    found = await store.ledger.costs(*days, by, without_overhead=[("i-1", "boot")])
    assert found == sum_rows([HOME_ROW], by)


def _totals(url: str) -> dict[tuple[object, ...], tuple[object, ...]]:
    """Those that have lines."""
    rows = dict(dump(url))["cost_total"]
    return {tuple(row[:5]): tuple(row[5:]) for row in rows if row[5]}


async def test_the_totals_of_an_older_schema_are_made_from_its_lines(
    store: Store, url: str
) -> None:
    randomness = random.Random(3)
    rows = drawn(randomness, 100)
    await store.save_lease(lease(state=LeaseState.ENDED, ended_at=NOW), rows)
    with other_program(url) as database, database.begin():
        database.execute(text("DELETE FROM cost_total"))
        complete_ledger(database, 6)
    await is_the_sum_of(store, rows, randomness)


@pytest.mark.parametrize("only", [None, {Dimension.USER: ["ada"]}])
async def test_a_total_by_nothing_is_read_by_any_sqlite(
    store: Store, only: dict[Dimension, list[str]] | None
) -> None:
    """SQLite before 3.39 refuses HAVING without GROUP BY."""
    statements: list[str] = []

    def heard(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", heard)
    try:
        assert await store.ledger.costs(*EVER, (), only) == (), "nothing, not a sum of nothing"
        rows = drawn(random.Random(5), 20)
        await store.save_lease(lease(state=LeaseState.ENDED, ended_at=NOW), rows)
        assert await store.ledger.costs(*EVER, (), only) == sum_rows(rows, (), only)
    finally:
        event.remove(Engine, "before_cursor_execute", heard)
    assert [each for each in statements if "HAVING" in each and "GROUP BY" not in each] == []


@pytest.mark.parametrize(
    ("by", "only"),
    [
        ((Dimension.USER, Dimension.DAY), None),
        ((Dimension.USER, Dimension.PROFILE), None),
        ((Dimension.SERVER,), None),
        ((Dimension.PURPOSE,), {Dimension.USER: ["ada"]}),
    ],
)
def test_what_no_totals_answer(by: tuple[Dimension, ...], only: dict[Dimension, list[str]]) -> None:
    assert dimension_of(by, only) is None


@pytest.mark.parametrize("lengths", [cost_totals.DAILY, cost_totals.LONGER])
@pytest.mark.parametrize("days", [1, 2, 7, 8, 9, 31, 33, 129, 365, 400])
def test_periods_are_the_days_of_the_range(days: int, lengths: tuple[int, ...]) -> None:
    for offset in range(max(lengths)):
        first = (FIRST + offset * DAY).toordinal()
        counted: Counter[int] = Counter()
        for run in _runs(first, days, lengths):
            assert run.begin % run.length == run.end % run.length == 0
            counted.update(dict.fromkeys(range(run.begin, run.end), run.sign))
        assert {day: n for day, n in counted.items() if n} == dict.fromkeys(
            range(first, first + days), 1
        )


def test_a_year_is_few_periods() -> None:
    for offset in range(64):
        read = Counter[bool]()
        for run in _runs((FIRST + offset * DAY).toordinal(), 365, cost_totals.LONGER):
            read[run.length == 1] += (run.end - run.begin) // run.length
        assert read[True] <= 3
        assert read[False] <= 11


def _runs(first: int, days: int, lengths: tuple[int, ...]) -> Iterator[cost_totals._Run]:
    begin = date.fromordinal(first)
    return cost_totals._runs(begin, begin + (days - 1) * DAY, lengths)
