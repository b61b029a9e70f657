"""The findings as a person reads them, and as a program does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from .. import terminal
from .finding import Finding, State, ok
from .topics import Section, Topic

NARROW = 100
"""Columns of a terminal in which what was found has no room beside the names."""

MAX_NAME = 34
"""Columns for the names of findings; longer ones are folded."""

PAGE = "docs/reference/check-findings.md"

_MARKS = {
    State.OK: ("✓ ok", "green"),
    State.WARNING: ("! warning", "yellow"),
    State.UNPROVED: ("? unproved", "cyan"),
    State.FAILED: ("✗ failed", "bold red"),
}


def as_json(findings: Sequence[Finding]) -> str:
    """One line for programs: `passed` and `findings`."""
    passed = not any(finding.state is State.FAILED for finding in findings)
    return json.dumps({"passed": passed, "findings": [f.as_json() for f in findings]})


def print_report(findings: Sequence[Finding], console: Console) -> None:
    """A table for each section, with the fix and the code below what is not ok."""
    width = min(max((len(f.name) for f in findings), default=0), MAX_NAME)
    for section in Section:
        rows = [f for f in findings if f.topic.section is section]
        if rows:
            console.print(terminal.text(section, "bold"))
            console.print(_table(fold_permissions(rows), width, console))
            console.print()
    console.print(terminal.text(summary(findings)))


def fold_permissions(findings: Sequence[Finding]) -> list[Finding]:
    """The granted permissions in one line, before those that ask for something."""
    granted = [f for f in findings if f.topic is Topic.PERMISSION and f.state is State.OK]
    if len(granted) < 2:
        return list(findings)
    actions = ", ".join(sorted(f.name.rpartition(" ")[2] for f in granted))
    said = f"{len(granted)} granted: {actions}"
    return [ok(Topic.PERMISSION, said), *(f for f in findings if f not in granted)]


def _table(findings: Sequence[Finding], width: int, console: Console) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, width=max(len(mark) for mark, _ in _MARKS.values()) + 2)
    narrow = console.width < NARROW
    if not narrow:
        table.add_column(width=width, overflow="fold")
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = _MARKS[finding.state]
        below = [(finding.said, "")]
        if finding.fix:
            below.append((f"Fix: {finding.fix}", "italic"))
        if finding.state is not State.OK:
            below.append((f"Code: {finding.topic.code}", "dim"))
        name, said = terminal.text(finding.name), terminal.styled_lines(*below)
        beside = [name.append(": ").append_text(said)] if narrow else [name, said]
        table.add_row(terminal.text(f"  {mark}", style), *beside)
    return table


def summary(findings: Sequence[Finding]) -> str:
    """The last lines for people: a verdict, the number of findings in each state, the page."""
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state}" for state in State if counts[state]]
    verdict = "This will not work yet" if counts[State.FAILED] else "Nothing failed"
    said = f"{verdict}: {', '.join(parts)}. Nothing was started or changed."
    if counts.keys() - {State.OK}:
        return f"{said} Each code is explained in {PAGE}."
    return said
