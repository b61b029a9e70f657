"""Totals of the ledger by one dimension, kept beside its lines: a year is read in milliseconds.

Each change of lines changes the totals that they are in, in the same transaction, by what is added
less what is removed. Lines that are written again change nothing.

Dimensions with few values have a total for each day. Users and payers have so many values that the
totals of all days would be as long as the ledger itself: theirs are of longer periods. At both ends
of a range, shorter ones are added or taken away again, whichever are fewer; single days are summed
from the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Date,
    Float,
    Insert,
    Integer,
    Select,
    String,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    union_all,
)
from sqlalchemy.dialects import postgresql, sqlite

from ....core.ledger.cost_rows import CostSum, Dimension, Filter, Resource
from ..tables import cost_table, cost_total_table

EVERYTHING: Final = ""
"""Instead of a dimension: the total of all lines."""

DAILY: Final = (1,)

LONGER: Final = (4, 16, 64)
"""Of any 365 days, at most three are summed from the lines, with at most 11 of these periods."""

PERIODS: Final[Mapping[str, Sequence[int]]] = {
    EVERYTHING: DAILY,
    **dict.fromkeys(("profile", "instance_type", "zone", "market", "resource", "cause"), DAILY),
    **dict.fromkeys(("user", "payer"), LONGER),
}
"""Dimension -> lengths of its periods in days. A period begins on a day whose ordinal is a multiple
of its length. Each total is of one purpose, too."""

COLUMNS: Final[Mapping[str, Column[Any]]] = {
    "day": cost_table.c.day,
    "user": cost_table.c.user_name,
    "server": cost_table.c.server_name,
    **{
        name.value: cost_table.c[name.value]
        for name in Dimension
        if name not in {Dimension.DAY, Dimension.USER, Dimension.SERVER}
    },
}
"""Dimension -> its column of the ledger."""

_KEY: Final = tuple(column.name for column in cost_total_table.primary_key)
_SUMS: Final = tuple(c.name for c in cost_total_table.c if c.name not in _KEY)

Line = Mapping[str, Any]
"""The columns of a line of the ledger."""


def dimension_of(by: Collection[Dimension], only: Filter | None) -> str | None:
    """Of which dimension the totals answer sums by these dimensions; None where none do."""
    wanted = set(by) - {Dimension.DAY, Dimension.PURPOSE}
    if only or len(wanted) > 1:
        return None
    found = wanted.pop().value if wanted else EVERYTHING
    if found not in PERIODS or (Dimension.DAY in by and PERIODS[found] != DAILY):
        return None
    return found


# --- reading ---


def sums_of_lines(
    connection: Connection, where: ColumnElement[bool], by: Sequence[Dimension]
) -> tuple[CostSum, ...]:
    """The sums of some lines, without totals."""
    return read_sums(connection, query_of_lines(where, by), by)


def query_of_lines(where: ColumnElement[bool], by: Sequence[Dimension]) -> Select[Any]:
    """The query of `sums_of_lines`, for `read_sums`: building it takes longer than executing it."""
    return _query([_lines(where, by)], by)


def read_sums(
    connection: Connection,
    query: Select[Any],
    by: Sequence[Dimension],
    values: Mapping[str, Any] | None = None,
) -> tuple[CostSum, ...]:
    """Execute a query of sums by these dimensions, with the values of its parameters."""
    size = len(by)
    rows = connection.execute(query, values).all()  # row by row takes three times as long
    # A sum of no lines is none. SQLite before 3.39 would refuse HAVING without GROUP BY.
    summed = (row for row in rows if row[size])
    return tuple(sorted(CostSum(tuple(map(str, row[:size])), *row[size + 1 :]) for row in summed))


def sums_of_totals(
    connection: Connection,
    days: tuple[date, date],
    by: Sequence[Dimension],
    dimension: str,
    without: Iterable[ColumnElement[bool]],
) -> tuple[CostSum, ...]:
    """The same of all lines of these days, both included, `without` some, each of which has an
    index; `dimension` is `dimension_of(by)`."""
    column = cost_table.c
    parts = []
    for run in _runs(*days, PERIODS[dimension]):
        if run.length in PERIODS[dimension]:
            parts.append(_totals(dimension, run, by))
        else:
            parts.append(_lines(column.day.between(run.first_day, run.last_day), by, run.sign))
    parts += [_lines(and_(column.day.between(*days), some), by, sign=-1) for some in without]
    return read_sums(connection, _query(parts, by), by) if parts else ()


class _Run(NamedTuple):
    """Periods of one length that follow each other."""

    length: int
    begin: int
    """Ordinal of the first day."""
    end: int
    """Ordinal of the day after the last."""
    sign: int
    """1 where they are added, -1 where they are taken away from longer ones."""

    @property
    def first_day(self) -> date:
        """Of the first period."""
        return _day(self.begin)

    @property
    def last_day(self) -> date:
        """On which the last period begins."""
        return _day(self.end - self.length)


def _day(ordinal: int) -> date:
    return date.fromordinal(min(max(ordinal, date.min.toordinal()), date.max.toordinal()))


def _runs(since: date, until: date, lengths: Sequence[int]) -> Iterator[_Run]:
    """The days as few periods of these lengths and single days."""
    begin, end = since.toordinal(), until.toordinal() + 1
    ascending = sorted({1, *lengths})
    for length, longer in pairwise(ascending):
        if end - begin <= 2 * longer:
            yield from _run(length, begin, end)
            return
        # Each end moves to the nearer beginning of a longer period, into the range or out of it.
        at = (begin + longer // 2) // longer * longer
        yield from _run(length, begin, at)
        begin = at
        at = (end + longer // 2 - 1) // longer * longer
        yield from _run(length, at, end)
        end = at
    yield from _run(ascending[-1], begin, end)


def _run(length: int, begin: int, end: int) -> Iterator[_Run]:
    """From `begin` to `end`; taken away where the end is before the beginning."""
    if begin < end:
        yield _Run(length, begin, end, 1)
    elif end < begin:
        yield _Run(length, end, begin, -1)


def _totals(dimension: str, run: _Run, by: Sequence[Dimension]) -> Select[Any]:
    column = cost_total_table.c
    named = {Dimension.DAY: column.first_day, Dimension.PURPOSE: column.purpose}
    keys = [named.get(name, column.value).label(name.value) for name in by]
    return select(*keys, *_signed({name: column[name] for name in _SUMS}, run.sign)).where(
        column.dimension == dimension,
        column.days == run.length,
        column.first_day.between(run.first_day, run.last_day),
    )


def _lines(where: ColumnElement[bool], by: Sequence[Dimension], sign: int = 1) -> Select[Any]:
    keys = [COLUMNS[name].label(name.value) for name in by]
    return select(*keys, *_signed(_values_in_sql(), sign)).where(where)


def _signed(values: Mapping[str, ColumnElement[Any]], sign: int) -> Iterator[ColumnElement[Any]]:
    for name in _SUMS:
        yield (values[name] if sign > 0 else -values[name]).label(f"sum_{name}")


@cache
def _values_in_sql() -> Mapping[str, ColumnElement[Any]]:
    """What a line adds to its totals; `_values` is the same in Python."""
    column = cost_table.c
    is_comparable = and_(column.nano_usd.is_not(None), column.on_demand_nano_usd.is_not(None))
    neither = and_(column.nano_usd.is_(None), column.on_demand_nano_usd.is_(None))
    listed = func.coalesce(column.on_demand_nano_usd, 0)
    lasted = case((column.resource == Resource.INSTANCE.value, column.microseconds), else_=0)
    return {
        "lines": literal(1, Integer()),
        "nano_usd": func.coalesce(column.nano_usd, 0),
        "on_demand_nano_usd": case((is_comparable, column.on_demand_nano_usd), else_=0),
        "comparable_nano_usd": case((is_comparable, column.nano_usd), else_=0),
        "unknown": case((column.nano_usd.is_(None), 1), else_=0),
        "microseconds": lasted,
        "gpu_microseconds": cast(lasted, Float) * column.gpus,
        "assumed_nano_usd": case((column.nano_usd.is_(None), listed), else_=0),
        "uncounted": case((neither, 1), else_=0),
        "mib_seconds": column.mib_seconds,
        "gpu_measured": column.gpu_measured,
        "gpu_busy": column.gpu_busy,
    }


def _query(parts: Sequence[Select[Any]], by: Sequence[Dimension]) -> Select[Any]:
    """Sum the parts, of which there is at least one."""
    found = (parts[0] if len(parts) == 1 else union_all(*parts)).subquery().c
    keys = [found[name.value] for name in by]
    # Of PostgreSQL's BIGINT the sum is NUMERIC: each would be a Decimal, made from a text.
    sums = (
        cast(func.sum(found[f"sum_{name}"]), cost_total_table.c[name].type)
        for name in ("lines", *CostSum._fields[1:])
    )
    return select(*keys, *sums).group_by(*keys)


# --- writing ---


def change(connection: Connection, removed: Iterable[Line], added: Iterable[Line]) -> None:
    """Bring the totals up to date after these lines have been removed from the ledger and added to
    it."""
    changes: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0] * len(_SUMS))
    for sign, lines in ((-1, removed), (1, added)):
        for line in lines:
            values = _values(line)
            for key in _keys(line):
                total = changes[key]
                for place, value in enumerate(values):
                    total[place] += sign * value
    names = (*_KEY, *_SUMS)
    rows = [dict(zip(names, (*key, *x), strict=True)) for key, x in changes.items() if any(x)]
    if rows:
        connection.execute(_add(connection.dialect.name), rows)


def _keys(line: Line) -> Iterator[tuple[Any, ...]]:
    """Of the totals that a line is in."""
    ordinal = line["day"].toordinal()
    for dimension, lengths in PERIODS.items():
        value = "" if dimension == EVERYTHING else line[COLUMNS[dimension].name]
        for length in lengths:
            first_day = date.fromordinal(ordinal - ordinal % length)
            yield dimension, length, first_day, value, line["purpose"]


def _values(line: Line) -> tuple[Any, ...]:
    """What a line adds to its totals, in the order of their columns."""
    spent, full = line["nano_usd"], line["on_demand_nano_usd"]
    is_comparable = spent is not None and full is not None
    lasted = line["microseconds"] if line["resource"] == Resource.INSTANCE.value else 0
    return (
        1,
        spent or 0,
        full if is_comparable else 0,
        spent if is_comparable else 0,
        int(spent is None),
        lasted,
        lasted * line["gpus"],
        (full or 0) if spent is None else 0,
        int(spent is None and full is None),
        line["mib_seconds"],
        line["gpu_measured"],
        line["gpu_busy"],
    )


@cache
def _add(dialect: str) -> Insert:
    """Adds to a total, or begins it. Cached: building it takes longer than executing it."""
    insert_into = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement: postgresql.Insert | sqlite.Insert = insert_into(cost_total_table)
    added = {name: cost_total_table.c[name] + statement.excluded[name] for name in _SUMS}
    return statement.on_conflict_do_update(index_elements=list(_KEY), set_=added)


def rebuild(connection: Connection) -> None:
    """Make all totals from the lines: once, for a ledger that is older than its totals.

    Blocks for half a minute for 100,000 leases: not for the event loop.
    """
    connection.execute(delete(cost_total_table))
    first, last = connection.execute(
        select(func.min(cost_table.c.day), func.max(cost_table.c.day))
    ).one()
    if first is None:
        return
    for dimension, lengths in PERIODS.items():
        for length in lengths:
            begin = first.toordinal() - first.toordinal() % length
            for ordinal in range(begin, last.toordinal() + 1, length):
                _rebuild_period(connection, dimension, length, ordinal)


def _rebuild_period(connection: Connection, dimension: str, length: int, ordinal: int) -> None:
    first_day, last_day = date.fromordinal(ordinal), date.fromordinal(ordinal + length - 1)
    column = cost_table.c
    value = literal("", String()) if dimension == EVERYTHING else COLUMNS[dimension]
    values = _values_in_sql()
    query = (
        select(
            literal(dimension, String()),
            literal(length, Integer()),
            literal(first_day, Date()),
            value,
            column.purpose,
            *(func.sum(values[name]) for name in _SUMS),
        )
        .where(column.day.between(first_day, last_day))
        .group_by(value, column.purpose)
    )
    connection.execute(insert(cost_total_table).from_select([*_KEY, *_SUMS], query))
