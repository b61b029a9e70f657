"""`offers`: how fast the decision what to buy is, and what a sold-out market costs a start.

First the pure decision over every GPU type of the bundled table, beside a plain sort of the same
offers by price. Then starts of a real hub on an embedded EC2: spot everywhere, spot sold out in
all zones but one, spot nowhere, and nowhere once more, when the hub knows. Counted are the API
calls, and the time, from the POST to the instance launched.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, Goal, Result, median, p95, ratio
from tests.bench.machine import describe_machine
from tests.bench.ranking import Ranking, measure_ranking
from tests.bench.sold_out_starts import (
    AGAIN,
    EVERYWHERE,
    KINDS,
    NOWHERE,
    SOLD_OUT,
    HubLaunches,
    measure_launches,
)

REPETITIONS = 1000
REPETITIONS_SHORT = 100

HUBS = 3
HUBS_SHORT = 1

GOALS = {
    "rank_ms": Goal(5, inclusive=False),
    "extra_calls_sold_out": Goal(1),
}


def run(hubs: int | None, short: bool, console: Console) -> Result:
    """Measure, show tables, and say what was found. Raises `StartFailedError`."""
    machine = describe_machine()
    ranking = measure_ranking(REPETITIONS_SHORT if short else REPETITIONS)
    console.print(_ranking_table(ranking))
    count = hubs or (HUBS_SHORT if short else HUBS)
    with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as directory:
        launches = asyncio.run(measure_launches(Path(directory), count, console))
    console.print(_launches_table(launches))
    console.print(_calls_table(launches))
    return Result("offers", figures_of(ranking, launches), GOALS, machine)


def figures_of(ranking: Ranking, hubs: Sequence[HubLaunches]) -> dict[str, Figure]:
    """The figures by their names in `DESIGN.md`, and some more. Extra calls are the worst hub's."""
    figures: dict[str, Figure] = {
        "rank_ms": median(ranking.decide.cpu),
        "rank_p95_ms": p95(ranking.decide.cpu),
        "rank_wall_ms": median(ranking.decide.wall),
        "sort_ms": median(ranking.sort.cpu),
        "ratio_to_sort": ratio(median(ranking.decide.cpu), median(ranking.sort.cpu)),
        "offers": ranking.offers,
        "open_offers": ranking.open,
        "extra_calls_sold_out": max(hub.extra_calls(SOLD_OUT) for hub in hubs),
        "extra_calls_nowhere": max(hub.extra_calls(NOWHERE) for hub in hubs),
        "extra_calls_again": max(hub.extra_calls(AGAIN) for hub in hubs),
    }
    for kind in KINDS[1:]:
        name = kind.replace("-", "_")
        launches = [hub.launches[kind] for hub in hubs]
        figures[f"{name}_calls"] = median([launch.calls.total() for launch in launches])
        figures[f"{name}_launch_s"] = median([launch.seconds for launch in launches])
    return figures | {
        "sold_out_got_spot": sum(hub.launches[SOLD_OUT].market == "spot" for hub in hubs),
        "zones": hubs[0].zones,
        "hubs": len(hubs),
    }


# --- for people ---------------------------------------------------------------------------------


def _ranking_table(ranking: Ranking) -> Table:
    title = f"{ranking.offers} offers, {ranking.open} open"
    table = Table(title, "CPU ms", "p95", "wall ms", "p95")
    for name, times in (("decide", ranking.decide), ("only sort by price", ranking.sort)):
        figures = (median(times.cpu), p95(times.cpu), median(times.wall), p95(times.wall))
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    return table


def _launches_table(hubs: Sequence[HubLaunches]) -> Table:
    zones = hubs[0].zones
    names = {
        EVERYWHERE: "spot everywhere",
        SOLD_OUT: f"spot sold out in {zones - 1} of {zones} zones",
        NOWHERE: "spot sold out everywhere",
        AGAIN: "the same, and the hub knows",
    }
    table = Table("POST to instance launched", "median ms", "max ms", "calls", "extra calls, worst")
    for kind, name in names.items():
        seconds = [hub.launches[kind].seconds for hub in hubs]
        calls = median([hub.launches[kind].calls.total() for hub in hubs])
        extra = max(hub.extra_calls(kind) for hub in hubs)
        table.add_row(
            name, f"{1000 * median(seconds):.0f}", f"{1000 * max(seconds):.0f}", f"{calls:g}",
            f"{extra:+d}",
        )  # fmt: skip
    return table


def _calls_table(hubs: Sequence[HubLaunches]) -> Table:
    table = Table("calls, all starts", *KINDS[1:])
    totals = [sum((hub.launches[kind].calls for hub in hubs), Counter[str]()) for kind in KINDS[1:]]
    for action in sorted(set().union(*totals)):
        table.add_row(action, *(str(total[action]) for total in totals))
    return table
