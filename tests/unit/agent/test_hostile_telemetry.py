"""Telemetry comes from instances where the user is root: what is no figure is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from ec2spawner.wire import MAX_BODY_BYTES, GpuSample, Heartbeat, MigSlice, Telemetry, Worker

AT = "2026-11-20T14:00:00Z"


def heartbeat(telemetry: str) -> str:
    return f'{{"protocol": 2, "sent_at": "{AT}", "telemetry": {{"at": "{AT}", {telemetry}}}}}'


GPU = '"index": 0, "name": "T4"'


@pytest.mark.parametrize(
    "telemetry",
    [
        '"cpu_percent": NaN',
        '"cpu_percent": Infinity',
        '"cpu_percent": 101',
        '"cpu_percent": -1',
        '"cpu_percent": "lots"',
        '"memory_used_mib": -Infinity',
        '"memory_total_mib": 1e400',
        '"network_in_mib_per_s": NaN',
        '"cpu_count": 0',
        '"gpu_source": "hearsay"',
        f'"gpus": [{{{GPU}, "temperature_c": NaN}}]',
        f'"gpus": [{{{GPU}, "temperature_c": 1e999}}]',
        f'"gpus": [{{{GPU}, "power_w": -5}}]',
        f'"gpus": [{{{GPU}, "ecc_corrected": {"9" * 40}}}]',
        f'"gpus": [{{{GPU}, "xid": 1.5}}]',
        f'"gpus": [{{{GPU}, "xid_at": "2026-11-20T14:00:00"}}]',
        f'"gpus": [{{{GPU}, "slowed_by": ["spite"]}}]',
        f'"gpus": [{{{GPU}, "lost": "perhaps"}}]',
        '"gpus": [{"index": -1, "name": "T4"}]',
        f'"gpus": [{{"index": 0, "name": "{"x" * 501}"}}]',
        f'"gpus": [{", ".join([f"{{{GPU}}}"] * 65)}]',
        f'"gpu_error": {{"code": "{"x" * 501}"}}',
        f'"gpu_error": {{"code": "x", "params": {{"detail": "{"x" * 501}"}}}}',
        f'"gpu_error": {{"code": "x", "params": {json.dumps({str(i): i for i in range(9)})}}}',
        '"workers": [{"kind": "kernel", "name": "a", "pid": -1}]',
        '"workers": [{"kind": "boss", "name": "a", "pid": 1}]',
        '"workers": [{"kind": "kernel", "name": "a", "pid": 1, "gpu_percent": NaN}]',
        '"workers": ' + json.dumps([{"kind": "kernel", "name": "a", "pid": 1}] * 51),
    ],
)
def test_invalid_figures_are_refused(telemetry: str) -> None:
    assert Heartbeat.model_validate_json(heartbeat('"cpu_percent": 1')).telemetry is not None
    with pytest.raises(ValidationError):
        Heartbeat.model_validate_json(heartbeat(telemetry))


def test_names_contain_no_terminal_control_sequences() -> None:
    gpu = GpuSample(index=0, name="T4\x1b[2J\x00", uuid="a\rb")
    assert (gpu.name, gpu.uuid) == ("T4 [2J ", "a b")


def test_a_heartbeat_of_the_largest_instance_fits() -> None:
    """Sixteen GPUs, the first eight of them cut into seven. Workers are not sent to the hub."""
    at = datetime(2026, 11, 20, 14, 0, 0, 123456, tzinfo=UTC)
    gpus = [
        GpuSample(
            index=index,
            name="NVIDIA H100 80GB HBM3",
            use_percent=99.9,
            memory_used_mib=81234.5,
            memory_total_mib=81559.0,
            temperature_c=81,
            power_w=699.999,
            uuid="GPU-12345678-1234-1234-1234-123456789012",
            power_limit_w=700,
            clock_mhz=1980,
            clock_max_mhz=1980,
            memory_clock_mhz=2619,
            slowed_by=["power", "heat", "hardware", "sync"],
            ecc_corrected=123456,
            ecc_uncorrected=12,
            xid=79,
            xid_at=at,
            mig=[
                MigSlice(
                    index=place,
                    profile="1g.10gb",
                    uuid="MIG-12345678-1234-1234-1234-123456789012",
                    memory_used_mib=9728.0,
                    memory_total_mib=9728.0,
                )
                for place in range(7 if index < 8 else 0)
            ],
        )
        for index in range(16)
    ]
    said: dict[str, Any] = {"protocol": 2, "sent_at": at + timedelta(seconds=1)}
    body = Heartbeat(telemetry=Telemetry(at=at, gpu_source="nvml", gpus=gpus), **said)
    assert len(body.model_dump_json().encode()) < MAX_BODY_BYTES / 2


def test_the_names_of_notebooks_stay_on_the_instance() -> None:
    from ec2spawner.agent.lease_status import for_hub

    worker = Worker(kind="kernel", name="secret plans.ipynb", pid=1)
    telemetry = Telemetry(at=datetime(2026, 11, 20, tzinfo=UTC), cpu_percent=5, workers=[worker])
    sent = for_hub(telemetry)
    assert sent is not None
    assert (sent.cpu_percent, sent.workers) == (5, [])
    assert for_hub(None) is None
