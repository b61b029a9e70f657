"""Bills as AWS has them: exports in a bucket, and Cost Explorer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.billing import bill_exports
from ec2spawner.aws.billing.bill_exports import ExportObject, chosen, download, list_export
from ec2spawner.aws.calls.client import Client
from ec2spawner.core.bills.bill_lines import Charge
from ec2spawner.core.bills.reconciliation import Period
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.report.bill.errors import BillError
from ec2spawner.report.bill.files import SUFFIXES
from ec2spawner.report.bill.source import months_of, open_bill

from .embedded_ec2 import Embedded
from .scripted_ec2 import Reply, ScriptedEC2, json_error, json_ok

ACTION = "GetCostAndUsageWithResources"
NOW = datetime(2026, 11, 12, 9, tzinfo=UTC)
PERIOD = Period(datetime(2026, 11, 10, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))


@pytest.fixture
async def bucket(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Client, Any]]:
    """A bucket, and a client with the credentials of the account's administrator, as a report."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", embedded.admin_access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", embedded.admin_secret_access_key)
    s3 = embedded.client("s3")
    await asyncio.to_thread(s3.create_bucket, Bucket="bills")
    client = Client(embedded.region, embedded.endpoint)
    yield client, s3
    await client.close()


async def test_an_object_arrives_whole_in_parts(
    bucket: tuple[Client, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bill_exports, "PART", 1000)
    client, s3 = bucket
    body = bytes(range(256)) * 17
    for key, content in (("e/data/a.csv", body), ("e/data/empty.csv", b"")):
        await asyncio.to_thread(s3.put_object, Bucket="bills", Key=key, Body=content)
    found = await list_export(client, "bills", "e/")
    for each in found:
        await download(client, "bills", each, tmp_path / each.key.rpartition("/")[2])
    assert (tmp_path / "a.csv").read_bytes() == body
    assert (tmp_path / "empty.csv").read_bytes() == b""


async def test_what_is_missing_or_refused_names_the_place(bucket: tuple[Client, Any]) -> None:
    client, _ = bucket
    for place, said in (
        ("s3://no-such-bucket/x", "NoSuchBucket"),
        ("s3://bills/nothing", "no data for 2026-11"),
        ("s3://Bad_Name", "no place in S3"),
        ("/no/such/folder", "does not exist"),
    ):
        with pytest.raises(BillError, match=said):
            async with open_bill(place, client, PERIOD, NOW):
                pass


def test_each_month_is_read_from_its_newest_run() -> None:
    def object_of(key: str, hour: int) -> ExportObject:
        return ExportObject(key, 1, datetime(2026, 11, 12, hour, tzinfo=UTC))

    old, new, two = (
        object_of(f"x/data/BILLING_PERIOD=2026-11/{run}/x-{part}.csv.gz", hour)
        for run, part, hour in (("run-1", 1, 1), ("run-2", 1, 5), ("run-2", 2, 4))
    )
    october = object_of("x/data/BILLING_PERIOD=2026-10/x-1.csv.gz", 3)
    plain, manifest = object_of("x/copy.csv", 1), object_of("x/metadata/x.json", 9)
    everything = [old, new, two, october, plain, manifest]
    assert chosen(everything, ["2026-11"], SUFFIXES) == [new, two, plain]


def test_billing_periods_are_months_in_utc() -> None:
    turn = Period(datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC))
    assert months_of(turn) == ["2026-12", "2027-01", "2027-02"]


def page(*groups: tuple[str, str, str, str], token: str = "") -> Reply:
    amounts = [
        {
            "Keys": [resource, record],
            "Metrics": {
                "AmortizedCost": {"Amount": usd, "Unit": "USD"},
                "UsageQuantity": {"Amount": hours, "Unit": "N/A"},
            },
        }
        for resource, record, usd, hours in groups
    ]
    period = {"Start": "2026-11-10", "End": "2026-11-11"}
    answer = {"ResultsByTime": [{"TimePeriod": period, "Groups": amounts}]}
    return json_ok(answer | ({"NextPageToken": token} if token else {}))


async def test_cost_explorer_has_each_instance_by_day(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will(
        ACTION,
        page(("i-1", "Usage", "0.5260000000", "1.0"), ("i-1", "Credit", "-0.1", "0"), token="2"),
        page(
            ("i-2", "SavingsPlanCoveredUsage", "0.2", "2"),
            ("i-2", "SavingsPlanNegation", "-1", "2"),
            ("NoResourceId", "Tax", "0.01", "0"),
        ),
    )
    async with open_bill("", cloud.client, PERIOD, NOW) as bill:
        lines = list(bill.lines)
    assert [(x.resource_id, x.charge, x.nano_usd, x.microseconds) for x in lines] == [
        ("i-1", Charge.INSTANCE, 526_000_000, 3_600_000_000),
        ("i-1", Charge.CREDIT, -100_000_000, 0),
        ("i-2", Charge.DISCOUNTED, 200_000_000, 7_200_000_000),
        ("", Charge.TAX, 10_000_000, 0),
    ]
    assert lines[0].start == datetime(2026, 11, 10, tzinfo=UTC)
    first, second = (json.loads(call["Body"]) for call in ec2.made(ACTION))
    assert first["TimePeriod"] == {"Start": "2026-11-10", "End": str(date(2026, 11, 13))}
    assert second["NextPageToken"] == "2"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (json_error("DataUnavailableException", "no data"), "enable resource-level data"),
        (json_error("AccessDeniedException", "no"), "ce:GetCostAndUsageWithResources"),
        (page(("i-1", "Usage", "much", "1")), "much"),
    ],
)
async def test_cost_explorer_that_does_not_answer_says_what_to_do(
    cloud: EC2Cloud, ec2: ScriptedEC2, answer: Reply, said: str
) -> None:
    ec2.will(ACTION, answer)
    with pytest.raises(BillError, match=said):
        async with open_bill("", cloud.client, PERIOD, NOW):
            pass


async def test_an_object_that_changes_meanwhile_is_refused(
    bucket: tuple[Client, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, s3 = bucket
    await asyncio.to_thread(s3.put_object, Bucket="bills", Key="c/a.csv", Body=b"x" * 2000)
    [found] = await list_export(client, "bills", "c/")
    monkeypatch.setattr(bill_exports, "PART", 1000)
    call = client.call

    async def changed(*arguments: Any, **parameters: Any) -> Any:
        answer = await call(*arguments, **parameters)
        await asyncio.to_thread(s3.put_object, Bucket="bills", Key="c/a.csv", Body=b"y" * 2000)
        return answer

    monkeypatch.setattr(client, "call", changed)
    with pytest.raises(CloudError):
        await download(client, "bills", found, tmp_path / "a.csv")
