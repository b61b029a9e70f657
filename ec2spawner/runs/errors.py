"""Why a run cannot be submitted, shown or delivered, for its user."""

from __future__ import annotations


class RunError(Exception):
    """What happened, what it means, and what can be done, in words."""


class RunRefused(RunError):
    """The hub has refused it: nothing was changed."""


class WrongRequest(RunError):
    """What was asked for cannot be; the message names the option and the fix."""
