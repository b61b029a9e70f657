"""Whether a stop saves the session first, and what of an agent's report is recorded."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from ...wire import SavedSession, Stop, Trigger
from .rules import SleepRules

OF_THE_HUB: Final[dict[str, Trigger]] = {"idle": "idle", "max-age": "limit", "budget": "limit"}
"""Reasons of stops that the hub decides for a server that runs. Only an idle one has no cell that
runs. A stop that JupyterHub requests says itself whether it saves, see
`hub.api.jupyterhub_server_api`."""


def with_sleep(
    stop: Stop, then: Literal["sleep", "stop"], rules: SleepRules, *, is_ready: bool
) -> Stop:
    """The stop with why and for how long variables are saved, if they are.

    `then` is the idle policy's. `is_ready`: a start that is ended has no session yet. `hardware`
    stays where nothing can be saved: it also means that the server continues.
    """
    trigger: Trigger | None = stop.sleep
    if trigger is None and then == "sleep":
        trigger = OF_THE_HUB.get(stop.reason)
    if not is_ready or (not rules.save_seconds and trigger != "hardware"):
        trigger = None
    seconds = rules.save_seconds if trigger else 0.0
    if stop.save_seconds and trigger:  # whoever asks for it may know of less time
        seconds = min(stop.save_seconds, rules.save_seconds)
    return stop.model_copy(update={"sleep": trigger, "save_seconds": seconds})


def by_hub_clock(session: SavedSession, ready_at: datetime, now: datetime) -> SavedSession:
    """The session as if it had been saved while its server ran: an agent is its user's, and its
    clock may be wrong."""
    return session.model_copy(update={"slept_at": min(max(session.slept_at, ready_at), now)})
