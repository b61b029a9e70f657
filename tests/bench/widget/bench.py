"""`widget`: what it costs a notebook server, and a browser, that people see what the server does.

One server after the other, on the same eight GPUs that are not there and with the same kernels, one
of which computes all the time: a server without any widget, ours, and others that can be installed
from the package index. First somebody looks at the widget, as its browser side does; then its
figures are asked for over one connection, again and again. The event loop of each is watched by
the same monitor.

**Whose stall it is.** A turn of the loop counts as a widget's when its code was on the stack, and
when the turn was over before anybody could look. The time in which the machine let the loop wait
for a core is taken off; `..._wall_max_ms` has it. The server without a widget has the figure too:
there it is turns that nobody looked into. `turn_max_ms` is of all turns, whoever's they are: what
our sampling thread takes of the interpreter while the server itself works would show there.
A thread that is denied a core while it holds the interpreter is not taken off: on a machine with
other work, stalls are longer than they need be.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, Goal, Result, median, percentile
from tests.bench.loop_monitor import Turn
from tests.bench.machine import describe_machine
from tests.bench.widget import peers
from tests.bench.widget.peers import PEERS, NoPeersError, install_peers
from tests.bench.widget.server import (
    GPUS,
    LAB_EXTENSION,
    NOTHING,
    OURS,
    Widget,
    WidgetServer,
    thread_seconds,
)
from tests.e2e.chromium import CHROMIUM
from tests.fake_nvml import FakeNvml

GOALS = {
    "sampler_cpu_percent": Goal(0.5, inclusive=False),
    "status_p99_ms": Goal(5, inclusive=False),
    "stall_max_ms": Goal(10, inclusive=False),
    "bundle_kb": Goal(100, inclusive=False),
    "browser_percent": Goal(1, inclusive=False),
}

SERVER_SECONDS = 300.0
"""For all that is done with one server."""

PAUSE = 0.05
"""Seconds between two requests, where it is measured how long they take."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. Seconds."""

    kernels: int
    settle: float
    watch: float
    ask: float
    browser: float


FULL = Size(kernels=20, settle=10, watch=30, ask=20, browser=30)
SHORT = Size(kernels=2, settle=1, watch=4, ask=3, browser=0)


@dataclass(frozen=True, slots=True)
class Measured:
    """All that one server gave."""

    server_cpu_percent: float
    """Of a core, by the server's own process while somebody looks."""
    sampler_cpu_percent: float | None
    """Of a core, by the sampling thread; ours only."""
    samples_per_second: float | None
    latencies: Sequence[float]
    turns: Sequence[Turn]
    """Those that count as the widget's, longest first."""
    longest: Turn | None
    """Of all turns."""
    browser_percent: float | None

    @property
    def stall_max_ms(self) -> float:
        return max((turn.own_ms for turn in self.turns), default=0.0)

    @property
    def stall_wall_max_ms(self) -> float:
        return max((turn.wall_ms for turn in self.turns), default=0.0)


def run(kernels: int | None, short: bool, console: Console, peers: bool = True) -> Result:
    """Measure, show a table, and say what was found."""
    machine = describe_machine()
    size = SHORT if short else FULL
    if kernels:
        size = Size(kernels, size.settle, size.watch, size.ask, size.browser)
    with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as folder:
        return asyncio.run(_measure_all(Path(folder), size, peers and not short, console, machine))


async def _measure_all(
    folder: Path, size: Size, with_peers: bool, console: Console, machine: dict[str, Any]
) -> Result:
    python = Path(sys.executable)
    found = {
        widget.name: await measure(widget, folder / widget.name, python, size, console)
        for widget in (NOTHING, OURS)
    }
    bundles = {OURS.name: compressed_kb(LAB_EXTENSION / "static")}
    if with_peers:
        try:
            python = await asyncio.to_thread(install_peers, folder / "peers")
        except NoPeersError as error:
            console.print(f"the others are not measured: {error}", style="yellow")
        else:
            for peer in PEERS:
                bundles[peer.name] = compressed_kb(peers.static_of(peer, folder / "peers"))
                try:
                    found[peer.name] = await measure(
                        peer, folder / peer.name, python, size, console
                    )
                except Exception as error:
                    console.print(f"{peer.name} is not measured: {error}", style="yellow")
    show(found, bundles, console)
    figures = figures_of(found, bundles, [peer.name for peer in PEERS])
    return Result("widget", figures | {"kernels": size.kernels, "gpus": GPUS}, GOALS, machine)


