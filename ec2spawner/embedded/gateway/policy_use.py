"""Which parts of the policy allowed something: what none ever does is too much.

`EC2SPAWNER_POLICY_USE` names a folder in which each embedded EC2 notes it, in a file of its own;
the test suite compares the whole with the policy.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ..iam.policy import Access, Decision

VARIABLE = "EC2SPAWNER_POLICY_USE"


class PolicyUse:
    """Notes each part of a statement once: an action, a resource, a value of a condition."""

    def __init__(self) -> None:
        folder = os.environ.get(VARIABLE)
        self._file = Path(folder) / f"{secrets.token_hex(8)}.txt" if folder else None
        self._noted: set[tuple[str, str]] = set()

    def add(self, decision: Decision, access: Access) -> None:
        """The decision allowed this access."""
        if self._file is None or decision.statement is None:
            return
        sid = decision.statement.sid
        parts = {(sid, part) for part in decision.statement.parts_for(access)} - self._noted
        if parts:
            self._noted |= parts
            # Now, not at the end: some are killed.
            with self._file.open("a") as file:
                file.writelines(f"{sid} {part}\n" for sid, part in sorted(parts))
