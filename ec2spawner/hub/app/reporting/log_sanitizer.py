"""Makes control characters in the log lines of this package visible.

Messages of AWS, of agents and of users are arguments of log lines. An admin who reads the hub's log
in a terminal must see an escape sequence, or a line break that would forge another line; the
terminal must not execute it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from ....core.text.untrusted import visible

OURS = str(Path(__file__).parents[2])


def install() -> None:
    """Sanitize the arguments of our log lines until the process ends. Call it once.

    A record factory is the one place that all records pass, whatever their logger and handlers:
    spawners log through JupyterHub's.
    """
    make = logging.getLogRecordFactory()

    def factory(
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: object,
        args: Any,
        *more: Any,
        **named: Any,
    ) -> logging.LogRecord:
        if pathname.startswith(OURS):
            args = _visible(args)
        return make(name, level, pathname, lineno, msg, args, *more, **named)

    logging.setLogRecordFactory(factory)


def _visible(args: Any) -> Any:
    if isinstance(args, tuple):
        return tuple(map(_visible, args))
    if isinstance(args, str | BaseException):
        return visible(str(args))
    return args