async def measure(
    widget: Widget, folder: Path, python: Path, size: Size, console: Console
) -> Measured:
    """Start a server, measure it and end it, whatever happens."""
    console.print(f"{widget.name}: {size.kernels} kernels", style="dim")
    folder.mkdir()
    (folder / "nvml").mkdir()
    server = WidgetServer(widget, folder, FakeNvml(folder / "nvml"), python, size.browser > 0)
    async with AsyncExitStack() as running:
        running.push_async_callback(server.stop)
        async with asyncio.timeout(SERVER_SECONDS):
            await server.start()
            kernels = await server.start_kernels(size.kernels)
            await asyncio.sleep(size.settle)
            in_browser = await _in_browser(server, size, console)
            await server.keep_busy(kernels[0])
            return await _measure(server, size, in_browser)


async def _measure(server: WidgetServer, size: Size, in_browser: float | None) -> Measured:
    began = time.time()
    clock = await server.thread("telemetry") if server.widget is OURS else None
    sampled = thread_seconds(clock) if clock else 0.0
    cpu, at = server.cpu_seconds(), time.monotonic()
    await watch(server, size.watch)
    elapsed = time.monotonic() - at
    cpu = server.cpu_seconds() - cpu
    sampled = thread_seconds(clock) - sampled if clock else 0.0
    took: list[float] = []
    bodies: list[bytes] = []
    if not server.widget.sockets:
        took, bodies = await asyncio.to_thread(server.latencies, size.ask, PAUSE)
    await asyncio.sleep(0.2)
    turns = server.turns(began, time.time())
    if clock:
        _check(json.loads(bodies[-1]), size.kernels)
    return Measured(
        server_cpu_percent=100 * cpu / elapsed,
        sampler_cpu_percent=100 * sampled / elapsed if clock else None,
        samples_per_second=_samples_per_second(bodies) if clock else None,
        latencies=took,
        turns=sorted(stalls_of(server.widget, turns), key=lambda turn: turn.own_ms, reverse=True),
        longest=max(turns, key=lambda turn: turn.own_ms, default=None),
        browser_percent=in_browser,
    )


async def watch(server: WidgetServer, seconds: float) -> None:
    """Look at the widget as its browser side does."""
    widget = server.widget
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for path in widget.sockets:
                group.create_task(_listen(server, path))
            if widget.sockets:
                return
            while True:
                await server.jupyter.call("GET", widget.path)
                if widget is OURS:
                    await server.jupyter.call("GET", "ec2spawner/api/history")
                await asyncio.sleep(widget.poll_seconds)


async def _listen(server: WidgetServer, path: str) -> None:
    async with server.jupyter.http.ws_connect(server.url + path) as socket:
        await socket.send_json({"updateFrequency": 100, "isPaused": False})
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                raise RuntimeError(f"{path}: {message}")


async def _in_browser(server: WidgetServer, size: Size, console: Console) -> float | None:
    if not size.browser:
        return None
    if CHROMIUM is None:
        console.print("there is no Chromium: the browser is not measured", style="yellow")
        return None
    from tests.bench.widget.browser import main_thread_percent

    try:
        async with asyncio.timeout(size.browser + 90):
            return await main_thread_percent(server, size.browser)
    except Exception as error:
        line = (str(error) or type(error).__name__).splitlines()[0]
        console.print(f"{server.widget.name}: the browser is not measured: {line}", style="yellow")
        return None


def _check(status: dict[str, Any], kernels: int) -> None:
    """What is measured shows all that it should. Raises `RuntimeError`."""
    telemetry = status["telemetry"]
    on_gpus = [
        worker
        for worker in telemetry["workers"]
        if worker["kind"] == "kernel" and worker["gpu_percent"] is not None
    ]
    if telemetry["gpu_source"] != "nvml" or len(telemetry["gpus"]) != GPUS:
        raise RuntimeError(f"not the {GPUS} GPUs: {telemetry['gpu_error']}")
    if len(on_gpus) != kernels:
        raise RuntimeError(f"{len(on_gpus)} kernels on GPUs instead of {kernels}")


