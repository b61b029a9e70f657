"""What JupyterHub's progress stream reports of a start."""

from __future__ import annotations

from typing import Any


def notes_of(event: dict[str, Any]) -> list[str]:
    """The notes of an event, without the one on what comes with the instance: every start has that
    as soon as the hub has read the prices of disks and addresses."""
    return [note for note in event["notes"] if not note.startswith("Prices here are of")]
