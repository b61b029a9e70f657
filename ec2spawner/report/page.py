"""A report as one HTML page: no script, no request, nothing from outside. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..core.ledger.cost_lines import CostLine
from ..core.text.untrusted import visible
from . import wording
from .contents import Report
from .reconciled import Reconciled, headline, instance_words, reason_lines, remarks

_environment: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

CHART_WIDTH: Final = 800
CHART_HEIGHT: Final = 160
"""Of the chart, in its own units: it is scaled to the page."""

MAX_BAR: Final = 48
"""Width of a bar where there are few days."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One day of the chart: its place, and its parts from the bottom."""

    x: float
    width: float
    parts: Sequence[tuple[str, float, float]]
    """Name of the part, its upper edge and its height."""
    title: str


def report_html(report: Report, reconciled: Reconciled | None = None) -> str:
    """The page."""
    return _environment.get_template("report.html").render(
        title=visible(f"{report.scope.hub}: {wording.period(report)}"),
        user=visible(report.scope.user),
        made_at=f"{report.made_at:%Y-%m-%d %H:%M} UTC",
        cut=wording.cut(report),
        summary=wording.summary(report.total),
        estimate=wording.ESTIMATE,
        unknown=wording.unknown_prices(report.total),
        by=list(report.scope.by),
        rows=[_cells(line) for line in report.lines] if report.scope.by else [],
        total=wording.amounts(report.total),
        overhead=[(cause, wording.usd(nano)) for cause, nano in report.overhead.items()],
        chart=bars(report.days),
        chart_width=CHART_WIDTH,
        chart_height=CHART_HEIGHT,
        days=[_cells(day) for day in report.days],
        highest=wording.usd(max((day.nano_usd for day in report.days), default=0)),
        discounts=list(wording.discount_sentences(report.discounts, report.made_at)),
        against=_against(reconciled) if reconciled else None,
    )


def bars(days: Sequence[CostLine]) -> list[Bar]:
    """A bar for each day: what was used, idle and overhead, one above the other."""
    highest = max((day.nano_usd for day in days), default=0)
    if highest <= 0:
        return []
    slot = CHART_WIDTH / len(days)
    width = min(slot * 0.8, MAX_BAR)
    found = []
    for place, day in enumerate(days):
        edge = float(CHART_HEIGHT)
        parts = []
        shares = (("used", day.used), ("idle", day.idle), ("overhead", day.overhead))
        for name, nano_usd in shares:
            height = CHART_HEIGHT * max(nano_usd, 0) / highest
            edge -= height
            parts.append((name, round(edge, 2), round(height, 2)))
        title = (
            f"{day.key[0]}: {wording.amount(day.nano_usd, day.unknown)} USD "
            f"(used {wording.usd(day.used)}, idle {wording.usd(day.idle)}, "
            f"overhead {wording.usd(day.overhead)})"
        )
        found.append(
            Bar(round(place * slot + (slot - width) / 2, 2), round(width, 2), parts, title)
        )
    return found


def _cells(line: CostLine) -> tuple[list[str], list[str]]:
    return [visible(each) for each in wording.named(line.key)], wording.amounts(line)


def _against(found: Reconciled) -> dict[str, object]:
    return {
        "headline": visible(headline(found)),
        "reasons": reason_lines(found),
        "unsettled": [
            (visible(each.instance_id), visible(each.instance_type), instance_words(each))
            for each in found.unsettled
        ],
        "remarks": [visible(said) for said in remarks(found)],
    }
