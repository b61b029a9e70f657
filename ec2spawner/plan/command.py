"""`ec2spawner plan`: exit status 0, 1 where something is short, 2 for a wrong request. With
`--rehearse` see `rehearsal.command`."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from ..check.hub_config import ConfigurationBroken, HubConfig, load
from ..terminal import complain
from .costs import durations, pool_cost, prices
from .facts import Facts, Source, Wanted
from .read import read_facts
from .rehearsal.command import WRONG, run_rehearsal, run_removal, target_of
from .rehearsal.prediction import prediction
from .rehearsal.request import Rehearsal, rehearsal_of, why_not, why_unmeasured
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
    "capacity_reservations",
)
"""Options without which no plan can be made."""


def run_plan(
    arguments: argparse.Namespace,
    for_the_hub: Sequence[str],
    environ: Mapping[str, str] = os.environ,
) -> int:
    """`ec2spawner plan`; returns 1 if something is short, 2 for a wrong request, else 0."""
    now = datetime.now(UTC)
    target = None
    if arguments.rehearse is not None:
        target = target_of(arguments, environ)
        if target is None:
            return WRONG
        if arguments.rehearse == 0:
            return run_removal(target, arguments)
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            config = load(Path(arguments.config), for_the_hub)
            wanted = wanted_of(arguments, config.require(*NEEDED), now)
        rehearsal = rehearsal_of(arguments) if target else None
    except ConfigurationBroken as broken:
        for finding in broken.findings:
            complain("plan", f"{finding.name}: {finding.said}. Fix: {finding.fix}")
        return WRONG
    except WrongRequest as error:
        complain("plan", str(error))
        return WRONG
    facts = _facts(config, wanted, now)
    plan = plan_of(facts, wanted, now)
    if not arguments.json:
        print_plan(plan, Console())
    status, found = 1 if is_enough(plan.verdicts) is False else 0, None
    if target is not None and rehearsal is not None:
        if refusal := _why_not(facts, plan, rehearsal, arguments, now):
            complain("plan", refusal)
            status = 1
        else:
            predicted = prediction(rehearsal.number, rehearsal.timeout, plan.prices, plan.durations)
            store_url = config.options.store_url
            status, found = run_rehearsal(rehearsal, predicted, target, store_url, arguments)
    if arguments.json:
        print(as_json(plan, found))
    return status


def _why_not(
    facts: Facts, plan: Plan, rehearsal: Rehearsal, arguments: argparse.Namespace, now: datetime
) -> str:
    """Why the rehearsal does not begin; empty where it may."""
    short = "" if arguments.even_if_short else why_not(facts, plan.wanted, rehearsal, now)
    return short or why_unmeasured(facts)


def plan_of(facts: Facts, wanted: Wanted, now: datetime) -> Plan:
    """What the facts mean for the class."""
    found, usual = prices(facts, wanted), durations(facts)
    judged = verdicts(facts, wanted, found, now)
    return Plan(
        facts.region,
        wanted,
        judged,
        found,
        usual,
        pool_cost(found, usual, wanted, pool_room(judged, wanted)),
        tuple(reservations(facts, wanted, now)),
        facts.reserved_places(wanted, now),
        facts.unread.get(Source.STORE, ""),
    )


def _facts(config: HubConfig, wanted: Wanted, now: datetime) -> Facts:
    with Console(stderr=True).status(f"Asking AWS about {config.options.region}"):
        return asyncio.run(read_facts(config, wanted, now))
