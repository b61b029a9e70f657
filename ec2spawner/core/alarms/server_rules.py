"""Alarms about one server: an idle GPU, and a GPU that works for nobody. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...wire import Telemetry
from ..text.durations import in_words
from ..text.untrusted import visible
from .alarm import Alarm, AlarmRules, Kind

MINIMUM_GPU_PERCENT: Final = 5.0
"""Use below this is a driver's or a display's own, whatever the idle policy calls work."""


@dataclass(frozen=True, slots=True)
class GpuServer:
    """A ready server on an instance with GPUs, as its agent last described it."""

    lease_id: str
    user: str
    server: str
    """Empty for the default server."""
    instance: str
    """Id and type, such as `i-0a1b (g5.xlarge)`."""
    usd_per_hour: float | None
    idle_since: datetime | None
    """UTC; None while it is in use."""

    @property
    def name(self) -> str:
        """The user, with the name of the server where it has one; safe to show."""
        named = f"{self.user}/{self.server}" if self.server else self.user
        return visible(named)


def idle_gpu(server: GpuServer, rules: AlarmRules, now: datetime) -> Alarm | None:
    """A GPU server that has been idle for long; once a day."""
    if server.idle_since is None or (now - server.idle_since).total_seconds() < rules.idle_gpu:
        return None
    idle = in_words((now - server.idle_since).total_seconds())
    return Alarm(
        Kind.IDLE_GPU,
        server.lease_id,
        now.date().isoformat(),
        f"The GPU server of {server.name} has been idle for {idle}",
        f"{_described(server)} No idle rule has stopped it: its idle limit is off or longer, or its"
        " user extended it. Stop it on the admin page, or set a shorter `idle`.",
        now,
    )


def unattended_gpu(server: GpuServer, seconds: float, now: datetime) -> Alarm:
    """A GPU that has been busy for so many seconds without a kernel or terminal; once a day."""
    return Alarm(
        Kind.UNATTENDED_GPU,
        server.lease_id,
        now.date().isoformat(),
        f"A GPU of {server.name} works without a kernel or terminal",
        f"{_described(server)} A GPU has been busy for {in_words(seconds)} while no kernel and no "
        "terminal uses it. It may be a job that its user started and detached, or a program that "
        "somebody else planted there, such as a cryptocurrency miner. Ask the user what it is.",
        now,
    )


def is_unattended(telemetry: Telemetry | None, busy_percent: float) -> bool | None:
    """Whether a GPU is busy that no kernel and no terminal uses; None while that is unknown.

    A GPU counts as busy from `busy_percent` (0-100) on. A kernel that only holds memory on it does
    not use it; one whose use the driver does not report does.
    """
    if telemetry is None or telemetry.gpu_source == "none" or not telemetry.gpus:
        return None
    threshold = max(busy_percent, MINIMUM_GPU_PERCENT)
    busy = {each.index for each in telemetry.gpus if (each.use_percent or 0.0) >= threshold}
    for worker in telemetry.workers:
        works = worker.gpu_percent is None or worker.gpu_percent >= 1.0
        if worker.kind in ("kernel", "terminal") and works:
            busy.difference_update(worker.gpus)
    return bool(busy)


def _described(server: GpuServer) -> str:
    price = (
        "at an unknown price"
        if server.usd_per_hour is None
        else f"at {server.usd_per_hour:.2f} USD/hour (estimate)"
    )
    return f"Instance {visible(server.instance)} {price}."
