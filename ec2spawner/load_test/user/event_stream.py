"""The progress of a start, as JupyterHub streams it. Pure.

Each event is a line `data: {...}`; comments and empty lines keep the connection alive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

MAX_LINE: Final = 1 << 16
"""Bytes of one event; what ec2spawner sends is below 8 KiB."""

MAX_BYTES: Final = 16 << 20
"""Bytes of one stream: a keep-alive every 8 seconds and an event a second, for hours."""


class StreamRefused(Exception):
    """What arrives is no stream of events, or more than one."""


class EventStream:
    """Takes bytes in any pieces, returns the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._received = 0

    def feed(self, data: bytes) -> list[Mapping[str, Any]]:
        """The events that end in these bytes. Raises `StreamRefused`."""
        self._received += len(data)
        if self._received > MAX_BYTES:
            raise StreamRefused(f"the progress of the start is larger than {MAX_BYTES >> 20} MiB")
        *complete, self._rest = (self._rest + data).split(b"\n")
        if max(map(len, [*complete, self._rest])) > MAX_LINE:
            raise StreamRefused(f"an event of the start is larger than {MAX_LINE >> 10} KiB")
        return [_event(line) for line in complete if line.startswith(b"data:")]


def _event(line: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(line.removeprefix(b"data:"))
    except (ValueError, RecursionError) as error:
        raise StreamRefused("an event of the start is not JSON") from error
    if not isinstance(event, dict):
        raise StreamRefused("an event of the start is not an object")
    return event
