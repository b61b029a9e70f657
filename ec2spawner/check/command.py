"""`ec2spawner check`: exit status 0 where nothing failed, 1 where something did."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from .. import terminal
from .finding import Finding, State
from .hub_config import ConfigurationBroken, HubConfig, load
from .repairs.apply import Outcome, Result, make_repairs
from .repairs.plan import Repair, merged
from .report import as_json, print_outcomes, print_report
from .run import check


def run_check(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """`ec2spawner check`; returns 1 if something failed, else 0, 2 for a wrong command line."""
    if arguments.yes and not arguments.fix:
        terminal.complain("check", "--yes is for --fix")
        return 2
    if arguments.fix and arguments.json and not arguments.yes:
        terminal.complain("check", "--fix asks, so with --json it needs --yes")
        return 2
    if arguments.fix and arguments.test_alarms:
        terminal.complain("check", "--fix checks again, so run --test-alarms without it")
        return 2
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            config = load(Path(arguments.config), for_the_hub)
    except ConfigurationBroken as broken:
        return _report(broken.findings, (), arguments)
    findings = _check(config, test_alarms=arguments.test_alarms)
    if not arguments.fix:
        return _report(findings, (), arguments)
    repairs = merged(repair for finding in findings for repair in finding.repairs)
    if not arguments.json:
        print_report(findings, Console())
    ask = _yes if arguments.yes else _asked
    outcomes = asyncio.run(make_repairs(config.options, repairs, ask))
    if not arguments.json:
        print_outcomes(outcomes, Console())
    if any(outcome.result is Result.DONE for outcome in outcomes):
        return _report(_check(config), outcomes, arguments)
    if arguments.json:
        print(as_json(findings, outcomes))
    return _status(findings)


def _report(
    findings: Sequence[Finding], outcomes: Sequence[Outcome], arguments: argparse.Namespace
) -> int:
    if arguments.json:
        print(as_json(findings, outcomes if arguments.fix else None))
    else:
        print_report(findings, Console(), outcomes)
    return _status(findings)


def _status(findings: Sequence[Finding]) -> int:
    return 1 if any(finding.state is State.FAILED for finding in findings) else 0


def _check(config: HubConfig, *, test_alarms: bool = False) -> list[Finding]:
    with Console(stderr=True).status("") as status:

        def announce(what: str) -> None:
            status.update(f"Checking {what}")

        now = datetime.now(UTC)
        return asyncio.run(check(config, now=now, announce=announce, test_alarms=test_alarms))


def _yes(_repair: Repair) -> bool:
    return True


def _asked(repair: Repair) -> bool:
    """No also where nobody can answer."""
    Console().print(terminal.text(f"Shall I {repair.what}? [y/N] "), end="")
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        Console().print()
    return answer.strip().lower() in ("y", "yes")
