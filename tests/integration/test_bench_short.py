"""The benches run and say all they should. Their speed is for the bench, not for a test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.bench.faults.bench import SHORT
from tests.bench.faults.timeout import SLOWNESS_VARIABLE
from tests.harness import until

pytestmark = pytest.mark.long

TREE = Path(__file__).resolve().parents[2]

BENCH_SECONDS = 800.0
"""One to two minutes on two cores that have nothing else to do."""

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


async def short_bench(name: str, *arguments: str) -> dict[str, Any]:
    """Run it as people do, and read its last line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench",
        name,
        "--short",
        "--json",
        *arguments,
        cwd=TREE,
        env=os.environ | {SLOWNESS_VARIABLE: "3"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), BENCH_SECONDS)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # it ends its hubs
            await process.wait()
    assert process.returncode == 0, errors.decode()

    print(errors.decode())  # its tables, which `make test-long` shows
    said: dict[str, Any] = json.loads(output.decode().splitlines()[-1])
    assert said["bench"] == name
    assert said["goals"].keys() == said["met"].keys() <= said["figures"].keys()
    assert all(isinstance(met, bool) for met in said["met"].values())
    assert said["machine"]["cpus"] >= 1
    return said


async def test_short_spawn_bench_gives_every_figure() -> None:
    said = await short_bench("spawn")
    figures = said["figures"]
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


async def test_short_offers_bench_gives_every_figure() -> None:
    said = await short_bench("offers")
    figures = said["figures"]
    assert 0 < figures["sort_ms"] < figures["rank_ms"] <= figures["rank_p95_ms"]
    assert figures["offers"] > figures["open_offers"] > 0
    assert figures["hubs"] == 1
    assert figures["zones"] > 1
    for kind in ("everywhere", "sold_out", "nowhere", "again"):
        assert figures[f"{kind}_launch_s"] > 0, kind
        assert figures[f"{kind}_calls"] >= 1, kind
    # These are counts, and so the same on any machine: one call asks all zones, and what is known
    # to be sold out is not asked again.
    assert said["met"]["extra_calls_sold_out"]
    assert figures["sold_out_got_spot"] == 1
    assert figures["extra_calls_nowhere"] <= 1
    assert figures["extra_calls_again"] <= 0


async def test_short_kill_bench_finds_points_and_kills_at_them() -> None:
    said = await short_bench("kill")
    figures = said["figures"]
    assert figures["points"] >= 8
    assert figures["killed"] + figures["not_reached"] == figures["points"]
    # What differs from run to run are listings; the calls that cost money come every time.
    assert figures["killed"] >= 7
    assert all(said["met"].values()), {name: figures[name] for name in said["met"]}


async def test_short_faults_bench_ends_every_cell_well() -> None:
    said = await short_bench("faults")
    assert said["figures"]["cells"] == len(SHORT)
    assert said["figures"]["said"] >= 4
    # Also that every action of the source is called by some part of the journey.
    assert all(said["met"].values()), said["figures"]


async def test_short_scale_bench_loses_nothing_and_makes_few_calls() -> None:
    said = await short_bench("scale", "--starts", "40")
    figures = said["figures"]
    assert figures["running_servers"] == 40
    assert 0 < figures["starts_60_median_s"] <= figures["starts_60_p95_s"]
    assert 0 < figures["health_p95_ms"] <= figures["health_max_ms"]
    assert 0 < figures["restart_1000_serving_s"] <= figures["restart_1000_reachable_s"]
    # These are counts, and so the same on any machine.
    counted = ("starts_100_launch_calls", "starts_100_throttles", "login_storm_errors")
    account = ("account_memory_added_mib", "account_store_mib")
    for name in (*counted, *account, "restart_1000_lost"):
        assert said["met"][name], f"{name}: {figures[name]}"
    # Twice the servers are not in the short form.
    assert figures["calls_per_min_2000"] is None


async def test_short_cluster_bench_buys_at_once_and_leaks_nothing() -> None:
    said = await short_bench("cluster")
    figures = said["figures"]
    assert figures["joins"] == 3
    for name in ("join", "plain_ray_start"):
        assert 0 < figures[f"{name}_median_s"] <= figures[f"{name}_p95_s"]
    # These are counts, and so the same on any machine.
    assert all(said["met"].values()), said["figures"]


async def test_short_widget_bench_measures_with_and_without_the_widget() -> None:
    said = await short_bench("widget")
    figures = said["figures"]
    # That all kernels and GPUs are in the status is seen to by the bench itself.
    assert (figures["kernels"], figures["gpus"]) == (2, 8)
    for prefix in ("", "bare_"):
        assert 0 < figures[f"{prefix}status_p50_ms"] <= figures[f"{prefix}status_p99_ms"]
        # Turns of less than a millisecond are not noted: there may be none.
        assert 0 <= figures[f"{prefix}stall_max_ms"] <= (figures[f"{prefix}turn_max_ms"] or 0)
        assert figures[f"{prefix}server_cpu_percent"] > 0
    assert figures["sampler_cpu_percent"] > 0
    assert figures["samples_per_s"] > 0
    # Neither a browser nor anybody else's widget is in the short form.
    assert figures["browser_percent"] is None
    assert figures["resource_usage_stall_max_ms"] is None
    assert not said["met"]["browser_percent"]


async def test_sigterm_ends_what_a_bench_has_started() -> None:
    """Its hub and EC2 have sessions of their own, so whoever ends the bench does not reach them."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench", "scale", "--only=starts60", "--starts=1"),
        cwd=TREE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    bench = psutil.Process(process.pid)
    children: dict[int, psutil.Process] = {}

    async def all_run() -> bool:
        assert process.returncode is None, "it ended before its hub ran"
        children.update((each.pid, each) for each in bench.children(recursive=True))
        programs = " ".join(" ".join(each.cmdline()) for each in children.values())
        return "jupyterhub" in programs and "configurable-http-proxy" in programs

    await until(all_run, 60, "EC2, proxy and hub to run")
    process.terminate()
    await asyncio.wait_for(process.wait(), 60)
    _, left = psutil.wait_procs(list(children.values()), timeout=10)
    assert left == []
