"""One agent for each boot: its key is in its memory only, and the hub accepts no other one.

systemd restarts an agent that has crashed. If that one had claimed, the hub would take the new key
for an attack, and raise an alarm. The lock is in the run directory, which is empty at each boot.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

FILE: Final = "agent.lock"
"""In the run directory. Locked while an agent runs; not empty once one has claimed."""


class AnotherAgentError(Exception):
    """Another agent runs on this instance."""


class AgentLock:
    """Held until the process ends. Its methods block for a file in memory.

    Where the file cannot be written, such as in a full /run, the agent runs without it: a restarted
    one is then refused by the hub.
    """

    def __init__(self, run_dir: Path) -> None:
        """Raises `AnotherAgentError`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(run_dir / FILE, flags, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AnotherAgentError(
                "another agent runs on this instance: this one does nothing"
            ) from None
        except OSError as error:
            log.warning("%s/%s cannot be locked: %s", run_dir, FILE, error)

    @property
    def has_claimed(self) -> bool:
        """Whether an agent of this boot has claimed: an earlier one, before `note_claim`."""
        return self._descriptor is not None and os.fstat(self._descriptor).st_size > 0

    def note_claim(self) -> None:
        """Before the first claim: from then on the hub may know the key."""
        try:
            if self._descriptor is not None:
                os.pwrite(self._descriptor, b"claimed\n", 0)
        except OSError as error:
            log.warning("the claim cannot be noted in %s: %s", FILE, error)
