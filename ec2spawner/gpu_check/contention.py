"""Use of a GPU by others: figures that were measured beside other work mean nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

SETTLE_SECONDS: Final = 1.3
"""NVML reports the use of about the last second: after this, it no longer includes ours."""


@contextlib.contextmanager
def opened_nvml() -> Iterator[Any]:
    """NVML until the end of the block; None without its package, library or driver."""
    nvml: Any = None
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        nvml = pynvml
    try:
        yield nvml
    finally:
        if nvml is not None:
            with contextlib.suppress(Exception):
                nvml.nvmlShutdown()


def use_percent(nvml: Any, bus_id: str) -> float | None:
    """Use of the GPU in the last second, in percent; None if NVML does not report it."""
    if nvml is None:
        return None
    try:
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
        return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except Exception:  # a MIG slice has none, an old driver lacks the call
        return None


def use_percent_after_ours(nvml: Any, bus_ids: Sequence[str]) -> list[float | None]:
    """The same for several GPUs, once our own work no longer counts. Blocks for a second."""
    if nvml is not None:
        time.sleep(SETTLE_SECONDS)
    return [use_percent(nvml, bus_id) for bus_id in bus_ids]
