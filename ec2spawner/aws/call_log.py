"""A record of every AWS call and its answer, for bug reports: written only where somebody asks.

It goes to a logger of its own at level DEBUG, one JSON object to a record: a hub that logs DEBUG
for everything would otherwise write megabytes a minute.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

MAX_ENTRIES: Final = 20
"""Entries of a list in an answer that are recorded."""

MAX_CHARACTERS: Final = 2_000
"""Characters of a text in an answer that are recorded."""

MAX_FILE_BYTES: Final = 16 << 20

_log = logging.getLogger("ec2spawner.aws.calls")
_log.setLevel(logging.WARNING)
_log.propagate = False


def record_to(path: Path) -> None:
    """From now on, record every call of this process in the file; its oldest half is dropped
    where it grows beyond `MAX_FILE_BYTES`."""
    handler = RotatingFileHandler(path, maxBytes=MAX_FILE_BYTES // 2, backupCount=1)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.addHandler(handler)
    _log.setLevel(logging.DEBUG)


def record(
    action: str, parameters: Mapping[str, Any], answer: Mapping[str, Any] | None, outcome: str
) -> None:
    """Record one call; `answer` is None where there is none. User data is left out: its text is
    encoded, so that nobody could redact it."""
    if not _log.isEnabledFor(logging.DEBUG):
        return
    fields = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "action": action,
        "parameters": _shortened(parameters),
        "outcome": outcome,
        "answer": _shortened(answer),
    }
    _log.debug("%s", json.dumps(fields, default=str))


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(name): f"({len(str(inner))} characters)"
            if name == "UserData"
            else _shortened(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        more = len(value) - MAX_ENTRIES
        shown = [_shortened(inner) for inner in value[:MAX_ENTRIES]]
        return [*shown, f"({more} more)"] if more > 0 else shown
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        return f"{value[:MAX_CHARACTERS]}…"
    return value
