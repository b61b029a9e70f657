"""The process's own counters, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import REGISTRY


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0
