"""A record of every AWS call and its answer, for bug reports: written only where somebody asks.

It goes to a logger of its own at level DEBUG, one JSON object to a record: a hub that logs DEBUG
for everything would otherwise write megabytes a minute.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

NAME: Final = "ec2spawner.aws.calls"

MAX_CHARACTERS: Final = 20_000
"""Characters of one answer that are recorded."""

_log = logging.getLogger(NAME)
_log.setLevel(logging.WARNING)


def record(
    action: str, parameters: Mapping[str, Any], answer: Mapping[str, Any] | None, outcome: str
) -> None:
    """Record one call; `answer` is None where there is none. User data is left out: it is long,
    and its text is encoded, so that nobody could redact it."""
    if not _log.isEnabledFor(logging.DEBUG):
        return
    said = json.dumps(_without_user_data(answer or {}), default=str)
    fields = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "action": action,
        "parameters": _without_user_data(parameters),
        "outcome": outcome,
        "answer": said if len(said) <= MAX_CHARACTERS else f"{said[:MAX_CHARACTERS]}…",
    }
    _log.debug("%s", json.dumps(fields, default=str))


def _without_user_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: f"({len(str(inner))} characters)"
            if name == "UserData"
            else _without_user_data(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_user_data(inner) for inner in value]
    return value
