"""The prices as a table, as JSON, or as comma-separated values."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from textwrap import wrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from .. import terminal
from ..core.text.untrusted import visible
from ..data import INTERRUPTIONS_DATE, interruptions_source
from ..provisioner.offers.prices import SPOT_SOURCE
from .rows import Row

WIDEST = 1000
"""Columns in which any table has the width that it would like."""


def print_json(rows: Sequence[Row]) -> None:
    """All rows as one object; prices in USD/hour, unknown is null."""
    found = {
        "currency": "USD",
        "interruptions_of": INTERRUPTIONS_DATE.isoformat(),
        "rows": [asdict(row) for row in rows],
    }
    print(json.dumps(found))


def print_csv(rows: Sequence[Row]) -> None:
    """A header and a line for each row; prices in USD/hour, unknown is empty."""
    names = [each.name for each in fields(Row)]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = asdict(row)
        cells["zones"] = " ".join(row.zones)
        cells["spot_by_zone"] = " ".join(f"{z}={usd:g}" for z, usd in row.spot_by_zone.items())
        writer.writerow({n: visible(c) if isinstance(c, str) else c for n, c in cells.items()})


def print_table(rows: Sequence[Row], console: Console) -> None:
    """One line for each row where the terminal is wide enough, else a few."""
    known = [row for row in rows if not row.error]
    table = _table(known)
    room = console.options.update(width=WIDEST)
    if not known:
        pass
    elif console.measure(table, options=room).maximum <= console.width:
        console.print(table)
    else:
        _print_blocks(known, console)
    if sources := dict.fromkeys(row.on_demand_source for row in known if row.on_demand_source):
        said = f"On-demand prices: {', '.join(sources)}; spot prices: {SPOT_SOURCE}, now."
        console.print()
        console.print(
            terminal.text(f"Estimates in USD per hour, before tax, instances alone. {said}")
        )
    if any(row.risk for row in known):
        source = interruptions_source(datetime.now(UTC))
        console.print(terminal.text(f"Interruptions in a month: {source}."))
    for region, error in {row.region: row.error for row in rows if row.error}.items():
        console.print(terminal.text(f"✗ {region} could not be read: {error}", "red"))


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    measured = any(row.latency_ms is not None for row in rows)
    for title in ("region", "profile", "cheapest type"):
        table.add_column(title)
    for title in ("on-demand $/h", "spot $/h", "saving"):
        table.add_column(title, justify="right")
    for title in ("spot by zone", "seven days", "interrupted"):
        table.add_column(title)
    if measured:
        table.add_column("latency", justify="right")
    for row in rows:
        table.add_row(*map(terminal.text, [*_cells(row), *([_latency(row)] if measured else [])]))
    return table


def _cells(row: Row) -> list[str]:
    if not row.offered:
        return [row.region, row.profile, "not offered", *[""] * 6]
    return [
        row.region,
        row.profile,
        row.instance_type,
        _usd(row.on_demand_usd_per_hour),
        _usd(row.spot_usd_per_hour),
        "" if row.saving_percent is None else f"{row.saving_percent} %",
        _by_zone(row),
        row.steadiness,
        row.risk,
    ]


def _print_blocks(rows: Sequence[Row], console: Console) -> None:
    region = ""
    for row in rows:
        if row.region != region:
            region = row.region
            away = "" if row.latency_ms is None else f", {_latency(row)} away"
            console.print(terminal.text(f"{region}{away}", "bold"))
        kind = row.instance_type if row.offered else "not offered"
        named = terminal.text(row.profile, "cyan")
        named.append_text(terminal.text(f": {kind}", "default"))
        console.print(Padding(named, (0, 0, 0, 2)))
        if row.offered:
            # rich would break a line between a zone and its price; textwrap does not.
            lines = [line for said in _sentences(row) for line in wrap(said, console.width - 4)]
            console.print(Padding(terminal.lines(*lines), (0, 0, 0, 4)))


def _sentences(row: Row) -> list[str]:
    spot = f"spot {_usd(row.spot_usd_per_hour)}"
    if row.saving_percent is not None:
        spot += f" ({row.saving_percent} % saved)"
    risk = f"interrupted {row.risk}" if row.risk else ""
    said = [f"on-demand {_usd(row.on_demand_usd_per_hour)}", spot, row.steadiness, risk]
    lines = ["$/h: " + ", ".join(part for part in said if part)]
    return [*lines, f"by zone: {_by_zone(row)}"] if row.spot_by_zone else lines


def _by_zone(row: Row) -> str:
    return "  ".join(
        f"{zone.removeprefix(row.region)}\N{NO-BREAK SPACE}{_usd(usd)}"
        for zone, usd in row.spot_by_zone.items()
    )


def _latency(row: Row) -> str:
    if row.latency_ms is None:
        return ""
    return "under 1 ms" if row.latency_ms < 1 else f"{row.latency_ms:.0f} ms"


def _usd(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:.3f}"
