"""Exports of AWS's bill: CUR 2.0 and FOCUS, as CSV, compressed, and as Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ec2spawner.core.bills.bill_lines import BillLine, Charge
from ec2spawner.report.bill.errors import BillError
from ec2spawner.report.bill.files import files_at, lines_in

CUR = {
    "line_item_resource_id": "i-1",
    "line_item_usage_start_date": "2026-11-01T10:00:00.000Z",
    "line_item_usage_end_date": "2026-11-01T11:00:00.000Z",
    "line_item_line_item_type": "Usage",
    "line_item_usage_type": "EUC1-SpotUsage:g5.xlarge",
    "line_item_usage_amount": "0.5",
    "line_item_unblended_cost": "0.2500000000",
    "line_item_currency_code": "USD",
    "pricing_public_on_demand_cost": "0.5030",
    "resource_tags": '{"user_ec2spawner_hub": "demo"}',
    "reservation_effective_cost": "",
    "savings_plan_savings_plan_effective_cost": "",
    "unrelated": "x",
}
FOCUS = {
    "ResourceId": "arn:aws:ec2:eu-central-1:123456789012:instance/i-1",
    "ChargePeriodStart": "2026-11-01T10:00:00Z",
    "ChargePeriodEnd": "2026-11-01T11:00:00Z",
    "ChargeCategory": "Usage",
    "EffectiveCost": "0.25",
    "ListCost": "0.503",
    "ConsumedQuantity": "0.5",
    "ConsumedUnit": "Hrs",
    "PricingCategory": "Dynamic",
    "BillingCurrency": "USD",
    "x_UsageType": "EUC1-SpotUsage:g5.xlarge",
    "Tags": '{"user:ec2spawner:hub": "demo"}',
}
EXPECTED = BillLine(
    resource_id="i-1",
    start=datetime(2026, 11, 1, 10, tzinfo=UTC),
    end=datetime(2026, 11, 1, 11, tzinfo=UTC),
    charge=Charge.INSTANCE,
    nano_usd=250_000_000,
    list_nano_usd=503_000_000,
    microseconds=1_800_000_000,
    usage_type="EUC1-SpotUsage:g5.xlarge",
    hub="demo",
)


def written(*rows: Mapping[str, str]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def read(tmp_path: Path, *rows: Mapping[str, str]) -> list[BillLine]:
    path = tmp_path / "bill.csv"
    path.write_bytes(written(*rows))
    return list(lines_in([path]))


def charges(tmp_path: Path, rows: Sequence[Mapping[str, str]]) -> list[tuple[Charge, int]]:
    return [(line.charge, line.nano_usd) for line in read(tmp_path, *rows)]


@pytest.mark.parametrize("row", [CUR, FOCUS], ids=["cur", "focus"])
def test_both_layouts_say_the_same(tmp_path: Path, row: Mapping[str, str]) -> None:
    assert read(tmp_path, row) == [EXPECTED]


@pytest.mark.parametrize("row", [CUR, FOCUS], ids=["cur", "focus"])
def test_a_folder_is_read_with_all_its_compressed_files(
    tmp_path: Path, row: Mapping[str, str]
) -> None:
    for month in ("2026-10", "2026-11"):
        folder = tmp_path / f"data/BILLING_PERIOD={month}"
        folder.mkdir(parents=True)
        (folder / "bill-00001.csv.gz").write_bytes(gzip.compress(written(row)))
    (tmp_path / "Manifest.json").write_text("{}")
    assert list(lines_in(files_at(tmp_path))) == [EXPECTED, EXPECTED]


def test_discounted_time_counts_at_its_effective_cost(tmp_path: Path) -> None:
    box = {**CUR, "line_item_usage_type": "BoxUsage:g5.xlarge"}
    plan = {
        **box,
        "line_item_line_item_type": "SavingsPlanCoveredUsage",
        "savings_plan_savings_plan_effective_cost": "0.1",
    }
    negation = {**box, "line_item_line_item_type": "SavingsPlanNegation"}
    reserved = {
        **box,
        "line_item_line_item_type": "DiscountedUsage",
        "reservation_effective_cost": "0.2",
    }
    found = charges(tmp_path, [plan, negation, reserved])
    assert found == [(Charge.DISCOUNTED, 100_000_000), (Charge.DISCOUNTED, 200_000_000)]


@pytest.mark.parametrize(
    ("changes", "charge"),
    [
        ({"line_item_line_item_type": "Tax"}, Charge.TAX),
        ({"line_item_line_item_type": "Credit"}, Charge.CREDIT),
        ({"line_item_line_item_type": "Refund"}, Charge.CREDIT),
        ({"line_item_usage_type": "EBS:VolumeUsage.gp3"}, Charge.OTHER_USAGE),
        ({"line_item_usage_type": "DataTransfer-Out-Bytes"}, Charge.OTHER_USAGE),
        ({"line_item_usage_type": "EBSOptimized:g5.xlarge"}, Charge.OTHER_USAGE),
    ],
)
def test_what_is_no_time_of_an_instance_has_none(
    tmp_path: Path, changes: Mapping[str, str], charge: Charge
) -> None:
    [line] = read(tmp_path, {**CUR, **changes})
    assert line.charge is charge
    assert line.microseconds == 0 or charge in (Charge.TAX, Charge.CREDIT)


@pytest.mark.parametrize(
    ("changes", "charge"),
    [
        ({"ChargeCategory": "Tax"}, Charge.TAX),
        ({"ChargeCategory": "Credit"}, Charge.CREDIT),
        ({"ChargeCategory": "Adjustment", "EffectiveCost": "-1"}, Charge.CREDIT),
        ({"ChargeCategory": "Purchase"}, Charge.OTHER_USAGE),
        ({"PricingCategory": "Committed"}, Charge.DISCOUNTED),
        ({"x_UsageType": ""}, Charge.INSTANCE),
        ({"x_UsageType": "", "ConsumedUnit": "GB"}, Charge.OTHER_USAGE),
    ],
)
def test_categories_of_focus(tmp_path: Path, changes: Mapping[str, str], charge: Charge) -> None:
    [line] = read(tmp_path, {**FOCUS, **changes})
    assert line.charge is charge


@pytest.mark.parametrize("tags", ["", "{", "[]", '{"hub": "demo"}', '{"user_x": "ec2spawner:hub"}'])
def test_tags_without_ours_name_no_hub(tmp_path: Path, tags: str) -> None:
    [line] = read(tmp_path, {**CUR, "resource_tags": tags})
    assert line.hub == ""


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**CUR, "line_item_currency_code": "CNY"}, "CNY"),
        ({**CUR, "line_item_unblended_cost": "much"}, "row 1"),
        ({**CUR, "line_item_usage_start_date": "yesterday"}, "row 1"),
        ({k: v for k, v in CUR.items() if k != "line_item_resource_id"}, "line_item_resource_id"),
        ({"a": "1", "b": "2"}, "neither CUR 2.0 nor FOCUS"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_its_place(
    tmp_path: Path, row: Mapping[str, str], said: str
) -> None:
    with pytest.raises(BillError, match=said) as raised:
        read(tmp_path, row)
    assert "bill.csv" in str(raised.value)


def test_a_truncated_file_is_an_error_and_no_shorter_bill(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv.gz"
    path.write_bytes(gzip.compress(written(*[CUR] * 500))[:-20])
    with pytest.raises(BillError, match=r"bill\.csv\.gz cannot be read"):
        list(lines_in([path]))


def test_a_folder_without_an_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BillError, match="no files of an export"):
        files_at(tmp_path)


def test_parquet_without_pyarrow_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(BillError, match="pip install pyarrow"):
        list(lines_in([tmp_path / "bill.snappy.parquet"]))


def test_parquet_is_read_where_pyarrow_is_installed(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    tags = arrow.array(
        [[("user_ec2spawner_hub", "demo")]], arrow.map_(arrow.string(), arrow.string())
    )
    columns = {name: arrow.array([value]) for name, value in CUR.items()}
    columns |= {
        "resource_tags": tags,
        "line_item_usage_amount": arrow.array([0.5]),
        "line_item_unblended_cost": arrow.array([0.25]),
        "line_item_usage_start_date": arrow.array([EXPECTED.start]),
        "line_item_usage_end_date": arrow.array([EXPECTED.end]),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "bill.snappy.parquet")
    assert list(lines_in([tmp_path / "bill.snappy.parquet"])) == [EXPECTED]
