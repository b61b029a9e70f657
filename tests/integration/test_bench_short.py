"""The spawn bench runs and says all it should. Its speed is for the bench, not for a test."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]

SECONDS = ("start_median_s", "start_p95_s", "naive_median_s", "naive_p95_s")
STALLS = (
    "loop_stall_max_ms",
    "loop_stall_less_queue_ms",
    "loop_stall_our_code_ms",
    "naive_loop_stall_max_ms",
    "naive_loop_stall_less_queue_ms",
)
RATIOS = ("ratio_to_naive", "p95_ratio_to_naive")
CALLS = ("api_calls_per_start", "naive_api_calls_per_start")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_short_spawn_bench_gives_every_figure() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench",
        "spawn",
        "--short",
        "--json",
        cwd=TREE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), 220)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # it ends its hubs
            await process.wait()
    assert process.returncode == 0, errors.decode()

    said = json.loads(output.decode().splitlines()[-1])
    figures = said["figures"]
    assert said["bench"] == "spawn"
    assert figures["starts"] == 3
    for name in (*SECONDS, *RATIOS, *STALLS):
        assert figures[name] > 0, name
    for name in ("start", "naive"):
        assert figures[f"{name}_median_s"] <= figures[f"{name}_p95_s"]
    # A start takes a launch and a look at what came of it, on either way.
    for name in CALLS:
        assert figures[name] >= 2, name
    assert figures["ratio_to_naive"] == pytest.approx(
        figures["start_median_s"] / figures["naive_median_s"], abs=0.01
    )
    assert said["goals"].keys() == said["met"].keys() <= figures.keys()
    assert all(isinstance(met, bool) for met in said["met"].values())
    assert said["machine"]["cpus"] >= 1
