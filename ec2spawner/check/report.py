"""The findings as a person reads them, and as a program does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .finding import Finding, State

_MARKS = {
    State.OK: Text("✓ ok", style="green"),
    State.WARNING: Text("! warning", style="yellow"),
    State.UNPROVED: Text("? unproved", style="cyan"),
    State.FAILED: Text("✗ failed", style="bold red"),
}


def as_json(findings: Sequence[Finding]) -> str:
    passed = not any(finding.state is State.FAILED for finding in findings)
    return json.dumps({"passed": passed, "findings": [f.as_json() for f in findings]})


def print_table(findings: Sequence[Finding], console: Console) -> None:
    """One line for each finding, its mend below where there is one."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "what", "found"):
        table.add_column(title, overflow="fold")
    for finding in findings:
        # Text, not markup: names and messages come from AWS and from people.
        said = Text(finding.said)
        if finding.mend:
            said.append(f"\nMend: {finding.mend}", style="bold")
        table.add_row(_MARKS[finding.state], Text(finding.name), said)
    console.print(table)
    console.print(Text(f"\n{summary(findings)}"))


def summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state}" for state in State if counts[state]]
    verdict = "This will not work yet" if counts[State.FAILED] else "Nothing was found wrong"
    return f"{verdict}: {', '.join(parts)}. Nothing was started or changed."
