"""Sums of what leases have cost, kept as they change: the same as counting all of them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.amount import Amount, add_to_day, assumed_by_day
from ec2spawner.core.ledger.cost import durations, known_nano_usd
from ec2spawner.core.ledger.segments import Segment, close, reprice, until
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.costs import scopes_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.state.spending.lease_tally import LeaseTally
from ec2spawner.wire import IdlePolicy, Market
from tests.unit.provisioner.world import SPEC

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN = datetime(2026, 10, 24, 21, 30, tzinfo=UTC)
"""Shortly before a day of 25 hours begins in Berlin."""
BEGUN_AFTER = timedelta(minutes=50)
"""Leases of before have cost something that another process has counted."""


def lease(number: int, payer: str) -> Lease:
    return Lease(
        lease_id=f"lease-{number}",
        user=f"user-{number % 2}",
        server="",
        profile="t4",
        profile_name="T4",
        spec=SPEC,
        launch_key=launch_key_of(SPEC),
        home_kind="none",
        home_gib=20,
        idle=IdlePolicy(),
        state=LeaseState.READY,
        requested_at=BEGIN,
        sealed_start="sealed",
        payer=payer,
    )


def counted_again(leases: Mapping[str, Lease], scope: str, now: datetime) -> Mapping[date, Amount]:
    days: dict[date, Amount] = {}
    for each in leases.values():
        if scope in scopes_of(each):
            for day, amount in assumed_by_day(each.segments, now, BERLIN).items():
                add_to_day(days, day, amount)
    return days


def known_since_begin(each: Lease, now: datetime) -> int:
    begun_at = BEGIN + BEGUN_AFTER
    before, _ = known_nano_usd(until(each.segments, begun_at), begun_at)
    return max(known_nano_usd(each.segments, now)[0] - before, 0)


def repriced(known: Lease, now: datetime, price: float) -> tuple[Segment, ...]:
    return reprice(known.segments, now, replace(known.segments[-1], usd_per_hour=price))


steps = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["begin", "reprice", "heartbeat", "end", "forget", "read"]),
    st.sampled_from([0, 1, 40, 1800, 7200, 90_000]),
    st.sampled_from([None, 0.2, 1.23456]),
)


@given(
    st.lists(steps, max_size=40), st.sampled_from([None, 0.5]), st.sampled_from([0.0, 8.0, None])
)
def test_a_tally_is_what_counting_all_leases_again_gives(
    done: list[tuple[int, str, int, float | None]], listed: float | None, disk: float | None
) -> None:
    now, tally, leases = BEGIN, LeaseTally(BERLIN, BEGIN + BEGUN_AFTER), dict[str, Lease]()
    for number, what, seconds, price in done:
        now += timedelta(seconds=seconds, microseconds=7)
        name = f"lease-{number}"
        known = leases.get(name)
        if what == "begin" and known is None:
            segment = Segment(
                f"i-{number}",
                Market.SPOT,
                price,
                now,
                gpus=0.5,
                on_demand_usd_per_hour=listed,
                disk_usd_per_month=disk,
            )
            payer = "group:lab" if number > 1 else ""
            leases[name] = replace(lease(number, payer), segments=(segment,))
        elif what == "reprice" and known is not None:
            leases[name] = replace(known, segments=repriced(known, now, price or 0.3))
        elif what == "heartbeat" and known is not None:
            leases[name] = replace(known, gpu_use=())
        elif what == "end" and known is not None:
            leases[name] = replace(known, segments=close(known.segments, now))
        elif what == "forget" and known is not None:
            tally.forget(leases.pop(name))
        for scope in ("user:user-0", "group:lab", "hub"):
            mine = [each for each in leases.values() if scope in scopes_of(each)]
            found, expected = tally.by_day(scope, mine, now), counted_again(leases, scope, now)
            assert found.keys() == {day for day, x in expected.items() if x != Amount()}
            for day, amount in found.items():
                # Each lease's growth since it was counted is rounded down by itself.
                assert 0 <= expected[day].nano_usd - amount.nano_usd <= len(mine)
                assert amount.gpu_microseconds == expected[day].gpu_microseconds
                assert amount.is_known == expected[day].is_known
                assert bool(amount.uncounted) == bool(expected[day].uncounted)
        since_begin = sum(known_since_begin(each, now) for each in leases.values())
        assert 0 <= since_begin - tally.known_nano_usd(leases.values(), now) <= len(leases)
        for each in leases.values():
            lasted = sum(microseconds for _, microseconds in durations(each.segments, now))
            assert tally.lasted_seconds(each, now) == lasted / 1e6
