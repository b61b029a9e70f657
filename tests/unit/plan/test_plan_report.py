"""What `ec2spawner plan` is asked for, and what it prints."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from ec2spawner import data
from ec2spawner.check.facts.network import Subnet
from ec2spawner.config import Options, validate_options
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.plan.command import plan_of
from ec2spawner.plan.facts import Facts, Source, Wanted
from ec2spawner.plan.report import as_json, print_plan
from ec2spawner.plan.request import WrongRequest, wanted_of
from ec2spawner.provisioner.store.read_only import FreshStart

NOW = datetime(2026, 11, 24, 8, 30, tzinfo=UTC)
"""9:30 in Berlin."""
TYPE = data.instance_types()["g4dn.xlarge"]


def options(**other: Any) -> Options:
    written = {"region": "us-east-1", "subnets": ["subnet-1"], "time_zone": "Europe/Berlin"}
    return validate_options({**written, **other}, cleanup_servers=False)


def wanted(**other: Any) -> Wanted:
    arguments = {"profile": "t4", "users": 40, "hours": 2.0, "at": "", **other}
    return wanted_of(argparse.Namespace(**arguments), options(), NOW)


FACTS = Facts(
    region="us-east-1",
    subnets=[Subnet("subnet-1", "us-east-1a", "vpc-1", 30)],
    types=[TYPE],
    offered={"g4dn.xlarge": frozenset({"us-east-1a"})},
    quotas=[ListedQuota("L-3819A6DF", "All G and VT Spot Instance Requests", 128)],
    spot={("g4dn.xlarge", "us-east-1a"): 0.2},
    on_demand={"g4dn.xlarge": 0.526},
    starts=[FreshStart(NOW, NOW + timedelta(seconds=150), NOW + timedelta(seconds=170))],
)


def printed(facts: Facts, of: Wanted, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_plan(plan_of(facts, of, NOW), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_time_of_day_is_the_next_one_in_the_hubs_time_zone() -> None:
    assert wanted(at="10:00").at == datetime(2026, 11, 24, 9, 0, tzinfo=UTC)
    assert wanted(at="9:30").at == datetime(2026, 11, 25, 8, 30, tzinfo=UTC)
    assert wanted().at is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"profile": "t5"}, 'no profile has the slug "t5". Fix: known: a10g, cpu, l40s, t4'),
        ({"users": 0}, "--users=0 is not within 1 to 1000"),
        ({"users": 1001}, "--users=1001"),
        ({"hours": 0.0}, "--hours=0"),
        ({"hours": float("nan")}, "--hours=nan"),
        ({"at": "9"}, '"9" is no time of day. Fix: --at=09:00'),
        ({"at": "24:00"}, '"24:00" is no time of day'),
    ],
)
def test_a_wrong_request_is_refused_with_its_fix(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongRequest) as refused:
        wanted(**asked)
    assert said in str(refused.value)


def test_profiles_of_a_function_are_refused() -> None:
    arguments = argparse.Namespace(profile="t4", users=4, hours=2.0, at="")
    with pytest.raises(WrongRequest, match="is a function of the user"):
        wanted_of(arguments, options(profile_list=lambda spawner: []), NOW)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_person_reads_what_is_short_what_it_costs_and_what_to_do(width: int) -> None:
    text = printed(FACTS, wanted(at="10:00"), width)
    words = " ".join(text.split())
    assert '40 users of "T4, 16 GB" in us-east-1 at 10:00 on Tuesday, 24 November' in words
    assert "✗ short" in words
    assert "does not suffice" in words
    assert "Nothing was started or changed." in words
    assert "half within 2 minutes 50 seconds; until the instance has booted 2 minutes 30" in words
    assert "\\n" not in text
    lines = [line for line in text.splitlines() if "aws " not in line and "warm_pool" not in line]
    assert max(map(len, lines)) <= width


def test_a_plan_without_a_time_suggests_no_hours() -> None:
    with_time, without = printed(FACTS, wanted(at="10:00"), 200), printed(FACTS, wanted(), 200)
    entry = '{"profile": "t4", "running": 40, "when": "Tue 10:00-10:15"}'
    assert f"c.EC2Spawner.warm_pool = [{entry}]" in with_time
    assert "c.EC2Spawner.warm_pool" not in without
    assert options(warm_pool=[json.loads(entry)]).pool_rules.rules[0].running == 40


@pytest.mark.parametrize(
    ("vcpus", "addresses", "said"),
    [
        (320, 80, "the quota and the addresses have room for them."),
        (240, 80, 'room for 60. Fix: get more of what is short, or write "running": 20.'),
        (400, 40, "room for 40. Fix: get more of what is short, or do without a pool."),
    ],
)
def test_the_pool_is_compared_with_what_it_holds_while_it_replaces(
    vcpus: float, addresses: int, said: str
) -> None:
    facts = replace(
        FACTS,
        subnets=[replace(FACTS.subnets[0], free_addresses=addresses)],
        quotas=[replace(FACTS.quotas[0], vcpus=vcpus)],
    )
    words = " ".join(printed(facts, wanted(at="10:00"), 200).split())
    assert "each instance that is taken is replaced, so up to 80 exist at once: " in words
    assert said in words


def test_the_room_for_a_pool_may_be_unknown() -> None:
    words = " ".join(printed(replace(FACTS, quotas=[]), wanted(), 200).split())
    assert "whether the quota and the addresses have room for them is unknown." in words


def test_what_is_unknown_is_said_to_be_unknown() -> None:
    blind = replace(FACTS, spot={}, starts=[], quotas=[])
    text = " ".join(printed(blind, wanted(users=10), 200).split())
    assert "spot: no price is known" in text
    assert "Unknown: the store has no start of this profile" in text
    assert "What it would save is unknown" in text
    assert "Nothing that could be read is short." in text


def test_a_store_that_cannot_be_read_is_named() -> None:
    away = replace(FACTS, starts=[], unread={Source.STORE: "there is no store at x"})
    assert "Unknown: there is no store at x." in printed(away, wanted())


def test_a_program_reads_numbers_and_nulls() -> None:
    found = json.loads(as_json(plan_of(FACTS, wanted(), NOW)))
    assert (found["profile"], found["users"], found["enough"], found["at"]) == (
        "t4",
        40,
        False,
        None,
    )
    by_name = {each["name"]: each for each in found["verdicts"]}
    assert by_name["free addresses"]["enough_for"] == 30
    assert by_name["spot capacity"]["state"] == "unknown"
    spot = found["costs"][0]
    assert (spot["market"], spot["usd"]) == ("spot", pytest.approx(16.0))
    assert found["starts"]["p95"] is None
    assert found["pool"]["saved_seconds"] == 150
    assert (found["pool"]["instances"], found["pool"]["room_for"]) == (80, 30)


def test_names_that_others_wrote_are_no_way_into_a_terminal() -> None:
    hostile = replace(FACTS, quotas=[ListedQuota("L-\x1b[2J", "All G Spot Instance Requests", 1)])
    assert "\x1b[2J" not in printed(hostile, wanted())
