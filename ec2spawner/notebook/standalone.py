"""Without an agent (another spawner, a laptop): the extension measures by itself."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ..core.idle.activity import Signals
from ..core.idle.stop_decision import Past, assess
from ..telemetry import HistoryBuffer, Processes, Sampler, find_gpus
from ..wire import IdlePolicy, NotebookStatus
from .observer import Observer

log = logging.getLogger(__name__)

UNASKED_SECONDS = 60.0
"""Without a request for this long, sampling continues more slowly."""

ASKED_INTERVAL = 1.0
UNASKED_INTERVAL = 5.0
"""Seconds from one sample to the next; the second is a step of the history."""

NO_POLICY = IdlePolicy(server_seconds=0, kernel_seconds=0, warn_seconds=0)
"""Idleness has no consequence: without an agent another system decides about stopping."""


class Standalone:
    """GPU and idleness of a server that no agent stands behind."""

    def __init__(
        self,
        observer: Observer,
        history: HistoryBuffer,
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
        self._asked_at = monotonic()
        self.last: NotebookStatus | None = None
        """What was found last."""
        self.sampler = Sampler(
            find_gpus(os.environ.get("EC2SPAWNER_SIMULATED_GPU"), Path.home()),
            Processes(os.getpid(), include_root=True),
            home=Path.home(),
            server_pid=os.getpid,
            on_sample=history.add,
        )

    async def run(self) -> None:
        """Measure until cancelled: history and notices need it without a browser, too."""
        self.sampler.start()
        while True:
            try:
                await self.check()
            except Exception:
                # One failed check must not be the last.
                log.exception("ec2spawner: a check of this server failed")
            await asyncio.sleep(self.sampler.interval)

    async def status(self) -> NotebookStatus:
        """The last status, measured again if it is older than two sampling intervals."""
        self._asked_at = self._monotonic()
        self.sampler.interval = ASKED_INTERVAL
        if self.last is None or self._asked_at - self._assessed_at > 2 * ASKED_INTERVAL:
            return await self.check()
        return self.last.model_copy(update={"now": self._now()})

    async def check(self) -> NotebookStatus:
        """Measure the status now."""
        is_asked = self._monotonic() - self._asked_at <= UNASKED_SECONDS
        self.sampler.interval = ASKED_INTERVAL if is_asked else UNASKED_INTERVAL
        seen = await self._observer.observe()
        self.sampler.see_kernels(seen.kernels)
        gpu, cpu = self.sampler.readings()
        signals = Signals(
            started_at=self._started_at,
            kernels=seen.kernels,
            terminals=self.sampler.terminals(),
            last_input=seen.last_input,
            gpu=gpu,
            cpu=cpu,
            workers=self.sampler.workers,
        )
        now, monotonic = self._now(), self._monotonic()
        elapsed = monotonic - self._assessed_at if self._past else None
        idleness, self._past = assess(signals, NO_POLICY, now, self._past, elapsed)
        self._assessed_at = monotonic
        self.last = NotebookStatus(
            now=now,
            managed=False,
            agent_connected=False,
            idleness=idleness,
            telemetry=self.sampler.latest,
        )
        return self.last

    def close(self) -> None:
        """Stop the sampling thread."""
        self.sampler.stop()
