"""What Jupyter Server's `/metrics` says of this server: figures of the last status, from memory.

Nothing is measured when Prometheus asks: a collector runs on the event loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..wire import Cost, DiskUse, GpuSample, NotebookStatus, Telemetry, WorkersCost

MIB = 2**20

OF_GPU = ("gpu", "name", "uuid")


class StatusCollector(Collector):
    """Gauges of the status that a callable has at hand; None where there is none yet."""

    def __init__(self, status: Callable[[], NotebookStatus | None]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Gauges from the last status; an unknown value is absent, never 0."""
        status = self._status()
        if status is None:
            return
        yield from _of_work(status)
        if status.telemetry is not None:
            yield from _of_machine(status.telemetry)
            yield from _of_gpus(status.telemetry.gpus)
        yield from _of_disks(status.disks)
        if status.cost is not None:
            yield from _of_cost(status.cost, status.now)

    def describe(self) -> list[Metric]:
        """Nothing: a registry that asks at registration would measure before there is anything."""
        return []


@contextlib.contextmanager
def on_metrics_endpoint(
    status: Callable[[], NotebookStatus | None], registry: CollectorRegistry = REGISTRY
) -> Iterator[None]:
    """For as long as this is entered, `registry`, which Jupyter Server shows, has our gauges."""
    collector = StatusCollector(status)
    registry.register(collector)
    try:
        yield
    finally:
        registry.unregister(collector)


def _of_work(status: NotebookStatus) -> Iterator[Metric]:
    if status.idleness is None:
        return
    since = status.idleness.idle_since
    yield GaugeMetricFamily(
        "ec2spawner_idle_seconds",
        "For how long nothing has worked on this server; 0 while something does",
        max((status.now - since).total_seconds(), 0.0) if since else 0.0,
    )


def _of_machine(telemetry: Telemetry) -> Iterator[Metric]:
    figures = (
        ("ec2spawner_cpu_use_ratio", "CPU use, of all cores together", telemetry.cpu_percent, 0.01),
        ("ec2spawner_memory_used_bytes", "Memory in use", telemetry.memory_used_mib, MIB),
        ("ec2spawner_memory_total_bytes", "Memory there is", telemetry.memory_total_mib, MIB),
    )
    for name, words, figure, factor in figures:
        if figure is not None:
            yield GaugeMetricFamily(name, words, figure * factor)


def _of_disks(disks: list[DiskUse]) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[DiskUse], float | None]], ...] = (
        ("used_ratio", "Space of the disk in use", lambda disk: disk.used_percent),
        ("inodes_used_ratio", "Inodes of the disk in use", lambda disk: disk.inodes_percent),
    )
    for name, words, read in figures:
        family = GaugeMetricFamily(f"ec2spawner_disk_{name}", words, labels=("disk", "path"))
        for disk in disks:
            if (figure := read(disk)) is not None:
                family.add_metric([disk.kind, disk.path], figure / 100)
        if family.samples:
            yield family


def _of_gpus(gpus: list[GpuSample]) -> Iterator[Metric]:
    figures: list[tuple[str, str, Callable[[GpuSample], float | None], float]] = [
        ("use_ratio", "GPU use", lambda gpu: gpu.use_percent, 0.01),
        ("memory_used_bytes", "GPU memory in use", lambda gpu: gpu.memory_used_mib, MIB),
        ("memory_total_bytes", "GPU memory there is", lambda gpu: gpu.memory_total_mib, MIB),
        ("temperature_celsius", "GPU temperature", lambda gpu: gpu.temperature_c, 1),
        ("power_watts", "GPU power", lambda gpu: gpu.power_w, 1),
        ("xid", "Number of the last critical error of the GPU", lambda gpu: gpu.xid, 1),
        ("lost", "1 for a GPU that does not answer any more", lambda gpu: float(gpu.lost), 1),
    ]
    for name, words, read, factor in figures:
        family = GaugeMetricFamily(f"ec2spawner_gpu_{name}", words, labels=OF_GPU)
        for gpu in gpus:
            if (figure := read(gpu)) is not None:
                family.add_metric([str(gpu.index), gpu.name, gpu.uuid], figure * factor)
        if family.samples:
            yield family


def _of_cost(cost: Cost, now: datetime) -> Iterator[Metric]:
    parts: list[Cost | WorkersCost] = [cost, *([cost.workers] if cost.workers else [])]
    spent = [_cost_at(each, now) for each in parts]
    prices = [each.usd_per_hour for each in parts]
    if None not in spent:
        yield GaugeMetricFamily(
            "ec2spawner_cost_usd",
            "What this server and its workers have cost since its start, an estimate",
            sum(usd or 0.0 for usd in spent),
        )
    if None not in prices:
        yield GaugeMetricFamily(
            "ec2spawner_price_usd_per_hour",
            "Price of this server and its workers",
            sum(usd or 0.0 for usd in prices),
        )


def _cost_at(cost: Cost | WorkersCost, now: datetime) -> float | None:
    if cost.usd is None:
        return None
    passed = max((now - cost.as_of).total_seconds(), 0.0)
    return cost.usd + (cost.usd_per_hour or 0.0) * passed / 3600
