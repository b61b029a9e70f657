"""What a start changes of its server's home. Nothing of it holds before the start is admitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .lease import Home


@dataclass(frozen=True, slots=True)
class HomeChange:
    """The home of a server now, and with the start; equal if the start changes nothing."""

    before: Home | None = None
    after: Home | None = None
    """None if there is none yet, or it is deleted."""
    forgets_session: bool = False
    """Whether what sleeps in the home is lost with its files."""
    log_message: str = ""

    @property
    def deleted(self) -> Home | None:
        """The home that is deleted: another one takes its place, or none."""
        before, after = self.before, self.after
        is_same = before is not None and after is not None and before.home_id == after.home_id
        return None if is_same else before


NO_CHANGE: Final = HomeChange()
