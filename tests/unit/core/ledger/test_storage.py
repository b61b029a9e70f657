"""Homes and snapshots are counted as an account of each quarter of an hour says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost_rows import Purpose, Resource
from ec2spawner.core.ledger.local_days import local_day, midnight
from ec2spawner.core.ledger.storage.costs import Booked, grown, storage_nano_usd, storage_rows
from ec2spawner.core.ledger.storage.held import (
    MIB,
    Owner,
    StorageKey,
    Stored,
    begins_counting,
    held_between,
)

ADA, BOB = Owner("ada", "", "user:ada"), Owner("bob", "lab", "group:research")
ZONES = [
    ZoneInfo(name)
    for name in ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Africa/Cairo")
]
CLOCKS = [datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)]
"""Some days later, clocks are set forward, or back."""

QUARTER = timedelta(minutes=15)
QUARTERS = 6 * 96
"""Six days."""

DAY = date(2026, 11, 23)
KEY = StorageKey(DAY, ADA, Resource.HOME, "gp3", "us-east-1a")

quarters = st.integers(0, QUARTERS)


@st.composite
def histories(draw: st.DrawFn) -> tuple[datetime, list[Stored]]:
    """What existed in these days: volumes that are made, grow and are deleted, and snapshots."""
    begin = draw(st.sampled_from(CLOCKS))
    found: list[Stored] = []
    for number in range(draw(st.integers(0, 6))):
        start, end = sorted((draw(quarters), draw(quarters)))
        is_volume = draw(st.booleans())
        thing = Stored(
            resource_id=f"{number}",
            home_id=draw(st.sampled_from(["home-1", "home-2"])),
            resource=Resource.HOME if is_volume else Resource.SNAPSHOT,
            mib=draw(st.integers(0, 16 * MIB * MIB)),
            created_at=begin + start * QUARTER,
            owner=ADA,
            volume_type="gp3" if is_volume else "",
            zone=draw(st.sampled_from(["us-east-1a", "us-east-1b"])) if is_volume else "",
            ended_at=draw(st.sampled_from([None, begin + end * QUARTER])),
        )
        thing = replace(thing, owner=ADA if thing.home_id == "home-1" else BOB)
        if is_volume and draw(st.booleans()):  # it grows: another size from then on
            grows = begin + draw(st.integers(start, QUARTERS)) * QUARTER
            grows = min(grows, thing.ended_at or grows)
            found.append(replace(thing, ended_at=grows))
            thing = replace(thing, created_at=grows, mib=2 * thing.mib)
        found.append(thing)
    return begin, found


def oracle(
    things: Sequence[Stored], begin: datetime, since: int, until: int, place: ZoneInfo
) -> Counter[StorageKey]:
    """Each quarter of an hour: all volumes, and of each home the largest snapshot."""
    held: Counter[StorageKey] = Counter()
    for quarter in range(since, until):
        at = begin + quarter * QUARTER
        there = [
            x for x in things if x.created_at <= at and (x.ended_at is None or at < x.ended_at)
        ]
        volumes = [each for each in there if each.resource is Resource.HOME]
        copies: dict[str, Stored] = {}
        for each in there:
            if each.resource is Resource.SNAPSHOT:
                copies[each.home_id] = max(
                    each, copies.get(each.home_id, each), key=lambda x: x.mib
                )
        for each in (*volumes, *copies.values()):
            day = at.astimezone(place).date()
            key = StorageKey(day, each.owner, each.resource, each.volume_type, each.zone)
            held[key] += each.mib * 900
    return held


@settings(max_examples=150, deadline=None)
@given(histories(), st.lists(quarters, max_size=6), st.sampled_from(ZONES))
def test_any_cut_of_the_time_adds_up_to_the_oracle(
    history: tuple[datetime, list[Stored]], cuts: list[int], place: ZoneInfo
) -> None:
    begin, things = history
    held: Counter[StorageKey] = Counter()
    edges = sorted({0, QUARTERS, *cuts})
    for since, until in pairwise(edges):
        held.update(held_between(things, begin + since * QUARTER, begin + until * QUARTER, place))
    assert +held == +oracle(things, begin, 0, QUARTERS, place)


prices = st.integers(0, 10**4).map(lambda units: units / 10**4)


@given(st.lists(st.integers(0, 10**12), max_size=20), prices)
def test_a_line_costs_the_same_in_one_part_and_in_many(parts: list[int], price: float) -> None:
    booked, seen = Booked(), [0]
    for part in parts:
        booked = grown(booked, part, price, DAY)
        seen.append(booked.nano_usd)
    assert seen == sorted(seen), "it never falls"
    assert booked == Booked(sum(parts), storage_nano_usd(sum(parts), price, DAY) or 0)


@given(st.lists(st.tuples(st.integers(0, 10**12), prices | st.none()), max_size=20))
def test_a_known_cost_stays_known(parts: list[tuple[int, float | None]]) -> None:
    """An unknown price makes unknown what is added, and nothing that was counted before."""
    booked = Booked()
    for part, price in parts:
        before, booked = booked, grown(booked, part, price, DAY)
        assert booked.nano_usd >= before.nano_usd
        assert booked.priced >= before.priced
        assert booked.unpriced == (before.unpriced + part if price is None else 0)
    assert booked.priced + booked.unpriced == sum(part for part, _ in parts)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.booleans()), max_size=20), prices)
def test_a_price_that_returns_on_the_same_day_prices_all_of_it(
    parts: list[tuple[int, bool]], price: float
) -> None:
    booked = Booked()
    for part, is_known in (*parts, (1, True)):
        booked = grown(booked, part, price if is_known else None, DAY)
    held = sum(part for part, _ in parts) + 1
    assert booked == Booked(held, storage_nano_usd(held, price, DAY) or 0)


@pytest.mark.parametrize("month", [2, 3, 10, 11])
@pytest.mark.parametrize("place", ZONES)
def test_a_forgotten_home_costs_its_price_each_month(month: int, place: ZoneInfo) -> None:
    """200 GiB at 0.08 USD are 16 USD, whether the month has 28 or 31 days; within what an hour
    costs that daylight saving adds to or takes from the local month."""
    home = Stored("vol-1", "home-1", Resource.HOME, 200 * MIB, CLOCKS[0] - QUARTER * 10**5, ADA)
    first, following = date(2026, month, 1), date(2026, month + 1, 1)
    held = held_between([home], midnight(first, place), midnight(following, place), place)
    costs = [storage_nano_usd(mib_seconds, 0.08, key.day) or 0 for key, mib_seconds in held.items()]
    assert len(costs) == (following - first).days
    assert sum(costs) == pytest.approx(16 * 10**9, abs=16 * 10**9 / 700)
    if place.key == "UTC":
        assert 16 * 10**9 - len(costs) <= sum(costs) <= 16 * 10**9


def test_parts_of_a_second_are_not_lost_at_the_cuts() -> None:
    begin = datetime(2026, 11, 23, 10, 0, 0, 700_000, tzinfo=UTC)
    home = Stored("vol-1", "home-1", Resource.HOME, MIB, begin, ADA)
    cuts = [begin + timedelta(seconds=0.6 * number) for number in range(11)]
    held = [sum(held_between([home], *cut, ZONES[0]).values()) for cut in pairwise(cuts)]
    assert sum(held) == sum(held_between([home], cuts[0], cuts[-1], ZONES[0]).values()) == 6 * MIB


def test_an_unknown_price_is_not_zero() -> None:
    assert storage_nano_usd(10**9, None, date(2026, 11, 1)) is None
    [row] = storage_rows(KEY, grown(Booked(), 10**9, None, DAY))
    assert (row.mib_seconds, row.nano_usd, row.on_demand_nano_usd) == (10**9, None, None)


def test_what_is_unpriced_has_a_line_of_its_own() -> None:
    rows = storage_rows(KEY, Booked(7, 5, 3))
    assert [(row.mib_seconds, row.nano_usd) for row in rows] == [(7, 5), (3, None)]


def test_a_home_is_used_not_idle() -> None:
    [row] = storage_rows(KEY, Booked(1, 1))
    assert (row.purpose, row.cause, row.user, row.payer) == (Purpose.USED, "", "ada", "user:ada")


@pytest.mark.parametrize("place", ZONES)
def test_counting_begins_with_the_month(place: ZoneInfo) -> None:
    now = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    began = begins_counting(now, place)
    assert began <= now
    assert local_day(began, place) == local_day(now, place).replace(day=1)
