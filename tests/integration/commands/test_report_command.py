"""`ec2spawner report` on a store, and against an export of the bill in S3."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio

from ec2spawner.core.ledger.cost_rows import Cause
from ec2spawner.core.ledger.idle_spans import IdleSpan
from ec2spawner.core.ledger.lease_costs import overhead_costs
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.starts.phases import Marks
from ec2spawner.provisioner.model.leases.costs import costs_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.store.store import Store
from ec2spawner.wire import Market
from tests.forked_command import Ended
from tests.harness import CONFIG, Embedded
from tests.integration.commands.admin import Admin
from tests.stored import lease

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=3)]

HOUR = timedelta(hours=1)
START = datetime(2026, 6, 10, 8, tzinfo=UTC)
"""Long ago: a report of these days depends on no clock."""
ZONE = "Europe/Berlin"
DAYS = ("--from=2026-06-10", "--to=2026-06-11", f"--EC2Spawner.time_zone={ZONE}")
HOSTILE = "=cmd|'/c calc'!A1\x1b[31m<script>"

SEGMENT = Segment(
    "i-ada",
    Market.SPOT,
    0.5,
    START,
    START + 4 * HOUR,
    instance_type="g5.xlarge",
    zone="us-east-1a",
    gpus=1,
    on_demand_usd_per_hour=1.0,
)


def ended_lease(lease_id: str, segment: Segment, **changes: Any) -> Lease:
    return lease(
        lease_id,
        **{
            "state": LeaseState.ENDED,
            "requested_at": segment.start,
            "ready_at": segment.start + HOUR,
            "ended_at": segment.end,
            "instance_id": segment.instance_id,
            "segments": (segment,),
        }
        | changes,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ledger(admin: Admin) -> None:
    """Three leases, one of which is open, and an instance without one."""
    place = ZoneInfo(ZONE)
    store = await Store.open(f"sqlite:///{admin.directory}/ec2spawner.sqlite", now=START)
    ada = ended_lease(
        "lease-ada",
        SEGMENT,
        payer="group:research",
        marks=Marks(asked=1.0, granted=1.5, mounted=4.0, listening=9.0, routed=10.0),
        idle_spans=(IdleSpan(START + 2 * HOUR, START + 3 * HOUR),),
    )
    evil = ended_lease("lease-evil", replace(SEGMENT, instance_id="i-evil"), user=HOSTILE)
    for each in (ada, evil):
        await store.save_lease(each, costs_of(each, START, place))
    spare = replace(SEGMENT, instance_id="i-spare", end=START + HOUR)
    await store.ledger.save_overhead(
        [spare], "key", overhead_costs([spare], Cause.UNASSIGNED, START, place)
    )
    lasting = replace(SEGMENT, instance_id="i-bob", start=START + 12 * HOUR, end=None)
    await store.save_lease(
        lease("lease-bob", user="bob", state=LeaseState.READY, segments=(lasting,))
    )
    await store.close()


async def reported(admin: Admin, *arguments: str, **how: Any) -> Ended:
    return await admin.types("report", f"--config={CONFIG}", *DAYS, *arguments, **how)


SEVERAL = """
import contextlib, io, json, sys
from ec2spawner.cli import main
outputs = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(arguments) == 0
    outputs.append(output.getvalue())
