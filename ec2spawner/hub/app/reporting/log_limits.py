"""Rate limits for log lines that clients can cause: a flood must not fill the hub's disk."""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Callable

from ....core.rate_limit import Rate, RateLimit
from ...security.signed_link import NotByThisLink
from ..spawn_error import SpawnError

LINES = Rate(burst=20, per_second=0.5)
"""Of each kind. Correct agents cause only 503s, while the hub cannot answer."""

UNPROVED_CLAIM = "Unproved claim from %s refused: %s"
REFUSED_CLAIM = "Claim from %s refused: %s"
"""Of an instance that AWS has vouched for. A flood of unproved claims suppresses none of these."""

_REFUSED_CALL = re.compile(r"(?:4\d\d|503) \S+ [^?\s]*/hub/api/ec2/")


class LogLimit(logging.Filter):
    """Passes `LINES` of the records that match, and all others. The next matching line that passes
    says how many were left out."""

    def __init__(
        self,
        matches: Callable[[logging.LogRecord], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._matches = matches
        self._monotonic = monotonic
        self._limit = RateLimit(LINES)
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop matching lines beyond the rate; the next one says how many were dropped."""
        if not self._matches(record):
            return True
        if not self._limit.take("", self._monotonic()):
            self._left_out += 1
            return False
        if self._left_out:
            record.msg = f"{record.getMessage()} [{self._left_out} more such lines left out]"
            record.args = ()
            self._left_out = 0
        return True


def is_refused_call(record: logging.LogRecord) -> bool:
    """JupyterHub's line about a call of the agents' API that was answered 4xx or 503.

    Only the path counts: a query string that names it would hide other requests from the log.
    """
    return record.levelno >= logging.WARNING and bool(_REFUSED_CALL.match(record.getMessage()))


def is_cut_off(record: logging.LogRecord) -> bool:
    """Tornado's line about a connection that it closes: a late or too large body, or no HTTP."""
    return str(record.msg).startswith(("Timeout reading body", "Malformed HTTP message"))


def is_unproved_claim(record: logging.LogRecord) -> bool:
    """Our line about a claim without a valid signature of AWS."""
    return record.msg == UNPROVED_CLAIM


def is_refused_claim(record: logging.LogRecord) -> bool:
    """Our line about a claim of an instance that gets no lease here."""
    return record.msg == REFUSED_CLAIM


def is_out_of_descriptors(record: logging.LogRecord) -> bool:
    """asyncio's line about a connection that cannot be accepted. It has a traceback, and repeats in
    each iteration of the loop until a descriptor is free."""
    error = record.exc_info[1] if record.exc_info else None
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


class WithoutTraceback(logging.Filter):
    """Logs a refused start as a warning of one line. JupyterHub's spawn page logs the traceback of
    each, and any user who is logged in can cause any number of them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Log a refused start as one warning: its message is for the user, not a defect."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, SpawnError | NotByThisLink):
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def install(app_log: logging.Logger) -> None:
    """Limit these lines for as long as the process runs. Call it once, with JupyterHub's log."""
    app_log.addFilter(WithoutTraceback())
    app_log.addFilter(LogLimit(is_unproved_claim))
    app_log.addFilter(LogLimit(is_refused_claim))
    logging.getLogger("tornado.access").addFilter(LogLimit(is_refused_call))
    logging.getLogger("tornado.general").addFilter(LogLimit(is_cut_off))
    logging.getLogger("asyncio").addFilter(LogLimit(is_out_of_descriptors))
