"""The figures of AWS's Spot Instance Advisor: their age, and how they are refreshed."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.data import INTERRUPTIONS_DATE, interruptions_source
from tests.spot_advisor import BANDS, refresh

ROOT = Path(__file__).resolve().parents[3]
CHANGED = (
    "ec2spawner/data/__init__.py",
    "ec2spawner/data/README.md",
    "ec2spawner/data/instance_types.csv",
    "ec2spawner/data/spot_advisor.csv",
    "docs/how-to/region-and-gpu.md",
    "docs/explanation/spot-policies.md",
)


@pytest.mark.parametrize(
    ("days", "age"),
    [(0, "0 days"), (1, "1 day"), (60, "60 days"), (61, "2 months"), (520, "17 months")],
)
def test_the_source_says_how_old_it_is(days: int, age: str) -> None:
    noon = datetime(*INTERRUPTIONS_DATE.timetuple()[:3], 12, tzinfo=UTC)
    said = interruptions_source(noon + timedelta(days=days))
    assert said == f"the AWS Spot Instance Advisor of {INTERRUPTIONS_DATE}, {age} old"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a refresh changes."""
    for name in CHANGED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def answer(**changes: Any) -> dict[str, Any]:
    """Return AWS's answer if it had the figures of the package."""
    by_region: dict[str, Any] = defaultdict(lambda: {"Linux": {}, "Windows": {}})
    with (ROOT / "ec2spawner/data/spot_advisor.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            figures = {"s": int(row["saving_percent"]), "r": int(row["interruption_band"])}
            by_region[row["region"]]["Linux"][row["instance_type"]] = figures
    ranges = [{"index": index, "label": label} for index, label in enumerate(BANDS)]
    return {"ranges": ranges, "spot_advisor": by_region, **changes}


def files(tree: Path) -> dict[str, str]:
    return {name: (tree / name).read_text() for name in CHANGED}


def test_the_same_figures_change_nothing(tree: Path) -> None:
    refresh(tree, json.dumps(answer()).encode(), INTERRUPTIONS_DATE)
    assert files(tree) == {name: (ROOT / name).read_text() for name in CHANGED}


def test_newer_figures_get_into_the_table_its_date_and_the_pages(tree: Path) -> None:
    newer = answer()
    here = newer["spot_advisor"]["us-east-1"]["Linux"]
    before = len(here)
    here["g7.2xlarge"] = {"s": 62, "r": 0}
    here["of.another"] = {"s": 1, "r": 1}
    refresh(tree, json.dumps(newer).encode(), date(2026, 11, 30))
    found = files(tree)
    assert "us-east-1,g7.2xlarge,62,0\n" in found["ec2spawner/data/spot_advisor.csv"]
    assert "of.another" not in found["ec2spawner/data/spot_advisor.csv"], "no type of the package"
    assert found["ec2spawner/data/spot_advisor.csv"].count("us-east-1,") == before + 1
    assert "INTERRUPTIONS_DATE: Final = date(2026, 11, 30)" in found["ec2spawner/data/__init__.py"]
    assert "Advisor, Linux, 2026-11-30" in found["ec2spawner/data/README.md"]
    page = found["docs/how-to/region-and-gpu.md"]
    assert re.search(r"Spot Instance Advisor of\s2026-11-30", page)
    assert "| us-east-1 | 43 | 62 % | 25 | 5 |" in page
    assert "Advisor of 30 November 2026" in found["docs/explanation/spot-policies.md"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranges": [{"index": 0, "label": "<1%"}]},
        {"spot_advisor": {"us-east-1": {"Linux": {"g5.xlarge": {"s": 50, "r": 0}}}}},
        {"spot_advisor": {"us-east-1": {"Linux": {"g5.xlarge": {"s": 50, "r": 7}}}}},
    ],
)
def test_data_of_another_form_changes_nothing(tree: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"bands|rows|band"):
        refresh(tree, json.dumps(answer(**wrong)).encode(), date(2026, 11, 30))
    assert files(tree) == {name: (ROOT / name).read_text() for name in CHANGED}
