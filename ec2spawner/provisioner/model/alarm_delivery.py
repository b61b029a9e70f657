"""One alarm on its way to one destination."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.alarms.alarm import Alarm


@dataclass(frozen=True, slots=True)
class AlarmDelivery:
    """An alarm that one destination has not confirmed yet. Instants in UTC."""

    alarm: Alarm
    destination: str
    """Its name: service and place in the configuration, such as `slack #2`."""
    attempts: int = 0
    next_at: datetime | None = None
    """Not before then; None is at once."""
