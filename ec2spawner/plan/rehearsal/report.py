"""A rehearsal as a person reads it, and as a program does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from ... import terminal
from ...core.text.durations import approximate, in_words
from .prediction import Prediction
from .request import Rehearsal
from .result import Result, Times

TOTAL = "total"


def consent_words(rehearsal: Rehearsal, hub: str, predicted: Prediction) -> str:
    """What is about to happen, and what it costs."""
    number = rehearsal.number
    servers = "1 server" if number == 1 else f"{number} servers, all at once,"
    if predicted.usd is None or predicted.max_usd is None:
        cost = "No price is known, so neither is the cost."
    else:
        cost = (
            f"Predicted cost: about {predicted.usd:.2f} USD, and {predicted.max_usd:.2f} USD where "
            f"starts take as long as --timeout={rehearsal.timeout:g}."
        )
    return (
        f'This starts {servers} of profile "{rehearsal.profile}" at {hub} for real, as new users '
        f"with temporary homes, and stops them when all are ready or have failed. {cost}"
    )


def as_values(result: Result) -> dict[str, Any]:
    """For JSON: USD and seconds; unknown is null."""
    return {
        **asdict(result),
        "phases": {phase.value: asdict(found) for phase, found in result.phases.items()},
    }


def print_result(result: Result, console: Console) -> None:
    """Times by phase, where the servers were, why others failed, and the cost."""
    console.print()
    title = f"Rehearsal: {result.ready} of {result.requested} servers got ready"
    console.print(terminal.text(title, "bold"))
    if result.total is not None:
        console.print(Padding(_table(result, result.total), (0, 0, 0, 2)))
    for line in lines(result):
        console.print(Padding(terminal.text(line), (0, 0, 0, 2)))
    for each, why in result.left.items():
        said = f"Not removed, and may still cost money: {each}: {why}"
        console.print(Padding(terminal.text(said, "bold red"), (0, 0, 0, 2)))
    console.print()
    console.print(terminal.text(_summary(result)))


def _table(result: Result, total: Times) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("phase")
    for name in ("median", "95th percentile", "slowest", "starts"):
        table.add_column(name, justify="right")
    for phase, found in result.phases.items():
        table.add_row(*_row(phase.value, found))
    table.add_row(*_row(TOTAL, total), style="bold")
    return table


def _row(name: str, found: Times) -> list[str]:
    figures = (f"{each:.1f} s" for each in (found.median, found.p95, found.max))
    return [name, *figures, str(found.count)]


def lines(result: Result) -> Iterator[str]:
    """What the table does not say, a sentence each."""
    yield from _waited(result)
    for place in result.places:
        yield f"{place.count} {place.market}: {place.instance_type} in {place.zone}"
    if result.on_waiting:
        yield f"{result.on_waiting} of them on an instance that was up already"
    for failure in result.failures:
        yield f"{failure.count} failed ({failure.outcome}): {failure.message}"
    yield _cost(result)
    if result.stop_seconds is not None:
        yield f"All were stopped and their instances gone in {approximate(result.stop_seconds)}."


def _waited(result: Result) -> Iterator[str]:
    waited, usual = result.waited, result.predicted.durations
    if waited is None:
        return
    said = (
        f"As their users see it: half within {in_words(waited.median)}, 95 % within "
        f"{in_words(waited.p95)}, the last after {in_words(waited.max)}."
    )
    if usual is None:
        yield f"{said} The plan knew of no earlier start."
        return
    p95 = "" if usual.p95 is None else f", 95 % within {in_words(usual.p95)}"
    yield f"{said} Of past starts half were within {in_words(usual.median)}{p95}."


def _cost(result: Result) -> str:
    predicted = result.predicted.usd
    plan = "no price was known" if predicted is None else f"{predicted:.4f} USD were predicted"
    if result.usd is None:
        return f"The cost is unknown: {result.usd_lacks}; {plan}."
    lacks = f", a lower bound: {result.usd_lacks}" if result.usd_lacks else ""
    return (
        f"Cost by the ledger: {result.usd:.4f} USD for instances with disks and addresses{lacks}; "
        f"{plan}. Not in it: the temporary homes, which the ledger counts once an hour."
    )


def _summary(result: Result) -> str:
    if result.is_clean:
        return "Every start succeeded, and nothing is left."
    failed = result.requested - result.ready
    parts = [f"{failed} of {result.requested} starts did not succeed"] if failed else []
    if result.left:
        parts.append(
            "not everything could be removed. Fix: ec2spawner plan --rehearse=0 --yes; the hub "
            "ends these servers by itself"
        )
    else:
        parts.append("nothing is left")
    return f"{'; '.join(parts)}."
