"""Lets the agent know that this instance works, whatever its processors show.

Without that, an agent that has lost its hub would end an instance whose run waits for data, and one
whose result no hub has accepted yet.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final

from ..agent_socket.exchange import send
from ..wire import KernelState, Observation
from .threads import in_thread

INTERVAL_SECONDS: Final = 20.0
"""The agent believes an observation for 60 s."""

HOLD_SECONDS: Final = 2 * 3600.0
"""For a hub that is down at the end of the run. After that the instance is idle: a hub that never
comes back must not keep it running."""

log = logging.getLogger(__name__)


async def report_activity(socket: str, path: str) -> None:
    """Report a busy kernel of the document at `path`, again and again, until cancelled."""
    while True:
        now = datetime.now(UTC)
        kernel = KernelState(
            id="run", name=path, path=path, execution_state="busy", last_activity=now
        )
        message = Observation(at=now, kernels=[kernel]).model_dump(mode="json")
        try:
            await in_thread(send, socket, message)
        except OSError as error:
            log.warning("the agent does not know that this run works: %r", error)
        await asyncio.sleep(INTERVAL_SECONDS)
