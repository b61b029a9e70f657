"""What `ec2spawner prices` prints, in a wide terminal and in a narrow one."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from ec2spawner.data import INTERRUPTIONS_DATE
from ec2spawner.prices.report import print_table
from ec2spawner.prices.rows import Row

ZONES = {f"us-east-1{letter}": 0.1 + place / 100 for place, letter in enumerate("abcdef")}
T4 = Row(
    "us-east-1",
    "T4, 16 GB",
    offered=True,
    instance_type="g4dn.xlarge",
    on_demand_usd_per_hour=0.526,
    on_demand_source="the AWS price list",
    spot_usd_per_hour=0.1,
    spot_by_zone=ZONES,
    saving_percent=81,
    steadiness="steady for 6 days",
    risk="often",
    latency_ms=12.4,
)


def printed(rows: list[Row], width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_table(rows, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_nothing_is_cut_and_each_price_stays_with_its_zone(width: int) -> None:
    text = printed([T4], width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.replace("\N{NO-BREAK SPACE}", "_").split())
    for said in ("g4dn.xlarge", "0.526", "81 %", "steady for 6 days", "often", "12 ms"):
        assert said in words
    for letter, usd in zip("abcdef", ZONES.values(), strict=True):
        assert f"{letter}_{usd:.3f}" in words


def test_interruptions_are_shown_with_their_age_where_any_is_known() -> None:
    said = " ".join(printed([T4], 200).split())
    assert f"Spot Instance Advisor of {INTERRUPTIONS_DATE}, " in said
    assert re.search(r"\d+ (months|days?) old\.", said)
    assert "Advisor" not in printed([replace(T4, risk="")], 200)


@pytest.mark.parametrize("width", [80, 200])
def test_unknown_and_missing_offers_are_reported(width: int) -> None:
    bare = Row("us-east-1", "L40S", offered=True, instance_type="g6e.xlarge")
    text = printed([bare, Row("us-east-1", "Rare", offered=False)], width)
    assert text.count("unknown") == 2
    assert "not offered" in text


@pytest.mark.parametrize("width", [80, 200])
def test_an_unreachable_region_is_named_once_and_the_others_are_shown(width: int) -> None:
    lost = replace(T4, region="eu-west-1", offered=False, error="Timeout: no answer")
    text = printed([lost, replace(lost, profile="A10G"), T4], width)
    assert text.count("eu-west-1 could not be read: Timeout: no answer") == 1
    assert "g4dn.xlarge" in text
