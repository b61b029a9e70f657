"""Log a failed iteration and continue the loop."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)


class Supervised:
    """`with supervised:` around one iteration: its exception is logged and suppressed.

    If it is the same as the last one, without its traceback. What is not an `Exception`, such as a
    cancellation, is raised.
    """

    def __init__(self, what: str) -> None:
        """`what` is the name of the loop in the log."""
        self._what = what
        self._logged = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            self._logged = ""
        if not isinstance(error, Exception):
            return False
        said = repr(error)
        if said == self._logged:
            log.error("%s failed again for the same reason; continuing: %s", self._what, said)
        else:
            log.error("%s failed; continuing", self._what, exc_info=error)
        self._logged = said
        return True
