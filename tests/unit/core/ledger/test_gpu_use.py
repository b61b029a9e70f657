"""The use of GPUs by day, and the lines of the ledger that carry it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost_rows import CostRow, Dimension, Purpose, Resource, sum_rows
from ec2spawner.core.ledger.gpu_use import GpuUse, add_use, gpu_percent, with_gpu_use
from ec2spawner.wire import GpuSample, Telemetry

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = NOW.date()
TOMORROW = DAY + timedelta(days=1)

samples = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0, 100), st.integers(0, 10**9)), max_size=30
)


def row(day: date, purpose: Purpose, resource: Resource = Resource.INSTANCE) -> CostRow:
    return CostRow(
        day=day,
        user="ada",
        server="",
        payer="user:ada",
        profile="t4",
        instance_type="g4dn.xlarge",
        zone="us-east-1a",
        market="spot",
        resource=resource,
        purpose=purpose,
        cause="",
        microseconds=10,
        gpus=1.0,
        nano_usd=1,
        on_demand_nano_usd=2,
    )


@given(samples)
def test_samples_add_up(drawn: list[tuple[int, float, int]]) -> None:
    uses: tuple[GpuUse, ...] = ()
    drawn.sort(key=lambda sample: sample[0])
    for day, percent, lasted in drawn:
        uses = add_use(uses, DAY + timedelta(days=day), percent, lasted)
    days = [use.day for use in uses]
    assert days == sorted(set(days))
    assert sum(use.measured for use in uses) == sum(lasted for *_, lasted in drawn)
    exact = sum(percent / 100 * lasted for _, percent, lasted in drawn)
    assert sum(use.busy for use in uses) == pytest.approx(exact, abs=len(drawn))
    assert all(0 <= use.busy <= use.measured for use in uses)


def test_lines_of_each_day_carry_its_use_once() -> None:
    rows = [
        row(DAY, Purpose.OVERHEAD),
        row(DAY, Purpose.USED, Resource.DISK),
        row(DAY, Purpose.IDLE),
        row(DAY, Purpose.USED),
        row(TOMORROW, Purpose.IDLE),
    ]
    uses = [GpuUse(DAY, 100, 60), GpuUse(TOMORROW, 50, 0), GpuUse(TOMORROW + timedelta(9), 7, 7)]
    found = with_gpu_use(rows, uses)
    assert [(each.gpu_measured, each.gpu_busy) for each in found] == [
        *[(0, 0), (0, 0), (0, 0), (100, 60), (50, 0)]
    ]
    [total] = sum_rows(found, (Dimension.PROFILE,))
    assert (total.gpu_measured, total.gpu_busy, total.nano_usd) == (150, 60, 5)


def test_gpus_that_report_no_use_are_not_measured() -> None:
    gpus = [GpuSample(index=0, name="T4", use_percent=80.0), GpuSample(index=1, name="T4")]
    assert gpu_percent(Telemetry(at=NOW, gpus=gpus)) == 80.0
    assert gpu_percent(Telemetry(at=NOW, gpus=gpus[1:])) is None
    assert gpu_percent(Telemetry(at=NOW)) is None
    assert gpu_percent(None) is None
