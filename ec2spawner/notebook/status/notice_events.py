"""Notices on Jupyter Server's event websocket: a hidden tab does not poll, and must be notified."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from ...wire import Notice, NoticesEvent

SCHEMA_ID = "https://events.ec2spawner.org/notices/v1"

RESEND_SECONDS = 60.0
"""A websocket that was down for a moment has missed what was sent meanwhile, unnoticed.
So current notices are sent again after this long; a browser recognizes them by their ids."""

RESENDS = 5
"""How often each list is sent again; after that other listeners of the log get nothing."""


def schema() -> dict[str, Any]:
    """The event's JSON schema, with what `jupyter_events` asks for."""
    return NoticesEvent.model_json_schema() | {
        "$id": SCHEMA_ID,
        "version": "1",
        "title": "Notices of this server",
        "description": "All that a person should know now: whenever one comes or goes, and each "
        "minute for five minutes after that.",
        "personal-data": True,
    }


class NoticeEvents:
    """Emits the notices when they change, and some times again.

    `logger` is the server's `EventLogger`, or None; `clock` is monotonic.
    """

    def __init__(self, logger: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._sent: list[Notice] = []
        self._sent_at = clock()
        self._left = 0
        """How often the last list will be sent again."""
        if logger is not None and SCHEMA_ID not in logger.schemas:
            logger.register_event_schema(schema())

    def tell(self, notices: Sequence[Notice], now: datetime) -> None:
        """Emit them if they are news, or if it is time to say them again."""
        if self._logger is None:
            return
        found = list(notices)
        if found == self._sent:
            if not self._left or self._clock() - self._sent_at < RESEND_SECONDS:
                return
            self._left -= 1
        else:
            self._left = RESENDS
        self._sent, self._sent_at = found, self._clock()
        event = NoticesEvent(now=now, notices=found)
        self._logger.emit(schema_id=SCHEMA_ID, data=event.model_dump(mode="json"))
