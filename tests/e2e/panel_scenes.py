"""Machines at work, for the panel's tests and pictures. All numbers are invented."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ec2spawner.wire import (
    ClusterStatus,
    Cost,
    GpuHistory,
    GpuSample,
    History,
    Limit,
    Market,
    MigSlice,
    Telemetry,
    Worker,
    WorkerStatus,
)

STEP_SECONDS = 5.0
STEPS = 720


def cost(**changes: Any) -> Cost:
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "usd": 1.37,
        "usd_per_hour": 0.42,
        "as_of": now,
        "since": now - timedelta(hours=3, minutes=16),
        "market": Market.SPOT,
        "on_demand_usd_per_hour": 1.006,
        "price_source": "EC2's spot price history",
        "saved_usd": 1.92,
        "today_usd": 4.21,
        "month_usd": 62.1,
        "budget_usd": 200,
        "used_usd": 1.06,
        "idle_usd": 0.27,
        "limits": [
            Limit(
                scope="user",
                name="ann",
                kind="usd_per_month",
                percent=31,
                threshold=25,
                limit=200,
                used=62.1,
                stops=True,
            ),
        ],
    }
    values |= changes
    known = ("usd", "usd_per_hour", "today_usd", "month_usd")
    same = {f"known_{name}": values[name] for name in known}
    return Cost(**same | values)


def gpu(index: int = 0, **changes: Any) -> GpuSample:
    values: dict[str, Any] = {
        "index": index,
        "name": "NVIDIA A10G",
        "use_percent": 87,
        "memory_used_mib": 13542,
        "memory_total_mib": 22888,
        "temperature_c": 61,
        "power_w": 212,
        "power_limit_w": 300,
        "clock_mhz": 1695,
        "clock_max_mhz": 1710,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
    }
    return GpuSample(**values | changes)


WORKERS = [
    Worker(
        kind="kernel",
        name="train.ipynb",
        pid=100,
        kernel_id="not-in-this-browser",
        cpu_percent=104,
        memory_mib=6200,
        gpus=[0],
        gpu_percent=81,
        gpu_memory_mib=13200,
    ),
    Worker(
        kind="terminal",
        name="python serve.py",
        pid=200,
        terminal="1",
        cpu_percent=3,
        memory_mib=800,
        gpus=[0],
        gpu_percent=0,
        gpu_memory_mib=410,
    ),
    Worker(kind="program", name="tensorboard", pid=300, cpu_percent=2, memory_mib=310),
]


def machine(*gpus: GpuSample, **changes: Any) -> Telemetry:
    values: dict[str, Any] = {
        "at": datetime.now(UTC),
        "gpu_source": "nvml" if gpus else "none",
        "gpus": list(gpus),
        "cpu_percent": 34,
        "cpu_count": 4,
        "memory_used_mib": 7400,
        "memory_total_mib": 16384,
        "disk_used_mib": 43008,
        "disk_total_mib": 102400,
        "disk_read_mib_per_s": 12.4,
        "disk_write_mib_per_s": 0.3,
        "network_in_mib_per_s": 1.2,
        "network_out_mib_per_s": 0.1,
        "workers": WORKERS if gpus else WORKERS[2:],
    }
    return Telemetry(**values | changes)


def eight_gpus() -> Telemetry:
    """A p4d.24xlarge: two of its GPUs are slowed down, one has failed, one is cut into slices."""
    a100 = {"name": "NVIDIA A100-SXM4-40GB", "memory_total_mib": 40960, "power_limit_w": 400}
    gpus = [
        gpu(
            index, **a100 | {"use_percent": 97 - 9 * index, "memory_used_mib": 38000 - 2900 * index}
        )
        for index in range(6)
    ]
    slowed = gpus[1].model_copy(update={"slowed_by": ["power"], "power_w": 398, "clock_mhz": 1215})
    hot = gpus[2].model_copy(update={"slowed_by": ["heat", "sync"], "temperature_c": 87})
    slices = [
        MigSlice(
            index=index,
            profile="3g.20gb" if index == 0 else "1g.5gb",
            use_percent=None,
            memory_used_mib=1200.0 * (index + 1),
            memory_total_mib=19968 if index == 0 else 4864,
        )
        for index in range(3)
    ]
    cut = gpu(6, **a100 | {"use_percent": None, "memory_used_mib": 7200, "mig": slices})
    now = datetime.now(UTC)
    lost = GpuSample(index=7, name=a100["name"], lost=True, xid=79, xid_at=now)
    workers = [
        WORKERS[0].model_copy(
            update={
                "pid": 100 + index,
                "name": f"experiments/2026/a long name of a notebook, number {index}.ipynb",
                "gpus": [index] if index else [0, 1, 2, 3, 5],
            }
        )
        for index in range(11)
    ]
    shown = [gpus[0], slowed, hot, *gpus[3:], cut, lost]
    return machine(*shown, cpu_count=96, memory_total_mib=1179648, workers=workers)


def worker(number: int, **changes: Any) -> WorkerStatus:
    """One of a cluster, which works."""
    values: dict[str, Any] = {
        "state": "ready",
        "instance_id": f"i-{number}",
        "instance_type": "g5.xlarge",
        "zone": "us-east-1b",
        "market": Market.SPOT,
        "since": datetime.now(UTC) - timedelta(minutes=20),
        "gpu_percent": 100 - 9.4 * number,
        "usd_per_hour": 0.31,
        "usd": 0.103,
    }
    return WorkerStatus(number=number, **values | changes)


def cluster(**changes: Any) -> ClusterStatus:
    """Five workers are wanted, each in another state; the sixth ends."""
    now = datetime.now(UTC)
    nothing: dict[str, Any] = dict.fromkeys(
        ("gpu_percent", "usd_per_hour", "usd", "market"),
    ) | dict.fromkeys(("instance_id", "instance_type", "zone"), "")
    workers = [
        worker(1),
        worker(2, idle_since=now - timedelta(minutes=4), gpu_percent=0),
        worker(3, interruption_at=now + timedelta(minutes=2), state="ready"),
        worker(4, state="ending", gpu_percent=None, usd_per_hour=None, usd=1.874),
        worker(5, state="starting", message="Joining Ray", gpu_percent=None, usd=0.004),
        worker(6, state="waiting", message="Looking for a machine", **nothing),
    ]
    values: dict[str, Any] = {
        "wanted": 5,
        "engine": "ray",
        "profile": "a10g-24-gb",
        "profile_name": "A10G, 24 GB",
        "workers": workers,
        "problem": "EC2 has no g5.xlarge in us-east-1b now",
    }
    return ClusterStatus(**values | changes)


def last_hour(gpus: int = 1, until: float | None = None) -> History:
    """The sketch's hour: a GPU that begins to work, with a pause; its memory fills."""
    end = math.floor((until or time.time()) / STEP_SECONDS) * STEP_SECONDS

    def curve(of: Callable[[float], float]) -> list[float | None]:
        return [max(0.0, min(100.0, of(step / STEPS))) for step in range(STEPS)]

    def use(index: int) -> list[float | None]:
        def at(x: float) -> float:
            pause = 60 * math.exp(-(((x - 0.55 - 0.03 * index) / 0.03) ** 2))
            busy = 88 - 9 * index + 4 * math.sin(40 * x + index) - pause
            return busy if x > 0.16 else 0

        return curve(at)

    def held(index: int) -> list[float | None]:
        return curve(lambda x: (58 - 6 * index + 4 * x) if x > 0.18 else 2)

    return History(
        step_seconds=STEP_SECONDS,
        at=[end - STEP_SECONDS * (STEPS - 1 - step) for step in range(STEPS)],
        cpu_percent=curve(lambda x: 30 + 20 * math.sin(12 * x)),
        memory_percent=curve(lambda x: 20 + 25 * x),
        gpus=[
            GpuHistory(index=i, name="GPU", use_percent=use(i), memory_percent=held(i))
            for i in range(gpus)
        ],
    )
