"""`proof`: what proving a saved session of 1 GB adds to the time and the CPU time of its save.

Each round saves the same session in two processes, one after the other: with the proof, and without
it. Which comes first changes with each round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, Goal, Result, median, ratio
from tests.bench.machine import describe_machine
from tests.bench.saved_session import Save

REPETITIONS = 5
REPETITIONS_SHORT = 1
MIB = 1024
MIB_SHORT = 64

GOALS = {
    "added_time": Goal(0.3),
    "added_cpu": Goal(1.0),
}
"""Shares of the save without the proof."""


def run(repetitions: int | None, short: bool, console: Console) -> Result:
    """Measure, show a table, and say what was found."""
    count, mib = (
        repetitions or (REPETITIONS_SHORT if short else REPETITIONS),
        MIB_SHORT if short else MIB,
    )
    saves: dict[bool, list[Save]] = {True: [], False: []}
    for number in range(count):
        for proves in (number % 2 == 0, number % 2 == 1):
            saves[proves].append(_save_elsewhere(proves, mib))
    console.print(_table(saves))
    return Result("proof", figures_of(saves[True], saves[False]), GOALS, describe_machine())


def figures_of(proved: list[Save], plain: list[Save]) -> dict[str, Figure]:
    """The figures by their names; medians of the repetitions."""
    seconds, plain_seconds = (median([s.seconds for s in each]) for each in (proved, plain))
    cpu, plain_cpu = (median([s.cpu_seconds for s in each]) for each in (proved, plain))
    return {
        "added_time": ratio(seconds - plain_seconds, plain_seconds),
        "added_cpu": ratio(cpu - plain_cpu, plain_cpu),
        "save_s": seconds,
        "plain_s": plain_seconds,
        "size_mib": proved[0].size_bytes >> 20,
        "variables": proved[0].variables,
        "proved": min(save.proved for save in proved),
        "repetitions": len(proved),
    }


def _save_elsewhere(proves: bool, mib: int) -> Save:
    with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as folder:
        kind = "proved" if proves else "plain"
        command = [sys.executable, "-m", "tests.bench.saved_session", folder, kind, str(mib)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        os.sync()  # the next save does not pay for this one
    return Save(*json.loads(done.stdout.splitlines()[-1]))


def _table(saves: dict[bool, list[Save]]) -> Table:
    first = saves[True][0]
    title = f"{first.variables} variables, {first.size_bytes >> 20} MiB"
    table = Table(title, "seconds", "CPU seconds", "proved")
    for name, proves in (("saved and proved", True), ("saved", False)):
        found = saves[proves]
        table.add_row(
            name,
            f"{median([save.seconds for save in found]):.2f}",
            f"{median([save.cpu_seconds for save in found]):.2f}",
            f"{min(save.proved for save in found)}",
        )
    return table
