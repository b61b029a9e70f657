"""`ec2spawner plan`: exit status 0, 1 where something is short, 2 for a wrong request."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from ..check.hub_config import ConfigurationBroken, HubConfig, load
from ..terminal import complain
from .costs import durations, pool_cost, prices
from .facts import Facts, Source, Wanted
from .read import read_facts
from .report import Plan, as_json, print_plan
from .request import WrongRequest, wanted_of
from .reservations import reservations
from .verdicts import is_enough, pool_room, verdicts

NEEDED = (
    "region",
    "endpoint_url",
    "subnets",
    "hub_name",
    "profile_list",
    "architecture",
    "disk_gib",
    "home",
    "limits",
    "store_url",
    "time_zone",
)
"""Options without which no plan can be made."""


def run_plan(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """`ec2spawner plan`; returns 1 if something is short, 2 for a wrong request, else 0."""
    now = datetime.now(UTC)
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            config = load(Path(arguments.config), for_the_hub)
            wanted = wanted_of(arguments, config.require(*NEEDED), now)
    except ConfigurationBroken as broken:
        for finding in broken.findings:
            complain("plan", f"{finding.name}: {finding.said}. Fix: {finding.fix}")
        return 2
    except WrongRequest as error:
        complain("plan", str(error))
        return 2
    plan = plan_of(_facts(config, wanted, now), wanted, now)
    if arguments.json:
        print(as_json(plan))
    else:
        print_plan(plan, Console())
    return 1 if is_enough(plan.verdicts) is False else 0


def plan_of(facts: Facts, wanted: Wanted, now: datetime) -> Plan:
    """What the facts mean for the class."""
    found, usual = prices(facts, wanted), durations(facts)
    judged = verdicts(facts, wanted, found)
    return Plan(
        facts.region,
        wanted,
        judged,
        found,
        usual,
        pool_cost(found, usual, wanted, pool_room(judged, wanted)),
        tuple(reservations(facts, wanted, now)),
        facts.unread.get(Source.STORE, ""),
    )


def _facts(config: HubConfig, wanted: Wanted, now: datetime) -> Facts:
    with Console(stderr=True).status(f"Asking AWS about {config.options.region}"):
        return asyncio.run(read_facts(config, wanted, now))