def _samples_per_second(bodies: Sequence[bytes]) -> float | None:
    """By the instants of the samples that were answered."""
    sampled = sorted({json.loads(body)["telemetry"]["at"] for body in bodies})
    first, last = (datetime.fromisoformat(sampled[place]) for place in (0, -1))
    return (len(sampled) - 1) / (last - first).total_seconds() if len(sampled) > 1 else None


def stalls_of(widget: Widget, turns: Sequence[Turn]) -> list[Turn]:
    """Those with the widget's code on their stacks, and those that were not looked into."""
    begins = f"{widget.package}/"
    return [
        turn
        for turn in turns
        if not turn.stack
        or (widget.package and any(line.startswith(begins) for line in turn.stack))
    ]


def compressed_kb(static: Path) -> float | None:
    """All JavaScript and CSS of a lab extension; None where it is not built."""
    files = [file for file in static.rglob("*") if file.suffix in (".js", ".css")]
    return sum(len(gzip.compress(file.read_bytes())) for file in files) / 1000 if files else None


def figures_of(
    found: dict[str, Measured], bundles: dict[str, float | None], peers: Sequence[str]
) -> dict[str, Figure]:
    """Ours by their plain names, the others' with theirs before; None for what was not measured."""
    figures: dict[str, Figure] = {}
    bare = found[NOTHING.name]
    for name in (OURS.name, NOTHING.name, *peers):
        prefix = "" if name == OURS.name else f"{name}_"
        one = found.get(name)
        of_one: dict[str, Figure] = {
            "status_p50_ms": median(one.latencies) if one and one.latencies else None,
            "status_p99_ms": percentile(one.latencies, 99) if one and one.latencies else None,
            "stall_max_ms": one.stall_max_ms if one else None,
            "stall_wall_max_ms": one.stall_wall_max_ms if one else None,
            "turn_max_ms": one.longest.own_ms if one and one.longest else None,
            "server_cpu_percent": one.server_cpu_percent if one else None,
            "browser_percent": one.browser_percent if one else None,
        }
        if name != NOTHING.name:
            of_one["bundle_kb"] = bundles.get(name)
            of_one["browser_percent"] = _more(one, bare)
        figures |= {prefix + key: figure for key, figure in of_one.items()}
    ours = found[OURS.name]
    figures["sampler_cpu_percent"] = ours.sampler_cpu_percent
    figures["samples_per_s"] = ours.samples_per_second
    return figures


def _more(one: Measured | None, bare: Measured) -> float | None:
    """The browser's share beyond the page without the widget."""
    if one is None or one.browser_percent is None or bare.browser_percent is None:
        return None
    return one.browser_percent - bare.browser_percent


# --- for people ---------------------------------------------------------------------------------


def show(found: dict[str, Measured], bundles: dict[str, float | None], console: Console) -> None:
    table = Table("", *found)
    rows = {
        "server's CPU, % of a core": lambda m: m.server_cpu_percent,
        "of it the sampling thread": lambda m: m.sampler_cpu_percent,
        "GET, median ms": lambda m: median(m.latencies) if m.latencies else None,
        "GET, p99 ms": lambda m: percentile(m.latencies, 99) if m.latencies else None,
        "longest stall of the widget, ms": lambda m: m.stall_max_ms,
        "with waits for a core, ms": lambda m: m.stall_wall_max_ms,
        "longest turn of the loop, ms": lambda m: m.longest.own_ms if m.longest else None,
        "page's main thread, %": lambda m: m.browser_percent,
    }
    for title, figure in rows.items():
        table.add_row(title, *(_text(figure(measured)) for measured in found.values()))
    table.add_row("bundle, kB compressed", *(_text(bundles.get(name)) for name in found))
    console.print(table)
    for name, measured in found.items():
        worst = Table(f"worst stalls, {name}", "own ms", "wall ms", "CPU ms", "GC ms")
        for turn in measured.turns[:5]:
            numbers = (turn.own_ms, turn.wall_ms, turn.cpu_ms, turn.gc_ms)
            place = turn.place or "not looked into"
            worst.add_row(place, *(f"{number:.1f}" for number in numbers))
        console.print(worst)


def _text(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.2f}"
