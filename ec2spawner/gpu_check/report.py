"""The verdict as a table for people, and as one line of JSON, there and back."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .expectation import HEALTHY
from .figures import LABELS, UNITS, Figure, Figures, GpuFigures
from .verdict import Judged, JudgedGpu, State, Verdict

STYLES: dict[State, str] = {"fine": "green", "slow": "yellow", "broken": "bold red"}


def as_json(figures: Figures, verdict: Verdict) -> str:
    """One line."""
    judged = [
        {
            **asdict(gpu.gpu),
            "state": gpu.state,
            "figures": [
                {**asdict(each), "unit": UNITS[each.name], "share": each.share}
                for each in gpu.figures
            ],
        }
        for gpu in verdict.gpus
    ]
    report = {
        "verdict": {"state": verdict.state, "line": verdict.line},
        "gpus": judged,
        "problem": figures.problem,
    }
    return json.dumps(report)


def from_json(line: str) -> Figures:
    """The figures of a line of `as_json`. Raises `ValueError` for any other line."""
    try:
        parsed = json.loads(line)
        return Figures(tuple(_gpu(each) for each in parsed["gpus"]), parsed["problem"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"no report of a GPU check: {error!r}") from error


def _gpu(parsed: dict[str, Any]) -> GpuFigures:
    figures = tuple(
        Figure(each["name"], each["value"], each["why_not"]) for each in parsed["figures"]
    )
    known = {field.name: parsed[field.name] for field in fields(GpuFigures)}
    return GpuFigures(**known | {"figures": figures})


def print_report(verdict: Verdict, console: Console) -> None:
    """A line for each figure, and the verdict at the end."""
    for gpu in verdict.gpus:
        console.print(Text(_headline(gpu), style="bold"))
        if gpu.figures:
            console.print(_table(gpu))
        for why, labels in _not_measured(gpu).items():
            console.print(Text(f"Not measured: {' and '.join(labels)}: {why}."))
        console.print()
    console.print(Text(verdict.line, style=STYLES.get(verdict.state, "")))


def _headline(gpu: JudgedGpu) -> str:
    return f"{gpu.label}, {gpu.gpu.memory_mib / 1024:.1f} GiB"


def _table(gpu: JudgedGpu) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("figure")
    for title in ("measured", "datasheet", "share", "slow below"):
        table.add_column(title, justify="right")
    table.add_column("")
    for each in gpu.figures:
        if each.value is not None:
            table.add_row(*map(Text, _cells(each)))
    return table


def _not_measured(gpu: JudgedGpu) -> dict[str, list[str]]:
    """By the reason: which figures."""
    found: dict[str, list[str]] = {}
    for each in gpu.figures:
        if each.value is None:
            found.setdefault(each.why_not or "no time passed", []).append(LABELS[each.name])
    return found


def _cells(each: Judged) -> list[str]:
    label, unit = LABELS[each.name], UNITS[each.name]
    measured = f"{each.value:.1f} {unit}"
    if each.share is None:
        return [label, measured, "unknown", "", "", ""]
    shown = [f"{each.peak:.4g} {unit}", f"{100 * each.share:.0f} %"]
    return [label, measured, *shown, f"{100 * HEALTHY[each.name]:.0f} %", "slow" * each.is_slow]
