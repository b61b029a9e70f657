"""A record of every AWS call and its answer, for bug reports: written only where somebody asks.

It goes to a logger of its own at level DEBUG, one JSON object to a record: a hub that logs DEBUG
for everything would otherwise write megabytes a minute. It shows one store: tags of others' servers
name people who have nothing to do with the bug.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from ...core.tags import HUB, STORE

MAX_ENTRIES: Final = 20
"""Entries of a list in an answer that are recorded."""

MAX_CHARACTERS: Final = 2_000
"""Characters of a text in an answer that are recorded."""

MAX_FILE_BYTES: Final = 16 << 20

_log = logging.getLogger("ec2spawner.aws.calls")
_log.setLevel(logging.WARNING)
_log.propagate = False


class _Lines(logging.Formatter):
    """A call as one line of JSON, without resources of other stores."""

    def __init__(self, store_id: str) -> None:
        super().__init__()
        self._store_id = store_id

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_shortened(vars(record)["call"], self._store_id), default=str)


def record_to(path: Path, store_id: str) -> None:
    """From now on, record every call of this process in the file; its oldest half is dropped
    where it grows beyond `MAX_FILE_BYTES`. Of what hubs created, only the store's is recorded."""
    handler = RotatingFileHandler(path, maxBytes=MAX_FILE_BYTES // 2, backupCount=1)
    handler.setFormatter(_Lines(store_id))
    _log.addHandler(handler)
    _log.setLevel(logging.DEBUG)


def record(
    action: str, parameters: Mapping[str, Any], answer: Mapping[str, Any] | None, outcome: str
) -> None:
    """Record one call; `answer` is None where there is none. User data is left out: its text is
    encoded, so that nobody could redact it."""
    call = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "action": action,
        "parameters": parameters,
        "outcome": outcome,
        "answer": answer,
    }
    _log.debug("%s", action, extra={"call": call})


def _shortened(value: Any, store_id: str) -> Any:
    if isinstance(value, Mapping):
        return {
            str(name): f"({len(str(inner))} characters)"
            if name == "UserData"
            else _shortened(inner, store_id)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        own = [inner for inner in value if not _is_anothers(inner, store_id)]
        shown = [_shortened(inner, store_id) for inner in own[:MAX_ENTRIES]]
        if more := len(own) - len(shown):
            shown.append(f"({more} more)")
        if others := len(value) - len(own):
            shown.append(f"({others} of other stores)")
        return shown
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        return f"{value[:MAX_CHARACTERS]}…"
    return value


def _is_anothers(value: Any, store_id: str) -> bool:
    """Whether it is a resource of a hub under another store, or a reservation of nothing else."""
    if not isinstance(value, Mapping):
        return False
    if instances := value.get("Instances"):
        return all(_is_anothers(instance, store_id) for instance in instances)
    listed = value.get("Tags") or value.get("TagSet") or ()  # of a network interface
    tags = {tag.get("Key"): tag.get("Value") for tag in listed if isinstance(tag, Mapping)}
    return (HUB in tags or STORE in tags) and tags.get(STORE) != store_id
