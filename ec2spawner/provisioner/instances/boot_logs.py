"""Reads what an instance's boot log says of a failure."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from ...core.text.boot_log import quoted
from ..model.cloud.cloud import Cloud, CloudError

log = logging.getLogger(__name__)

BOOT_LOG_SECONDS: Final = 8.0
"""The user gets the reason within seconds, with or without the boot log."""

BOOT_LOGS_AT_ONCE: Final = 4
"""A hundred starts may fail together, and the calls to EC2 share one pool of threads."""


@dataclass(slots=True)
class BootLogs:
    """The boot logs of this hub's instances."""

    cloud: Cloud
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(BOOT_LOGS_AT_ONCE))

    async def end_of(self, instance_id: str) -> str:
        """Its end, for people; empty where EC2 has none or does not answer in time."""
        try:
            async with asyncio.timeout(BOOT_LOG_SECONDS), self._slots:
                text = await self.cloud.console_output(instance_id)
                # A hostile log takes tens of milliseconds.
                return await asyncio.to_thread(quoted, text)
        except (CloudError, TimeoutError) as error:
            log.info("The boot log of %s cannot be read: %s", instance_id, error)
            return ""
