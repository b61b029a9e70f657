"""The account's vCPU quotas, read once a day where alarms want them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from ...core.offers.quotas import ListedQuota
from ..model.cloud.cloud import Cloud, CloudError

log = logging.getLogger(__name__)

TIMEOUT: Final = 60.0
"""Seconds to read them all: Service Quotas lists some two hundred of EC2's, 50 to a page."""

DAILY: Final = timedelta(days=1)
"""Between readings: AWS changes a quota within hours or days of a request."""


class QuotaReadings:
    """As they were read last; empty while unknown."""

    def __init__(self, cloud: Cloud) -> None:
        self.listed: Sequence[ListedQuota] = ()
        self._cloud = cloud
        self._due_at: datetime | None = None

    async def refresh(self, now: datetime) -> None:
        """Read them if that is due. A failure keeps the old ones until tomorrow."""
        if self._due_at is not None and now < self._due_at:
            return
        self._due_at = now + DAILY
        try:
            async with asyncio.timeout(TIMEOUT):
                self.listed = await self._cloud.quotas()
        except (CloudError, TimeoutError) as error:
            log.warning(
                "No alarms of quotas for a day: reading them failed: %s", error or "no answer"
            )
