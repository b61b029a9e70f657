"""A small ledger: spot and on-demand, use, idleness and overhead, and a price that is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

from ec2spawner.core.ledger.cost_rows import (
    Cause,
    CostRow,
    CostSum,
    Dimension,
    Purpose,
    Resource,
    sum_rows,
)
from ec2spawner.report.contents import Report, Scope, needed, report_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 3, 9, 30, tzinfo=BERLIN)
HOUR = 3_600_000_000
USD = 1_000_000_000

ADA = CostRow(
    day=date(2026, 11, 1),
    user="ada",
    server="",
    payer="group:research",
    profile="a10g",
    instance_type="g5.xlarge",
    zone="us-east-1a",
    market="spot",
    resource=Resource.INSTANCE,
    purpose=Purpose.USED,
    cause="",
    microseconds=2 * HOUR,
    gpus=1,
    nano_usd=USD,
    on_demand_nano_usd=2 * USD,
)
START = replace(
    ADA,
    purpose=Purpose.OVERHEAD,
    cause=Cause.START.value,
    microseconds=HOUR // 10,
    nano_usd=USD // 20,
)
IDLE = replace(ADA, day=date(2026, 11, 2), purpose=Purpose.IDLE, nano_usd=USD // 2)
BOB = replace(
    ADA,
    user="bob",
    payer="user:bob",
    market="on-demand",
    nano_usd=3 * USD,
    on_demand_nano_usd=3 * USD,
)
POOL = replace(
    START, user="", payer="hub", profile="", cause=Cause.UNASSIGNED.value, nano_usd=USD // 4
)
UNKNOWN = replace(ADA, user="eve", payer="user:eve", nano_usd=None, on_demand_nano_usd=None)
ROWS = (ADA, START, IDLE, BOB, POOL, UNKNOWN)


def sums(rows: Sequence[CostRow], by: Sequence[Dimension]) -> tuple[CostSum, ...]:
    return sum_rows(rows, by)


def report(*by: str, rows: Sequence[CostRow] = ROWS, user: str = "", **changes: object) -> Report:
    scope = Scope("demo", date(2026, 11, 1), date(2026, 11, 3), "Europe/Berlin", by, user)
    made = report_of(scope, sums(rows, needed(by)), NOW)
    return replace(made, **changes)  # type: ignore[arg-type]
