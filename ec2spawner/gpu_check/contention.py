"""Who else uses a GPU: a figure that was measured beside other work says nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

SETTLE_SECONDS: Final = 1.3
"""NVML reports the use of about the last second: after this, it no longer includes ours."""


class Others:
    """NVML if available; what it does not report is None."""

    def __init__(self) -> None:
        self._nvml: Any = None

    def __enter__(self) -> Others:
        with contextlib.suppress(Exception):  # no package, no library or no driver
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()

    def use_percent(self, bus_id: str) -> float | None:
        """Of the GPU, in the last second."""
        if self._nvml is None:
            return None
        try:
            handle = self._nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
            return float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except Exception:  # a slice has none, an old driver has not the call
            return None

    def after_us(self, bus_ids: Sequence[str]) -> list[float | None]:
        """The same for several, once what we did is over."""
        if self._nvml is not None:
            time.sleep(SETTLE_SECONDS)
        return [self.use_percent(bus_id) for bus_id in bus_ids]
