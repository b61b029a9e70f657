"""`ec2spawner check`: exit status 0 where nothing failed, 1 where something did."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from .finding import Finding, State
from .hub_config import ConfigurationBroken, load
from .report import as_json, print_report
from .run import check


def run_check(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """`ec2spawner check`; returns 1 if something failed, else 0."""
    findings = _findings(Path(arguments.config), for_the_hub)
    if arguments.json:
        print(as_json(findings))
    else:
        print_report(findings, Console())
    return 1 if any(finding.state is State.FAILED for finding in findings) else 0


def _findings(config: Path, for_the_hub: Sequence[str]) -> Sequence[Finding]:
    with Console(stderr=True).status("Reading the hub's configuration") as status:
        try:
            loaded = load(config, for_the_hub)
        except ConfigurationBroken as broken:
            return broken.findings

        def announce(what: str) -> None:
            status.update(f"Looking at {what}")

        return asyncio.run(check(loaded, now=datetime.now(UTC), announce=announce))
