"""The forms of a report. Names in it come from users and may be hostile."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ec2spawner.core.bills.reconciliation import Reason
from ec2spawner.core.ledger.cost_rows import Cause, Resource, durations_of
from ec2spawner.core.text.delimited import FORMULA, delimited, safe
from ec2spawner.report import wording
from ec2spawner.report.contents import DIMENSIONS as DIMENSIONS_OF_REPORTS
from ec2spawner.report.delimited import report_csv
from ec2spawner.report.document import report_json
from ec2spawner.report.focus import DIMENSIONS, focus_csv
from ec2spawner.report.page import bars, report_html
from ec2spawner.report.reconciled import MEANINGS
from ec2spawner.report.table import print_report
from tests.unit.report.ledger import ADA, BERLIN, BOB, ROWS, USD, report, sums

HOSTILE = [
    '=HYPERLINK("http://evil.example","x")',
    "@SUM(A1)",
    "+1+1",
    "-2",
    "\t=1",
    "  =1",
    "＝1",
    "<script>alert(1)</script>",
    "\x1b]0;owned\x07\x1b[31mred",
    "\u202egnp.exe",
    "a\r\n=1",
    "[bold]markup[/bold]",
    "{{ 7 * 7 }}",
    '"><img src=x onerror=alert(1)>',
]
ROWS_OF_HOSTILES = tuple(replace(ADA, user=name, profile=name) for name in HOSTILE)


def printed(text_of: object, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(text_of, console)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@given(st.text() | st.sampled_from(HOSTILE))
def test_no_cell_of_csv_is_a_formula_or_breaks_its_line(text: str) -> None:
    cell = safe(text)
    assert isinstance(cell, str)
    assert not cell.lstrip(" ").startswith(FORMULA)
    assert len(delimited(["a", "b"], [[text, 1]]).splitlines()) == 2
    assert "\x1b" not in cell


def test_numbers_of_csv_stay_numbers() -> None:
    assert [safe(each) for each in (-1.5, 3, None)] == [-1.5, 3, None]


def test_csv_has_exact_amounts_and_no_total() -> None:
    rows = parsed(report_csv(report("user", "market")))
    assert list(rows[0])[:3] == ["user", "market", "usd"]
    by_user = {row["user"]: row for row in rows}
    assert len(rows) == len(by_user) == 4
    assert float(by_user["ada"]["usd"]) == 1.55
    assert (by_user["eve"]["usd"], by_user["eve"]["unknown_prices"]) == ("", "1")


def test_json_adds_up_and_has_null_for_unknown() -> None:
    found = json.loads(report_json(report("user")))
    assert found["total"]["usd"] == sum(row["usd"] or 0 for row in found["rows"])
    assert found["estimate"] is True
    assert next(row["usd"] for row in found["rows"] if row["user"] == "eve") is None
    assert [day["day"] for day in found["days"]] == ["2026-11-01", "2026-11-02"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_shows_every_name_and_obeys_none(width: int) -> None:
    text = printed(report("user", rows=ROWS_OF_HOSTILES), width)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert max(map(len, text.splitlines())) <= width
    assert "[bold]markup" in text.replace("\n", "")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_says_estimate_unknown_and_total(width: int) -> None:
    text = " ".join(printed(report("user", "profile"), width).split())
    for said in ("Estimates in USD", "unknown", "≥ 4.80", "unassigned 0.25", "Europe/Berlin"):
        assert said in text


def test_three_dimensions_are_a_table_in_80_columns_and_it_says_what_is_left_out() -> None:
    found = report("user", "day", "cause")
    wide, narrow = printed(found, 200), printed(found, 80)
    [head] = [line for line in narrow.splitlines() if line.startswith("user ")]
    assert head.split()[:6] == ["user", "day", "cause", "USD", "used", "idle"]
    assert "GPU h" not in head
    assert "Not shown here: GPU h." in narrow
    [total] = [line.split() for line in narrow.splitlines() if line.startswith("total ")]
    assert total[:4] == ["total", "≥", "4.80", "4.00"]
    assert "GPU h" in wide
    assert "Not shown here" not in wide


def test_html_shows_hostile_names_as_text() -> None:
    page = report_html(report("user", "profile", rows=ROWS_OF_HOSTILES, user=HOSTILE[-1]))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert "\x1b" not in page


def test_html_needs_nothing_from_outside() -> None:
    page = report_html(report("user"))
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    for said in ("Estimates in USD", "prefers-color-scheme: dark", "@media print", "unknown"):
        assert said in page


def test_each_day_is_a_bar_whose_parts_fill_it() -> None:
    [first, second] = bars(report("user").days)
    assert sum(height for *_, height in first.parts) == pytest.approx(160, abs=0.1)
    assert [name for name, _, height in second.parts if height] == ["idle"]
    assert "2026-11-02: 0.50 USD" in second.title


def test_a_period_that_was_cut_says_so() -> None:
    whole = report("user")
    cut = replace(whole, scope=replace(whole.scope, is_cut=True))
    for text_of in (report_html, printed):
        assert "Cost Explorer" not in text_of(whole)
        assert "From 2026-11-01 on, because Cost Explorer" in " ".join(text_of(cut).split())


def test_nothing_spent_is_a_report_too() -> None:
    empty = report("user", rows=())
    assert "Nothing was spent" in report_html(empty)
    assert "Nothing was spent" in printed(empty)
    assert parsed(report_csv(empty)) == []
    assert json.loads(report_json(empty))["total"]["usd"] == 0


@pytest.mark.parametrize(
    ("nano_usd", "shown"),
    [(0, "0.00"), (1, "<0.01"), (-1, ">-0.01"), (1234 * USD, "1,234.00"), (-5 * USD, "-5.00")],
)
def test_what_is_not_zero_is_never_shown_as_zero(nano_usd: int, shown: str) -> None:
    assert wording.usd(nano_usd) == shown


def test_focus_has_one_row_for_each_entry_and_leaves_out_what_has_no_price() -> None:
    text, left_out = focus_csv(
        sums(ROWS, DIMENSIONS),
        durations_of(ROWS, DIMENSIONS),
        hub="demo",
        region="us-east-1",
        place=BERLIN,
    )
    rows = parsed(text)
    assert (len(rows), left_out) == (len(ROWS) - 1, 1)
    assert sum(float(row["EffectiveCost"]) for row in rows) == pytest.approx(4.8)
    assert {row["ChargePeriodStart"] for row in rows} == {
        "2026-10-31T23:00:00Z",
        "2026-11-01T23:00:00Z",
    }
    assert {row["BillingPeriodEnd"] for row in rows} == {"2026-11-30T23:00:00Z"}
    assert {row["PricingCategory"] for row in rows} == {"Dynamic", "Standard"}
    spot = next(row for row in rows if row["x_User"] == "ada" and row["x_Purpose"] == "used")
    assert (spot["BilledCost"], spot["ListCost"]) == ("1.0", "2.0")
    assert json.loads(spot["Tags"]) == {
        "ec2spawner:payer": "group:research",
        "ec2spawner:profile": "a10g",
        "ec2spawner:user": "ada",
    }


def test_focus_calls_homes_storage_and_states_their_size() -> None:
    home = replace(
        ADA,
        instance_type="gp3",
        market="",
        resource=Resource.HOME,
        microseconds=0,
        gpus=0.0,
        mib_seconds=20 * 1024 * 86_400,
        nano_usd=USD,
        on_demand_nano_usd=USD,
    )
    copy = replace(home, resource=Resource.SNAPSHOT, instance_type="", zone="")
    text, _ = focus_csv(
        sums([home, copy], DIMENSIONS),
        durations_of([home, copy], DIMENSIONS),
        hub="demo",
        region="us-east-1",
        place=BERLIN,
    )
    found = {row["ServiceSubcategory"]: row for row in csv.DictReader(io.StringIO(text))}
    assert set(found) == {"Block Storage", "Backup Storage"}
    for row in found.values():
        assert (row["ServiceCategory"], row["ListCost"]) == ("Storage", row["BilledCost"])
        assert (float(row["ConsumedQuantity"]), row["ConsumedUnit"]) == (480.0, "GiB-Hours")
    assert found["Block Storage"]["ChargeDescription"].startswith("home")


def test_focus_gives_a_disk_no_spot_price() -> None:
    assert ADA.market == "spot"
    disk, address = (replace(ADA, resource=each) for each in (Resource.DISK, Resource.ADDRESS))
    text, _ = focus_csv(
        sums([ADA, disk, address], DIMENSIONS),
        durations_of([ADA, disk, address], DIMENSIONS),
        hub="demo",
        region="us-east-1",
        place=BERLIN,
    )
    found = {row["ServiceCategory"]: row for row in csv.DictReader(io.StringIO(text))}
    assert {name: row["PricingCategory"] for name, row in found.items()} == {
        "Compute": "Dynamic",
        "Storage": "Standard",
        "Networking": "Standard",
    }
    assert found["Compute"]["ChargeDescription"] == f"{ADA.instance_type}, spot: used"
    assert found["Storage"]["ChargeDescription"] == f"disk of {ADA.instance_type}: used"
    for row in found.values():
        assert (float(row["ConsumedQuantity"]), row["ConsumedUnit"]) == (2.0, "Hours")
        assert (float(row["PricingQuantity"]), row["PricingUnit"]) == (2.0, "Hours")


@pytest.mark.parametrize(
    ("paid", "category"),
    [(3 * USD, "Standard"), (3 * USD - 1, "Standard"), (USD, "Committed"), (2 * USD, "Committed")],
)
def test_focus_calls_discounted_time_on_demand_committed(paid: int, category: str) -> None:
    assert BOB.on_demand_nano_usd == 3 * USD
    assert BOB.market == "on-demand"
    text, _ = focus_csv(
        sums([replace(BOB, nano_usd=paid)], DIMENSIONS),
        {},
        hub="demo",
        region="us-east-1",
        place=BERLIN,
    )
    [row] = parsed(text)
    assert row["PricingCategory"] == category
    assert float(row["EffectiveCost"]) == paid / USD
    assert float(row["ListCost"]) == 3.0
    contracted = 3.0 if category == "Committed" else paid / USD
    assert float(row["ContractedCost"]) == contracted, "before what a commitment saves"


def test_an_empty_focus_file_still_names_its_columns() -> None:
    text, _ = focus_csv((), {}, hub="demo", region="us-east-1", place=BERLIN)
    assert text.startswith("AvailabilityZone,BilledCost,")
    assert len(text.splitlines()) == 1


def test_the_page_of_the_documentation_names_every_cause_and_reason() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/report.md").read_text("utf-8")
    named = {*Cause, *Reason, *DIMENSIONS_OF_REPORTS}
    assert not [each for each in named if f"`{each}`" not in page]
    assert MEANINGS.keys() == set(Reason)
