"""What became of a start, in a word: few enough for a label of a metric."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How a start ended."""

    READY = "ready"
    """The notebook listened."""
    CANCELLED = "cancelled"
    """By its user, an admin or JupyterHub."""
    SOLD_OUT = "sold-out"
    """EC2 had no instance of the kind."""
    QUOTA = "quota"
    """AWS's limit for the account."""
    REFUSED = "refused"
    """EC2 refused the launch: an admin must fix a permission or the configuration."""
    LIMIT = "limit"
    """The hub's own limit on spending or use."""
    FAILED = "failed"
    """Boot, home or notebook did not come up, or the instance was lost."""


_BY_REASON: Final[Mapping[str, Outcome]] = {
    "user": Outcome.CANCELLED,
    "admin": Outcome.CANCELLED,
    "hub": Outcome.CANCELLED,
    "capacity": Outcome.SOLD_OUT,
    "quota": Outcome.QUOTA,
    "budget": Outcome.LIMIT,
}
"""By `wire.Stop.reason`; any other is a failure."""


def outcome_of_failure(reason: str, *, is_refused: bool) -> Outcome:
    """Of a start that ended before it was ready, by the reason of its stop.

    `is_refused` says whether EC2 refused its last launch call for a permission or a parameter.
    """
    found = _BY_REASON.get(reason, Outcome.FAILED)
    return Outcome.REFUSED if found is Outcome.FAILED and is_refused else found
