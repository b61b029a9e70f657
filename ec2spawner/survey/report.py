"""The survey as a table, as JSON, or as comma-separated values."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .rows import Row


def print_json(rows: Sequence[Row]) -> None:
    print(json.dumps({"currency": "USD", "rows": [asdict(row) for row in rows]}))


def print_csv(rows: Sequence[Row]) -> None:
    names = [each.name for each in fields(Row)]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = asdict(row)
        cells["zones"] = " ".join(row.zones)
        cells["spot_by_zone"] = " ".join(f"{z}={usd:g}" for z, usd in row.spot_by_zone.items())
        writer.writerow(cells)


def print_table(rows: Sequence[Row], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    measured = any(row.latency_ms is not None for row in rows)
    table.add_column("region")
    table.add_column("profile", overflow="fold")
    table.add_column("cheapest type")
    for title in ("on-demand $/h", "spot $/h", "saving"):
        table.add_column(title, justify="right")
    table.add_column("spot by zone", overflow="fold")
    table.add_column("seven days")
    table.add_column("interrupted")
    if measured:
        table.add_column("latency", justify="right")
    for row in rows:
        cells = _cells(row)
        if measured:
            cells.append("" if row.latency_ms is None else f"{row.latency_ms:.0f} ms")
        table.add_row(*map(Text, cells))
    console.print(table)
    sources = dict.fromkeys(row.on_demand_source for row in rows if row.on_demand_source)
    if sources:
        console.print(
            Text(
                f"\nEstimates in USD before tax, instances alone. On-demand: "
                f"{', '.join(sources)}; spot: EC2 spot price history, now."
            )
        )


def _cells(row: Row) -> list[str]:
    if row.error:
        return [row.region, row.profile, "", "", "", "", row.error, "", ""]
    if not row.offered:
        return [row.region, row.profile, "not offered", "", "", "", "", "", ""]
    return [
        row.region,
        row.profile,
        row.instance_type,
        _usd(row.on_demand_usd_per_hour),
        _usd(row.spot_usd_per_hour),
        "" if row.saving_percent is None else f"{row.saving_percent} %",
        "  ".join(
            f"{zone.removeprefix(row.region)} {_usd(usd)}" for zone, usd in row.spot_by_zone.items()
        ),
        row.steadiness,
        row.risk,
    ]


def _usd(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:.3f}"
