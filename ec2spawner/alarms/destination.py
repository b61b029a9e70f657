"""Where alarms go."""

from __future__ import annotations

from typing import Protocol

from ..core.alarms.alarm import Alarm


class NotDelivered(Exception):
    """A destination did not accept an alarm; the message is why, without secrets."""


class Destination(Protocol):
    """One service that alarms are sent to."""

    @property
    def name(self) -> str:
        """As the admin has named it, else service and place, such as `slack #2`: no secret."""

    async def send(self, alarm: Alarm) -> None:
        """Send it once; returns when the service has accepted it. Raises `NotDelivered`."""

    def forget(self, alarm: Alarm) -> None:
        """The alarm is given up: `send` is not called for it again."""
