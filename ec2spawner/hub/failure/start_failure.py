"""One failed start for its user: why there is no server, and what they can do now. Pure.

`diagnosis` finds it out, `rendering` turns it into text for REST and into HTML for pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ActionKind(StrEnum):
    """What an action changes about the start that failed."""

    START_OTHER = "start-other"
    """Another profile, or the same one in another market."""
    WAIT_FOR_SPOT = "wait-for-spot"
    """Offer of the same profile, which starts by itself once there is spot capacity."""
    MOVE_HOME = "move-home"
    """The same profile, in a zone that the home is moved to first."""
    RESTORE_HOME = "restore-home"
    """The same profile, with a home made from the newest snapshot."""
    EMPTY_HOME = "empty-home"
    """The same profile, with a new, empty home."""


@dataclass(frozen=True, slots=True)
class Action:
    """A start that the user can request instead; the page has a link for it."""

    kind: ActionKind
    label: str
    """Of the link; plain text."""
    user_options: Mapping[str, str] = field(hash=False)
    """What to send to JupyterHub for this start."""
    consequence: str = ""
    """What it takes or loses, to be read before the choice; a sentence or two."""


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why a start ended without a server, and what can be done about it."""

    reason: str
    """The code: `Stop.reason`, or `not-offered` or `timeout`; a label of JupyterHub's metrics."""
    message: str
    """What happened and what it means; plain text."""
    actions: tuple[Action, ...] = ()
    """Best first; empty if only the message helps."""
