"""The gauges of the notebook server's `/metrics`, from a status at hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ec2spawner.notebook.metrics import on_metrics_endpoint
from ec2spawner.wire import (
    Cost,
    DiskUse,
    GpuSample,
    Idleness,
    NotebookStatus,
    Telemetry,
    WorkersCost,
)

NOW = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
NAME = 'Tesla "T4"\\\n{x="y"} 1'


def status(**fields: object) -> NotebookStatus:
    return NotebookStatus(now=NOW, managed=True, agent_connected=True, **fields)


BUSY = status(
    cost=Cost(usd=1.5, usd_per_hour=0.6, as_of=NOW - timedelta(minutes=10), since=NOW),
    idleness=Idleness(idle_since=NOW - timedelta(seconds=90)),
    telemetry=Telemetry(
        at=NOW,
        cpu_percent=25,
        memory_used_mib=1024,
        gpus=[
            GpuSample(
                index=0,
                name=NAME,
                uuid="GPU-0",
                use_percent=42,
                memory_used_mib=1,
                memory_total_mib=2,
                temperature_c=61,
                power_w=55.5,
            ),
            GpuSample(index=1, name="T4", uuid="GPU-1", xid=79, lost=True),
        ],
    ),
)


def figures(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    text = generate_latest(registry).decode()
    return {
        (sample.name, sample.labels.get("gpu", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_cost_of_a_server_includes_its_workers() -> None:
    registry = CollectorRegistry()
    workers = WorkersCost(count=2, running=2, usd=2.0, usd_per_hour=1.2, as_of=NOW)
    cost = Cost(usd=1.5, usd_per_hour=0.6, as_of=NOW, since=NOW, workers=workers)
    with on_metrics_endpoint(lambda: status(cost=cost), registry):
        assert registry.get_sample_value("ec2spawner_cost_usd") == 3.5
        assert registry.get_sample_value("ec2spawner_price_usd_per_hour") == pytest.approx(1.8)
    unknown = cost.model_copy(update={"workers": WorkersCost(count=1, running=1, as_of=NOW)})
    with on_metrics_endpoint(lambda: status(cost=unknown), registry):
        assert registry.get_sample_value("ec2spawner_cost_usd") is None


def test_each_disk_has_the_share_of_its_space_and_inodes() -> None:
    registry = CollectorRegistry()
    home = DiskUse(kind="home", path="/home/ada", used_percent=93, inodes_percent=12)
    data = DiskUse(kind="data", path="/data/x", used_percent=50)
    with on_metrics_endpoint(lambda: status(disks=[home, data]), registry):
        labels = {"disk": "home", "path": "/home/ada"}
        assert registry.get_sample_value("ec2spawner_disk_used_ratio", labels) == 0.93
        assert registry.get_sample_value("ec2spawner_disk_inodes_used_ratio", labels) == 0.12
        labels = {"disk": "data", "path": "/data/x"}
        assert registry.get_sample_value("ec2spawner_disk_used_ratio", labels) == 0.5
        assert registry.get_sample_value("ec2spawner_disk_inodes_used_ratio", labels) is None


def test_each_figure_has_its_base_unit_and_unknown_ones_are_absent() -> None:
    registry = CollectorRegistry()
    with on_metrics_endpoint(lambda: BUSY, registry):
        found = figures(registry)
    assert found == {
        ("ec2spawner_idle_seconds", ""): 90,
        ("ec2spawner_cpu_use_ratio", ""): 0.25,
        ("ec2spawner_memory_used_bytes", ""): 2**30,
        ("ec2spawner_gpu_use_ratio", "0"): pytest.approx(0.42),
        ("ec2spawner_gpu_memory_used_bytes", "0"): 2**20,
        ("ec2spawner_gpu_memory_total_bytes", "0"): 2**21,
        ("ec2spawner_gpu_temperature_celsius", "0"): 61,
        ("ec2spawner_gpu_power_watts", "0"): 55.5,
        ("ec2spawner_gpu_lost", "0"): 0,
        ("ec2spawner_gpu_xid", "1"): 79,
        ("ec2spawner_gpu_lost", "1"): 1,
        ("ec2spawner_cost_usd", ""): pytest.approx(1.6),
        ("ec2spawner_price_usd_per_hour", ""): 0.6,
    }


def test_names_are_escaped() -> None:
    registry = CollectorRegistry()
    with on_metrics_endpoint(lambda: BUSY, registry):
        text = generate_latest(registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["ec2spawner_gpu_use_ratio"].samples[0].labels["name"] == NAME


def test_unknown_is_absent_and_never_zero() -> None:
    registry = CollectorRegistry()
    answers = iter([None, status(), status(idleness=Idleness(busy_because="a.ipynb is running"))])
    with on_metrics_endpoint(lambda: next(answers), registry):
        assert figures(registry) == {}
        assert figures(registry) == {}
        assert figures(registry) == {("ec2spawner_idle_seconds", ""): 0}


def test_metrics_query_nothing_at_registration_and_unregister_cleanly() -> None:
    registry = CollectorRegistry()

    def no_status() -> NotebookStatus:
        raise AssertionError("asked")

    for _ in range(2):
        with on_metrics_endpoint(no_status, registry):
            pass
    assert figures(registry) == {}