print(json.dumps(outputs))
"""
"""Several commands in one process: importing JupyterHub takes longer than any of them."""


async def outputs(admin: Admin, several: Sequence[Sequence[str]]) -> list[str]:
    """What these reports write, one after the other."""
    commands = [["report", f"--config={CONFIG}", *DAYS, *arguments] for arguments in several]
    ended = await admin.types(json.dumps(commands), program=SEVERAL)
    assert ended.status == 0, ended.errors
    found: list[str] = ended.json
    return found


@pytest.mark.usefixtures("ledger")
async def test_users_are_charged_for_work_idleness_and_starts(admin: Admin) -> None:
    ended = await reported(admin, "--json", "--by=user,group")
    assert ended.status == 0, ended.errors
    rows = {row["user"]: row for row in ended.json["rows"]}
    ada = rows["ada"]
    assert ada["payer"] == "group:research"
    assert [ada[f"{name}_usd"] for name in ("used", "idle", "overhead")] == [1.0, 0.5, 0.5]
    assert (ada["usd"], ada["saved_usd"], ada["gpu_hours"]) == (2.0, 2.0, 4.0)
    assert (rows[""]["payer"], rows[""]["overhead_usd"]) == ("hub", 0.5)
    # Open: from 22:00 in Berlin to the end of the last day.
    assert rows["bob"]["usd"] == 13.0
    assert ended.json["total"]["usd"] == sum(row["usd"] for row in rows.values()) == 17.5
    assert ended.json["overhead"] == {"start": 14.0, "unassigned": 0.5}
    assert [(day["day"], day["usd"]) for day in ended.json["days"]] == [
        ("2026-06-10", 5.5),
        ("2026-06-11", 12.0),
    ]


@pytest.mark.usefixtures("ledger")
async def test_starts_are_reported_by_phase_in_each_form(admin: Admin) -> None:
    forms = [["--starts"], ["--starts", "--csv"], ["--starts", "--json", "--profile=t4"]]
    table, separated, text = await outputs(admin, forms)
    assert "t4, spot: 1 start, 1 ready; listen takes 50 % of the time" in table
    lines = separated.splitlines()
    assert lines[0] == "profile,market,phase,starts,median_s,p95_s,share"
    assert lines[1] == "t4,spot,total,1,10.0,10.0,1.0"
    assert "t4,spot,home,1,2.5,2.5,0.25" in lines
    [group] = json.loads(text)["groups"]
    assert list(group["phases"]) == ["queue", "claim", "home", "listen", "route"]
    assert group["phases"]["listen"]["median_s"] == 5.0


@pytest.mark.usefixtures("ledger")
async def test_a_report_on_starts_refuses_what_is_about_costs(admin: Admin) -> None:
    ended = await reported(admin, "--starts", "--focus")
    assert ended.status == 2
    assert "--focus is for costs. Fix: leave it or --starts out" in ended.errors


FORMS = ("--json", "--csv", "--html", "--focus")


@pytest.mark.usefixtures("ledger")
async def test_a_user_is_reported_without_others(admin: Admin) -> None:
    for text in await outputs(admin, [[form, "--user=ada", "--by=user,group"] for form in FORMS]):
        assert "ada" in text
        for other in ("bob", "calc", "hub,", "unassigned"):
            assert other not in text


@pytest.mark.usefixtures("ledger")
async def test_a_hostile_name_is_harmless_in_each_form(admin: Admin) -> None:
    table, delimited, page, focus = await outputs(admin, [[], ["--csv"], ["--html"], ["--focus"]])
    for text in (table, delimited, page, focus):
        assert "calc" in text
        assert "\x1b" not in text
    assert "<script" not in page
    for text in (delimited, focus):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not any(cell.startswith("=") for cell in cells)
        assert any(cell.startswith("'=cmd") for cell in cells)


async def test_what_cannot_be_read_or_asked_has_its_status(admin: Admin, tmp_path: Path) -> None:
    nowhere = f"--EC2Spawner.store_url=sqlite:///{tmp_path}/none.sqlite"
    ended = await reported(admin, nowhere)
    assert (ended.status, ended.output) == (1, "")
    assert "does not exist" in ended.errors
    assert list(tmp_path.iterdir()) == []
    ended = await reported(admin, "--by=colour")
    assert ended.status == 2
    assert "colour" in ended.errors


COLUMNS = (
    "line_item_resource_id",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_line_item_type",
    "line_item_usage_type",
    "line_item_usage_amount",
    "line_item_unblended_cost",
    "pricing_public_on_demand_cost",
    "resource_tags",
)


def bill_row(
    instance_id: str, start: datetime, hours: float, usd: float, kind: str = "Usage"
) -> tuple[object, ...]:
    ends = start + hours * HOUR
    times = (f"{each:%Y-%m-%dT%H:%M:%S.000Z}" for each in (start, ends))
    usage = ("SpotUsage:g5.xlarge", hours, f"{usd:.10f}", hours)
    return (instance_id, *times, kind, *usage, '{"user_ec2spawner_hub": "demo"}')


async def put(embedded: Embedded, name: str, rows: Sequence[Sequence[object]]) -> str:
    """The bill of June as an export with that name; returns its place."""
    text = io.StringIO()
    csv.writer(text).writerows([COLUMNS, *rows])
    s3 = embedded.client("s3")
    await asyncio.to_thread(s3.create_bucket, Bucket="bills")
    await asyncio.to_thread(
        s3.put_object,
        Bucket="bills",
        Key=f"x/{name}/data/BILLING_PERIOD=2026-06/{name}-00001.csv.gz",
        Body=gzip.compress(text.getvalue().encode()),
    )
    return f"s3://bills/x/{name}"


@pytest.mark.usefixtures("ledger")
async def test_each_instance_is_compared_with_an_export_in_s3(
    admin: Admin, embedded: Embedded
) -> None:
    """Ada's instance with a credit, the spare one at another spot price, the rest as recorded."""
    day = datetime(2026, 6, 11, tzinfo=UTC)
    rows = [
        *(bill_row("i-ada", START + n * HOUR, 1, 0.5) for n in range(4)),
        bill_row("i-ada", START, 0, -0.25, kind="Credit"),
        *(bill_row("i-evil", START + n * HOUR, 1, 0.5) for n in range(4)),
        bill_row("i-spare", START, 1, 0.6),
        bill_row("i-bob", START + 12 * HOUR, 4, 2.0),
        bill_row("i-bob", day, 24, 12.0),
    ]
    place = await put(embedded, "agrees", rows)
    offering = {"instance_type": "g5.xlarge", "usd_per_hour": 0.25}
    # One term is 365 days: one ends within the two days of the report, one begins there.
    ends, begins = datetime(2026, 6, 10, 10, tzinfo=UTC), datetime(2027, 6, 11, 10, tzinfo=UTC)
    reserved = [
        {**offering, "count": 1, "until": ends.isoformat()},
        {**offering, "count": 2, "until": begins.isoformat()},
        {**offering, "count": 4, "until": datetime(2026, 6, 9, tzinfo=UTC).isoformat()},
    ]
    await embedded.control("reservations", {"reservations": reserved})
    arguments = ("--reconcile", f"--bill={place}", "--reservations")
    ended = await reported(admin, *arguments, "--json", environment=embedded.admin_credentials)
    assert ended.status == 0, ended.errors
    found = ended.json["reconciliation"]
    assert found["differences"] == {"credit": -0.25, "spot-price": 0.1}
    assert found["billed_usd"] == pytest.approx(found["recorded_usd"] - 0.15)
    assert all(each["settled"] for each in found["instances"])

    # The days are from 22:00 to 22:00 in UTC.
    found = {each["count"]: each["covered_hours"] for each in ended.json["discounts"]}
    assert found == {1: 12.0, 2: 2 * 12.0}
    assert [each["since"] for each in ended.json["discounts"]] == [
        "2025-06-10T10:00:00+00:00",
        "2026-06-11T10:00:00+00:00",
    ]

    leaked = bill_row("i-leaked", START, 3, 1.5)
    place = await put(embedded, "leaks", [*rows, leaked])
    ended = await reported(
        admin, "--reconcile", f"--bill={place}", environment=embedded.admin_credentials
    )
    assert ended.status == 3, ended.errors
    assert "i-leaked" in ended.output
    assert "ec2spawner reap" in ended.output


@pytest.mark.usefixtures("ledger")
async def test_a_bill_that_cannot_be_read_is_an_error(admin: Admin, tmp_path: Path) -> None:
    (tmp_path / "bill.csv").write_text("a,b\n1,2\n")
    ended = await reported(admin, "--reconcile", f"--bill={tmp_path}")
    assert (ended.status, ended.output) == (1, "")
    assert "neither CUR 2.0 nor FOCUS" in ended.errors
