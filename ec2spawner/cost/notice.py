"""What the agent's state announces: a spot interruption, or an order to save the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

INTERRUPTION: Final = "interruption"


@dataclass(frozen=True, slots=True)
class Notice:
    """That this machine ends soon, and why."""

    trigger: str
    """`interruption` (AWS reclaims the spot instance), or why the session is saved: `idle`,
    `user` or `hardware`."""
    until: float
    """When, in seconds since 1970."""
    id: str = ""
    """Of the order to save; empty for an interruption, of which there is one at a time."""
    is_saving: bool = False
    """The session is being saved: kernels that are free save their variables, then they end."""


def announced(state: Mapping[str, Any]) -> Notice | None:
    """The notice in a state of the agent; None without one, and for one that this version cannot
    read.

    An order to save because of an interruption is the same notice as the interruption.
    """
    try:
        if at := state.get("interruption_at"):
            return Notice(INTERRUPTION, _seconds(at), is_saving=bool(state.get("sleep")))
        if order := state.get("sleep"):
            trigger = str(order["trigger"])
            named = "" if trigger == INTERRUPTION else str(order["id"])
            return Notice(trigger, _seconds(order["until"]), named, is_saving=True)
    except (ValueError, TypeError, KeyError):
        return None
    return None


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
