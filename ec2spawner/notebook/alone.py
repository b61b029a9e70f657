"""Without an agent (another spawner, a laptop): the extension measures by itself, while asked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime

from ..core.idle import Past, Signals, assess
from ..telemetry import Processes, Sampler, find_gpus
from ..wire import IdlePolicy, NotebookStatus
from .observer import Observer

UNASKED_SECONDS = 60.0
"""Nobody has asked for this long: sampling pauses."""

NO_POLICY = IdlePolicy(server_seconds=0, kernel_seconds=0, warn_seconds=0)
"""Nothing follows from being idle: that is somebody else's to decide here."""


class Alone:
    """GPU and idleness of a server that no agent stands behind."""

    def __init__(
        self,
        observer: Observer,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer = observer
        self._now = now
        self._monotonic = monotonic
        self._started_at = now()
        self._past: Past | None = None
        self._assessed_at = 0.0
        self._asked_at = 0.0
        self._sampler = Sampler(
            find_gpus(os.environ.get("EC2SPAWNER_SIMULATED_GPU")),
            Processes(os.getpid(), include_root=True),
        )

    async def status(self) -> NotebookStatus:
        self._asked_at = self._monotonic()
        self._sampler.start()
        seen = await self._observer.observe()
        gpu, cpu = self._sampler.readings()
        signals = Signals(
            started_at=self._started_at,
            kernels=seen.kernels,
            terminals=self._sampler.terminals(),
            last_input=seen.last_input,
            gpu=gpu,
            cpu=cpu,
        )
        now, monotonic = self._now(), self._monotonic()
        elapsed = monotonic - self._assessed_at if self._past else None
        idleness, self._past = assess(signals, NO_POLICY, now, self._past, elapsed)
        self._assessed_at = monotonic
        return NotebookStatus(
            now=now,
            managed=False,
            agent_connected=False,
            idleness=idleness,
            telemetry=self._sampler.latest,
        )

    def pause_unless_asked(self) -> None:
        """Stop to sample when nobody looks; the next question starts it again."""
        if self._monotonic() - self._asked_at > UNASKED_SECONDS:
            self._sampler.stop(timeout=0)

    def close(self) -> None:
        self._sampler.stop(timeout=0)
