"""Which statements of the policy allowed something: what none ever does is too much.

`EC2SPAWNER_POLICY_USE` names a folder in which each embedded EC2 notes it, in a file of its own;
the test suite compares the whole with the policy.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ..iam.policy import Decision

VARIABLE = "EC2SPAWNER_POLICY_USE"


class PolicyUse:
    """Notes each pair of statement and action once."""

    def __init__(self) -> None:
        folder = os.environ.get(VARIABLE)
        self._file = Path(folder) / f"{secrets.token_hex(8)}.txt" if folder else None
        self._noted: set[tuple[str, str]] = set()

    def add(self, decision: Decision, action: str) -> None:
        """The decision allowed this action."""
        if self._file is None or decision.statement is None:
            return
        pair = (decision.statement.sid, action)
        if pair not in self._noted:
            self._noted.add(pair)
            # Now, not at the end: some are killed.
            with self._file.open("a") as file:
                file.write(f"{' '.join(pair)}\n")
