"""What `ec2spawner reap` prints fits the terminal, and can be copied from it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ec2spawner.reap.report import Report, print_table
from ec2spawner.reap.rows import Row

IDS = ("i-0123456789abcdef0", "vol-0123456789abcdef1", "lt-0123456789abcdef2")

ROWS = [
    Row(
        kind=kind,
        id=each,
        state="running, g4dn.12xlarge, on-demand, ap-southeast-2a",
        ends=ends,
        why="the store does not know its lease-0123456789, so it may be an old copy. Start the hub",
        user="a-user-with-a-long-name/and-a-server",
        age_seconds=86400.0 * 12,
        usd_per_hour=4.891,
    )
    for kind, each, ends in zip(
        ("instance", "volume", "template"), IDS, (True, False, False), strict=True
    )
]


def printed(columns: int, rows: list[Row]) -> str:
    console = Console(file=io.StringIO(), width=columns)
    print_table(Report(hub="demo", store_id="s", hub_runs=False, rows=rows), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 160, 250])
def test_ids_are_whole_and_lines_fit(columns: int) -> None:
    output = printed(columns, ROWS)
    assert set(IDS) <= set(output.split())
    assert max(map(len, output.splitlines())) <= columns
    assert "12 d" in " ".join(output.split())
    assert "4.891" in output
