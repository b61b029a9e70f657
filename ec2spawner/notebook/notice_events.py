"""Notices on Jupyter Server's event websocket: a hidden tab asks for nothing, and must be told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..wire import Notice, NoticesEvent

SCHEMA_ID = "https://events.ec2spawner.org/notices/v1"


def schema() -> dict[str, Any]:
    """The event's JSON schema, with what `jupyter_events` asks for."""
    return NoticesEvent.model_json_schema() | {
        "$id": SCHEMA_ID,
        "version": "1",
        "title": "Notices of this server",
        "description": "All that a person should know now, whenever one comes or goes.",
        "personal-data": True,
    }


class NoticeEvents:
    """Emits the notices when they change. `logger` is the server's `EventLogger`, or None."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._told: list[Notice] = []
        if logger is not None and SCHEMA_ID not in logger.schemas:
            logger.register_event_schema(schema())

    def tell(self, notices: Sequence[Notice], now: datetime) -> None:
        """Emit them unless they are what was emitted last."""
        if self._logger is None or list(notices) == self._told:
            return
        self._told = list(notices)
        event = NoticesEvent(now=now, notices=self._told)
        self._logger.emit(schema_id=SCHEMA_ID, data=event.model_dump(mode="json"))
