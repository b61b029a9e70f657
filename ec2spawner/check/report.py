"""The findings as a person reads them, and as a program does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .. import terminal
from .finding import Finding, State, ok
from .repairs.apply import Outcome, Result
from .repairs.plan import merged
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

_BY_HAND = {
    Result.DECLINED: "Later",
    Result.DENIED: "With an administrator's credentials",
    Result.FAILED: "By hand",
}
"""What the command of a fix that was not made is for."""


def as_json(findings: Sequence[Finding], outcomes: Sequence[Outcome] | None = None) -> str:
    """One line for programs: `passed` and `findings`, with `--fix` also `fixes`."""
    passed = not any(finding.state is State.FAILED for finding in findings)
    said: dict[str, Any] = {"passed": passed, "findings": [f.as_json() for f in findings]}
    if outcomes is not None:
        said["fixes"] = [outcome.as_json() for outcome in outcomes]
    return json.dumps(said)


def print_outcomes(outcomes: Sequence[Outcome], console: Console) -> None:
    """What became of each fix; the command to type for those that were not made."""
    if not outcomes:
        console.print(terminal.text("Nothing here can be fixed by --fix."))
    for outcome in outcomes:
        line = f"{outcome.result}: {outcome.repair.what}"
        console.print(terminal.text(f"{line}. {outcome.error}" if outcome.error else line))
        if by_hand := _BY_HAND.get(outcome.result):
            command = terminal.text(f"  {by_hand}: {outcome.repair.command}", "italic")
            console.print(command, soft_wrap=True)
    console.print()


def print_report(
    findings: Sequence[Finding], console: Console, outcomes: Sequence[Outcome] = ()
) -> None:
    """A table for each section, with the fix and the code below what is not ok."""
    width = min(max((len(f.name) for f in findings), default=0), MAX_NAME)
    for section in Section:
        rows = [f for f in findings if f.topic.section is section]
        if rows:
            console.print(terminal.text(section, "bold"))
            console.print(_table(fold_permissions(rows), width, console))
            console.print()
    console.print(terminal.text(summary(findings, outcomes)))


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


def summary(findings: Sequence[Finding], outcomes: Sequence[Outcome] = ()) -> str:
    """The last lines for people: a verdict, the number of findings in each state, the page."""
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state}" for state in State if counts[state]]
    verdict = "This will not work yet" if counts[State.FAILED] else "Nothing failed"
    made = sum(outcome.result is Result.DONE for outcome in outcomes)
    fixed = f"{made} fix was made" if made == 1 else f"{made} fixes were made"
    changed = f"Nothing was started; {fixed}." if made else "Nothing was started or changed."
    said = f"{verdict}: {', '.join(parts)}. {changed}"
    if counts.keys() - {State.OK}:
        said = f"{said} Each code is explained in {PAGE}."
    if offered := len(merged(repair for finding in findings for repair in finding.repairs)):
        said = f"{said} `ec2spawner check --fix` offers {offered} of these fixes."
    return said
