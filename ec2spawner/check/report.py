"""The findings as a person reads them, and as a program does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from .. import terminal
from .finding import Finding, State

NARROW = 100
"""Columns of a terminal in which what was found has no room beside the names."""

_MARKS = {
    State.OK: terminal.text("✓ ok", "green"),
    State.WARNING: terminal.text("! warning", "yellow"),
    State.UNPROVED: terminal.text("? unproved", "cyan"),
    State.FAILED: terminal.text("✗ failed", "bold red"),
}


def as_json(findings: Sequence[Finding]) -> str:
    """One line for programs: `passed` and `findings`."""
    passed = not any(finding.state is State.FAILED for finding in findings)
    return json.dumps({"passed": passed, "findings": [f.as_json() for f in findings]})


def print_table(findings: Sequence[Finding], console: Console) -> None:
    """One line for each finding, its fix below where there is one."""
    narrow = console.width < NARROW
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    if not narrow:
        table.add_column(max_width=console.width // 3, overflow="fold")
    table.add_column(overflow="fold")
    for finding in findings:
        name, said = terminal.text(finding.name, "bold"), terminal.text(finding.said)
        if finding.fix:
            said.append("\n").append_text(terminal.text(f"Fix: {finding.fix}", "italic"))
        beside = [name.append(": ").append_text(said)] if narrow else [name, said]
        table.add_row(_MARKS[finding.state], *beside)
    console.print(table)
    console.print()
    console.print(terminal.text(summary(findings)))


def summary(findings: Sequence[Finding]) -> str:
    """The last line for people: a verdict and the number of findings in each state."""
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state}" for state in State if counts[state]]
    verdict = "This will not work yet" if counts[State.FAILED] else "Nothing failed"
    return f"{verdict}: {', '.join(parts)}. Nothing was started or changed."
