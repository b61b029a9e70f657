"""A store with the past of a large hub: ended leases with their costs, written in bulk."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert

from ec2spawner.core.ledger.cost_rows import CostRow
from ec2spawner.core.ledger.idle_spans import IdleSpan
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.provisioner.model.leases.costs import costs_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.store import rows, tables
from ec2spawner.provisioner.store.ledger import cost_totals
from ec2spawner.provisioner.store.ledger.cost_queries import row_values
from ec2spawner.provisioner.store.ledger.idle_queries import idle_session_row
from ec2spawner.wire import Market, Stop
from tests.stored import NOW, lease, other_program

HOUR = timedelta(hours=1)
TYPES = (("g4dn.xlarge", 1.0, 0.526), ("p4d.24xlarge", 8.0, 21.96), ("m7i.xlarge", 0.0, 0.2016))
BATCH = 5000


def seed(url: str, leases: int, *, users: int, days: int, now: datetime = NOW) -> None:
    """`leases` that ended within `days` before `now`, of `users`, always the same ones."""
    randomness = random.Random(13)
    with other_program(url) as database, database.begin():
        for first in range(0, leases, BATCH):
            numbers = range(first, min(first + BATCH, leases))
            made = [_lease(number, users, days, now, randomness) for number in numbers]
            database.execute(insert(tables.lease_table), [rows.lease_row(each) for each in made])
            database.execute(insert(tables.segment_table), list(_segments(made)))
            costs = [_costs(each) for each in made]
            lines = [
                _line(row, each) for each, of_it in zip(made, costs, strict=True) for row in of_it
            ]
            database.execute(insert(tables.cost_table), lines)
            idle = map(idle_session_row, made, costs)
            database.execute(insert(tables.idle_session_table), [row for row in idle if row])
        cost_totals.rebuild(database)


def _lease(number: int, users: int, days: int, now: datetime, randomness: random.Random) -> Lease:
    ended = now - timedelta(days=randomness.uniform(0, days))
    began = ended - HOUR * randomness.uniform(0.2, 9)
    kind, gpus, on_demand = TYPES[number % len(TYPES)]
    market = Market.SPOT if number % 4 else Market.ON_DEMAND
    price = on_demand * (0.3 if market is Market.SPOT else 1.0)
    segment = Segment(
        instance_id=f"i-{number:017x}",
        market=market,
        usd_per_hour=price,
        start=began,
        end=ended,
        instance_type=kind,
        zone=f"us-east-1{'abc'[number % 3]}",
        gpus=gpus,
        on_demand_usd_per_hour=on_demand,
        disk_usd_per_month=7.2,
        address_usd_per_hour=0.005,
    )
    is_idle = number % 3 == 0
    return lease(
        f"lease-{number}",
        user=f"user{number % users:04}",
        profile=kind.partition(".")[0],
        state=LeaseState.ENDED,
        requested_at=began,
        ready_at=began + timedelta(minutes=1),
        ended_at=ended,
        stop=Stop(reason="idle" if is_idle else "user", message="It stopped"),
        segments=(segment,),
        payer="group:research" if number % 5 == 0 else "",
        idle_spans=(IdleSpan(ended - timedelta(minutes=9)),) if is_idle else (),
    )


def _segments(leases: list[Lease]) -> Iterator[dict[str, Any]]:
    for each in leases:
        for segment in each.segments:
            yield dict(rows.segment_row(segment, each.lease_id))


def _costs(ended: Lease) -> Sequence[CostRow]:
    assert ended.ended_at is not None
    return costs_of(ended, ended.ended_at, UTC)


def _line(row: CostRow, ended: Lease) -> dict[str, Any]:
    return {**row_values(row), "lease_id": ended.lease_id}
